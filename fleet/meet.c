/* The line: "meshnet 1 TOKEN PLACE PORT@ADDRESS/LENGTH ...", loopback first. Ranks of one place (a
 * network namespace of a host) meet at loopback. */
#include "fleet/meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/base/alloc.h"

#define PLACE 128

static void own_place(char place[PLACE])
{
    struct stat net = {.st_ino = 0};
    char *boot = NULL;

    (void)mn_file_read("/proc/sys/kernel/random/boot_id", 64, &boot, NULL, NULL);
    (void)stat("/proc/self/ns/net", &net);
    snprintf(place, PLACE, "%.36s:%llu", boot ? boot : "?", (unsigned long long)net.st_ino);
    free(boot);
}

enum mn_err mn_meet_addresses(struct mn_addr **addrs, size_t *count, struct mn_diag *diag)
{
    struct mn_host host = {.n_nics = 0};
    enum mn_err err = mn_host_read(NULL, &host, diag);

    *addrs = NULL;
    *count = 0;
    for (size_t i = 0; i < host.n_nics && !err; i++)
        for (size_t a = 0; a < host.nics[i].n_addrs && host.nics[i].admin_up; a++) {
            const struct mn_addr *addr = &host.nics[i].addrs[a];
            if (!mn_addr_is_loopback(addr) && !mn_addr_is_link_local(addr))
                *(struct mn_addr *)mn_grow((void **)addrs, count, sizeof *addr) = *addr;
        }
    mn_host_free(&host);
    return err;
}

static enum mn_err open_door(struct mn_group_plan *plan, const struct mn_addr *addr, char *line,
                             struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    struct mn_addr own;
    socklen_t length = sizeof ss;
    char text[MN_ADDR_TEXT];
    size_t used = strlen(line);
    enum mn_err err = mn_ctl_listen(addr, 0, &plan->doors[plan->n_doors], diag);

    if (err)
        return err;
    if (getsockname(plan->doors[plan->n_doors++], (struct sockaddr *)&ss, &length))
        return mn_fail_errno(diag, "the port of a listening socket");
    snprintf(line + used, MN_MEET_LINE - used, " %d@%s",
             mn_addr_from_sockaddr((const struct sockaddr *)&ss, &own),
             mn_addr_format(addr, text, sizeof text));
    return MN_OK;
}

enum mn_err mn_meet_open(struct mn_group_plan *plan, const struct mn_addr *addrs, size_t count,
                         char line[MN_MEET_LINE], struct mn_diag *diag)
{
    char place[PLACE], token[2 * MN_KEY_SIZE + 1];
    struct mn_addr loopback;
    enum mn_err err = mn_addr_parse("127.0.0.1/8", &loopback, diag);

    if (!err)
        err = mn_random(plan->token, sizeof plan->token, diag);
    own_place(place);
    for (size_t i = 0; i < MN_KEY_SIZE; i++)
        snprintf(token + 2 * i, 3, "%02x", plan->token[i]);
    snprintf(line, MN_MEET_LINE, "meshnet 1 %s %s", token, place);
    plan->n_doors = 0;
    if (!err)
        err = open_door(plan, &loopback, line, diag);
    /* One that cannot be had, as of IPv6 at its beginning, is left out. */
    for (size_t i = 0; i < count && plan->n_doors < MN_GROUP_DOORS && !err; i++)
        (void)open_door(plan, &addrs[i], line, NULL);
    return err;
}

/* How good a door is for one with these addresses: of its own host, cabled, perhaps routed. */
static int worth(const struct mn_addr *door, int same_place, const struct mn_addr *addrs,
                 size_t count)
{
    if (mn_addr_is_loopback(door))
        return same_place ? 3 : 0;
    /* A bridge of containers has the same address on every host. */
    for (size_t i = 0; i < count && !same_place; i++)
        if (mn_addr_equal(door, &addrs[i]))
            return 0;
    for (size_t i = 0; i < count; i++)
        if (mn_addr_share_subnet(door, &addrs[i]))
            return 2;
    return 1;
}

enum mn_err mn_meet_read(const char *line, const struct mn_addr *addrs, size_t count,
                         struct mn_group_plan *plan, char host[MN_ADDR_TEXT], struct mn_diag *diag)
{
    char token[64] = "", place[PLACE] = "", here[PLACE];
    int at = 0, best = 0;

    if (sscanf(line, "meshnet 1 %63s %127s%n", token, place, &at) != 2 || !at ||
        mn_key_parse(token, plan->token, NULL))
        return mn_fail(diag, MN_ERR_PROTO,
                       "what rank 0 says of itself is not understood; give all ranks the same "
                       "meshnet");
    own_place(here);
    for (int used; line[at]; at += used) {
        char text[MN_ADDR_TEXT];
        unsigned port;
        struct mn_addr addr;
        if (sscanf(line + at, " %5u@%63s%n", &port, text, &used) != 2 || !port || port > 65535 ||
            mn_addr_parse(text, &addr, NULL))
            return mn_fail(diag, MN_ERR_PROTO, "where rank 0 listens is not understood: '%.80s'",
                           line + at);
        int good = worth(&addr, strcmp(place, here) == 0, addrs, count);
        if (good <= best)
            continue;
        best = good;
        addr.prefix = -1;
        mn_addr_format(&addr, host, MN_ADDR_TEXT);
        plan->host = host;
        plan->port = (uint16_t)port;
    }
    return best ? MN_OK
                : mn_fail(diag, MN_ERR_NOTFOUND,
                          "rank 0 is on another host and listens at none of its addresses");
}
