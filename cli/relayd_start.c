/* What relayd is started with. */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/relayd.h"
#include "plugin/conn.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

/* --- users ------------------------------------------------------------------------------------ */

static enum mn_err find_user(const char *name, uint32_t *uid, struct mn_diag *diag)
{
    char *end;
    const struct passwd *entry;

    errno = 0;
    unsigned long long number = strtoull(name, &end, 10);
    if (*name >= '0' && *name <= '9' && !*end) {
        if (errno || number >= UINT32_MAX)
            return mn_fail(diag, MN_ERR_USAGE, "--users %.60s: no user has this number", name);
        *uid = (uint32_t)number;
        return MN_OK;
    }
    entry = getpwnam(name);
    if (!entry)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--users %.60s: no user of this host (getent passwd %.60s): a name or a "
                       "number is expected",
                       name, name);
    *uid = entry->pw_uid;
    return MN_OK;
}

static enum mn_err find_users(const struct mn_relayd_options *o, struct mn_relayd_start *s,
                              struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    s->users = mn_zalloc((o->users.count + 1) * sizeof *s->users);
    for (size_t i = 0; i < o->users.count && !err; i++)
        err = find_user(o->users.items[i], &s->users[i], diag);
    return err;
}

/* --- the mesh file and its key ---------------------------------------------------------------- */

static enum mn_err check_key(const struct mn_settings *settings, const char *path,
                             struct mn_diag *diag)
{
    uint8_t key[MN_KEY_SIZE];
    struct mn_diag why;

    if (!settings->key_file[0])
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s has no cluster key, and without one anybody on a cable could use this "
                       "relay: on one node\n  (umask 077; " MN_KEY_MAKE
                       " >/etc/meshnet/key)\ncopy that file to every node, and in the mesh file of "
                       "all say\n  plugin: {key_file: /etc/meshnet/key}",
                       path);
    enum mn_err err = mn_key_read(settings->key_file, key, &why);
    mn_wipe(key, sizeof key);
    return err ? mn_fail(diag, MN_ERR_CONFIG, "the cluster key: %.900s", why.text) : MN_OK;
}

static enum mn_err find_self(struct mn_relayd_start *s, struct mn_diag *diag)
{
    struct mn_host host;
    char why[256];
    enum mn_err err = mn_host_read(NULL, &host, diag);

    if (!err)
        err = mn_mesh_find_self(&s->mesh, &host, &s->self, why, sizeof why, diag);
    mn_host_free(&host);
    return err;
}

enum mn_err mn_relayd_read(const struct mn_relayd_options *o, struct mn_relayd_start *s,
                           struct mn_diag *diag)
{
    static struct mn_settings settings;

    memset(s, 0, sizeof *s);
    mn_mesh_init(&s->mesh);
    enum mn_err err = find_users(o, s, diag);
    if (!err && !mn_mesh_find_file(s->path, sizeof s->path))
        err = mn_fail(diag, MN_ERR_CONFIG,
                      "no mesh file says who the neighbours are: meshnet discover writes one, "
                      "meshnet push puts it on every node, --mesh FILE names it");
    /* One connection takes all cables to a neighbour, whatever the jobs' devices are. */
    if (!err && setenv("MESHNET_DEVICE_MODE", "mesh", 1))
        err = mn_fail_errno(diag, "setting MESHNET_DEVICE_MODE");
    if (!err)
        err = mn_mesh_read(s->path, &s->mesh, diag);
    if (!err)
        err = mn_settings_in_force(&settings, diag);
    if (!err)
        err = check_key(&settings, s->path, diag);
    if (!err)
        err = find_self(s, diag);
    s->mesh.settings = settings;
    s->socket = o->socket ? o->socket : s->mesh.settings.relay_socket;
    return err;
}

void mn_relayd_free(struct mn_relayd_start *s)
{
    if (s->here)
        mn_config_free(&s->config);
    mn_mesh_free(&s->mesh);
    free(s->users);
}

/* --- what of it is on this host --------------------------------------------------------------- */

/* An end of a cable that carries something. */
static int has_cable(const struct mn_mesh *mesh, int node, size_t nic)
{
    for (size_t i = 0; i < mesh->n_links; i++)
        for (int e = 0; e < 2; e++)
            if (mesh->links[i].ends[e].node == node && mesh->links[i].ends[e].nic == (int)nic &&
                !mn_link_is_bare(&mesh->links[i]))
                return 1;
    return 0;
}

size_t mn_relayd_addresses(const struct mn_relayd_start *s, size_t *here, char *missing,
                           size_t size)
{
    const struct mn_mesh_node *node = &s->mesh.nodes[s->self];
    struct ifaddrs *all = NULL;
    size_t count = 0, used = 0;
    char text[MN_ADDR_TEXT];

    *here = 0;
    missing[0] = '\0';
    (void)getifaddrs(&all); /* without it none is known to be here */
    for (size_t n = 0; n < node->n_nics; n++)
        for (size_t a = 0; a < node->nics[n].n_addrs && has_cable(&s->mesh, s->self, n); a++) {
            count++;
            if (mn_addr_here(all, &node->nics[n].addrs[a]))
                ++*here;
            else if (used < size)
                used += (size_t)snprintf(missing + used, size - used, "%s%s (%s)", used ? ", " : "",
                                         mn_addr_format(&node->nics[n].addrs[a], text, sizeof text),
                                         node->nics[n].netdev);
        }
    if (all)
        freeifaddrs(all);
    return count;
}

static struct mn_nic *nic_of(struct mn_host *host, const struct mn_mesh_nic *want)
{
    const struct mn_nic *there = mn_mesh_nic_on_host(host, want);

    if (there)
        return &host->nics[there - host->nics];
    struct mn_nic *nic = mn_grow((void **)&host->nics, &host->n_nics, sizeof *nic);
    mn_strlcpy(nic->netdev, want->netdev, sizeof nic->netdev);
    nic->rdma = -1;
    return nic;
}

/* Not where the kernel has no such addresses, or does not know IP_FREEBIND for them. */
static int can_listen_ahead(const struct mn_addr *addr)
{
    struct sockaddr_storage ss;
    socklen_t len = mn_addr_sockaddr(addr, 0, 0, &ss);
    int fd = socket(addr->family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return 0;
    mn_socket_bind_ahead(fd, addr->family);
    int can = !bind(fd, (struct sockaddr *)&ss, len);
    close(fd);
    return can;
}

/* The host as it is with all its cables plugged, for a relay that listens at their addresses
 * whether they are or not. Of more than it can listen at, those that are here have the places. */
static void plug_all(const struct mn_relayd_start *s, struct mn_host *host)
{
    const struct mn_mesh_node *node = &s->mesh.nodes[s->self];
    char missing[1];
    size_t here;

    if (mn_relayd_addresses(s, &here, missing, sizeof missing) > MN_MAX_LOCALS)
        return;
    for (size_t n = 0; n < node->n_nics; n++) {
        const struct mn_mesh_nic *want = &node->nics[n];
        if (!has_cable(&s->mesh, s->self, n))
            continue;
        struct mn_nic *nic = nic_of(host, want);
        nic->admin_up = 1;
        for (size_t a = 0; a < want->n_addrs; a++)
            if (!mn_host_nic_by_addr(host, &want->addrs[a]) && can_listen_ahead(&want->addrs[a])) {
                struct mn_addr *addr =
                    mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof *nic->addrs);
                *addr = want->addrs[a];
            }
    }
}

enum mn_err mn_relayd_config(struct mn_relayd_start *s, struct mn_diag *diag)
{
    struct mn_host host;

    if (s->here)
        mn_config_free(&s->config);
    s->here = 0;
    enum mn_err err = mn_host_read(NULL, &host, diag);
    if (!err) {
        plug_all(s, &host);
        err = mn_config_from_host(&s->config, &host, diag);
    }
    mn_host_free(&host);
    if (!err)
        mn_strlcpy(s->config.settings.relay_socket, s->socket,
                   sizeof s->config.settings.relay_socket);
    s->here = !err;
    return err;
}

/* --- saying it -------------------------------------------------------------------------------- */

static void say_users(const struct mn_relayd_options *o, const struct mn_relayd_start *s)
{
    printf("local socket %s, for ", s->socket);
    if (o->anyone) {
        puts("every user of this host");
        return;
    }
    printf("root");
    if (geteuid())
        printf(", user %u", geteuid());
    for (size_t i = 0; i < o->users.count; i++)
        if (strspn(o->users.items[i], "0123456789") == strlen(o->users.items[i]))
            printf(", user %u", s->users[i]);
        else
            printf(", %s (%u)", o->users.items[i], s->users[i]);
    puts(o->users.count ? "" : " and who has the cluster key (--users lets others)");
}

void mn_relayd_say(const struct mn_relayd_options *o, const struct mn_relayd_start *s)
{
    const struct mn_settings *settings = &s->mesh.settings;
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    char size[32], may[32];
    int rdma = 0;

    printf("node %s of %s\n", s->mesh.nodes[s->self].name, s->path);
    say_users(o, s);
    printf("buffers %s, made at once and never more\n",
           mn_format_size(settings->relay_buffers, size, sizeof size));
    for (int i = 0; s->here && i < s->config.n_devices; i++)
        for (int k = 0; k < s->config.devices[i].n_locals; k++)
            rdma |= s->config.devices[i].locals[k].rdma_device[0] != 0;
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    if (rdma && geteuid() && limit.rlim_cur / 2 < settings->relay_buffers)
        fprintf(stderr,
                "meshnet relayd: it may lock %s, and RDMA pins its buffers, %s, twice: cables "
                "carry TCP until that is raised (LimitMEMLOCK=infinity in its unit, ulimit -l "
                "unlimited), or relay.buffers is smaller\n",
                mn_format_size(limit.rlim_cur, may, sizeof may), size);
}
