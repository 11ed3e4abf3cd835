/* FAKEVERBS="key=value,key=value": one row a key, which is also the help. */
#include "tests/fakeverbs/fv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void set_device(struct fv_config *config, const char *value);
static void set_link(struct fv_config *config, const char *value);
static void set_speed(struct fv_config *config, const char *value);
static void set_bare(struct fv_config *config, const char *value);
static void set_lost(struct fv_config *config, const char *value);
static void set_slow(struct fv_config *config, const char *value);
static void set_fail(struct fv_config *config, const char *value);

#define NUMBER(key, initial, help)                                                                 \
    {                                                                                              \
#key, initial, offsetof(struct fv_config, key), 0, NULL, help                              \
    }
#define TEXT(key, help)                                                                            \
    {                                                                                              \
#key, 0, offsetof(struct fv_config, key), sizeof(((struct fv_config *)0)->key), NULL, help \
    }

static const struct key {
    const char *name;
    long initial;
    size_t offset, size; /* size 0: a number */
    void (*set)(struct fv_config *config, const char *value);
    const char *help;
} keys[] = {
    {"dev", 0, 0, 0, set_device,
     "NAME:NETDEV:ADDRESS[+ADDRESS]: a device; again for more (fv0:lo:127.0.0.1+::1)"},
    {"link", 0, 0, 0, set_link, "NAME:down or NAME:up: the port's state"},
    {"lost", 0, 0, 0, set_lost,
     "NAME:in, out, both or none: what is lost at a port that is up; packets under way come late"},
    {"fail", 0, 0, 0, set_fail,
     "VERB:N: the Nth call from now on fails; VERB is create_cq create_qp modify_qp rtr post_send "
     "post_recv, or event: one of a completion queue is lost; 0: none"},
    {"speed", 0, 0, 0, set_speed, "NAME:GBPS: 10 20 25 40 50 100 200 400 (100)"},
    {"slow", 0, 0, 0, set_slow,
     "NAME:N: a packet (32 KiB at most) takes N polls to leave, N us in a fabric of several (shm)"},
    {"bare", 0, 0, 0, set_bare, "NAME:1: takes no DMA-BUF and answers no reads"},
    NUMBER(seed, 1, "of all chances; the same seed and calls replay exactly"),
    NUMBER(max_qp_wr, 16384, "limit of either queue of a queue pair"),
    NUMBER(max_sge, 32, "limit of pieces of a work request"),
    NUMBER(max_inline, 512, "limit of inline data"),
    NUMBER(infiniband, 0,
           "1: the ports are InfiniBand, reached by LID inside one process; 2: and every packet "
           "needs a GRH"),
    NUMBER(inline_every, 0, "all but every Nth queue pair refuse inline data"),
    NUMBER(max_msg, 1L << 30, "limit of a message"),
    NUMBER(max_cqe, 32767, "limit of a completion queue"),
    NUMBER(max_qp, FV_SLOTS, "limit of queue pairs"),
    NUMBER(max_mr, 65536, "limit of memory regions"),
    NUMBER(max_rd_atomic, 16, "limit of RDMA reads in flight"),
    NUMBER(atomics, 0, "1: the device says it has atomic operations (none is carried out)"),
    NUMBER(mtu, 4096, "of the ports"),
    NUMBER(dmabuf, 0,
           "1: ibv_reg_dmabuf_mr maps the descriptor; 2: and what is written there is seen only "
           "after the device has served a read"),
    NUMBER(steps, 64, "scheduler steps a verbs call runs at most"),
    NUMBER(timeout, 2000, "polls until an unreachable peer is RETRY_EXC_ERR"),
    NUMBER(delay, 0, "packets and completions are late by up to so many polls"),
    NUMBER(reorder, 0, "1: any order between queue pairs, writes land in pieces"),
    NUMBER(error, 0, "the Nth send operation fails with a random status"),
    NUMBER(flap, 0, "the port goes down at the Nth send operation"),
    NUMBER(flap_polls, 200, "polls until a flapping port comes back"),
    NUMBER(silent, 0, "from the Nth send operation on nothing arrives and nothing fails"),
    NUMBER(drop_rtr, 0, "ms that modify to RTR takes; to an unknown address it always fails"),
    NUMBER(rtr_silent, 0,
           "the first N moves to RTR time out, as where nobody answers for an address"),
    NUMBER(lose, 0, "every Nth message of UC and UD queue pairs is lost"),
    NUMBER(gidshift, 0, "the GID table shifts after N uses; an event tells it"),
    NUMBER(gidmute, 0, "1: no event tells it"),
    NUMBER(nomem, 0, "the Nth registration fails with ENOMEM"),
    NUMBER(ece, 0, "bits below 32 of enhanced connection establishment that the devices have"),
    NUMBER(forkless, 0, "what ibv_fork_init returns"),
    NUMBER(control, 0, "us that each verb takes which asks the kernel"),
    NUMBER(linger, 0,
           "what is under way to a queue pair lands for up to so many polls after modify to the "
           "error state has returned, before its receives are flushed"),
    NUMBER(noflush, 0, "1: receives are not flushed in the error state"),
    NUMBER(portmute, 0, "1: no event tells of a port"),
    NUMBER(slowcq, 0, "1: a poll gives one completion at most, and often none"),
    NUMBER(leaks, 0, "abort at exit: 1 if QPs, CQs or MRs remain, 2 also PDs and contexts"),
    NUMBER(strict, 1, "0: a region may be deregistered under work in flight, which then fails"),
    NUMBER(nap, 20, "microseconds between looks of a busy process's helper thread; 0 spins (shm)"),
    TEXT(pulled, "file: while it is there, the ports of the devices that it names are down, all if "
                 "it is empty, as "
                 "with the cables pulled (shm)"),
    TEXT(muted, "file: while it is there, nothing arrives at the devices that it names, or at any, "
                "though the "
                "ports are up (shm)"),
    TEXT(untold, "device of whose port no event tells"),
    TEXT(stats, "file that gets the counters at exit"),
    TEXT(shm, "file of a fabric shared between processes"),
};

static const int speeds[] = {10, 20, 25, 40, 50, 100, 200, 400};

static long number(const char *key, const char *value)
{
    char *end;
    errno = 0;
    long n = strtol(value, &end, 0);
    if (errno || end == value || *end || n < 0)
        fv_die("FAKEVERBS: %s=%s: expected a number of 0 or more", key, value);
    return n;
}

static void add_address(struct fv_device_config *device, const char *text)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (device->n_addrs == FV_ADDRS)
        fv_die("FAKEVERBS: dev=%s has more than %d addresses", device->name, FV_ADDRS);
    uint8_t *addr = device->addr[device->n_addrs++];
    memcpy(addr, mapped, sizeof mapped);
    if (inet_pton(AF_INET, text, addr + 12) != 1 && inet_pton(AF_INET6, text, addr) != 1)
        fv_die("FAKEVERBS: dev=%s: %s is no address", device->name, text);
}

static void set_device(struct fv_config *config, const char *value)
{
    if (config->n_devices == FV_DEVICES)
        fv_die("FAKEVERBS: more than %d devices", FV_DEVICES);
    struct fv_device_config *device = &config->devices[config->n_devices++];
    memset(device, 0, sizeof *device);
    device->gbps = 100;
    char addresses[256];
    if (sscanf(value, "%31[^:]:%15[^:]:%255s", device->name, device->netdev, addresses) != 3)
        fv_die("FAKEVERBS: dev=%s: expected NAME:NETDEV:ADDRESS", value);
    char *rest = addresses;
    for (char *text = strsep(&rest, "+"); text; text = strsep(&rest, "+"))
        add_address(device, text);
}

/* NAME:VALUE of a device named before. */
static struct fv_device_config *named(struct fv_config *config, const char *key, const char *text,
                                      const char **value)
{
    const char *colon = strchr(text, ':');
    for (int i = 0; colon && i < config->n_devices; i++) {
        const char *name = config->devices[i].name;
        if (strlen(name) == (size_t)(colon - text) && strncmp(name, text, strlen(name)) == 0) {
            *value = colon + 1;
            return &config->devices[i];
        }
    }
    fv_die("FAKEVERBS: %s=%s: expected NAME:VALUE with the NAME of a dev= before it", key, text);
}

static void set_link(struct fv_config *config, const char *value)
{
    struct fv_device_config *device = named(config, "link", value, &value);
    device->down = strcmp(value, "down") == 0;
    if (!device->down && strcmp(value, "up") != 0)
        fv_die("FAKEVERBS: link=%s:%s: expected up or down", device->name, value);
}

static void set_speed(struct fv_config *config, const char *value)
{
    struct fv_device_config *device = named(config, "speed", value, &value);
    device->gbps = (int)number("speed", value);
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (speeds[i] == device->gbps)
            return;
    fv_die("FAKEVERBS: speed=%s:%d is no speed a port has", device->name, device->gbps);
}

static void set_bare(struct fv_config *config, const char *value)
{
    struct fv_device_config *device = named(config, "bare", value, &value);
    device->bare = (int)number("bare", value);
}

static void set_slow(struct fv_config *config, const char *value)
{
    struct fv_device_config *device = named(config, "slow", value, &value);
    device->slow = number("slow", value);
}

static void set_lost(struct fv_config *config, const char *value)
{
    static const char *const words[] = {"none", "in", "out", "both"};
    struct fv_device_config *device = named(config, "lost", value, &value);
    for (unsigned int i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) == 0) {
            device->lost = i;
            return;
        }
    }
    fv_die("FAKEVERBS: lost=%s:%s: expected none, in, out or both", device->name, value);
}

static void set_fail(struct fv_config *config, const char *value)
{
    static const char *const verbs[FV_N_FAILING] = {
        [FV_FAIL_CREATE_CQ] = "create_cq", [FV_FAIL_CREATE_QP] = "create_qp",
        [FV_FAIL_MODIFY_QP] = "modify_qp", [FV_FAIL_RTR] = "rtr",
        [FV_FAIL_POST_SEND] = "post_send", [FV_FAIL_POST_RECV] = "post_recv",
        [FV_FAIL_EVENT] = "event",
    };
    const char *colon = strchr(value, ':');
    for (int i = 0; i < FV_N_FAILING && colon; i++) {
        if (strlen(verbs[i]) == (size_t)(colon - value) &&
            strncmp(value, verbs[i], strlen(verbs[i])) == 0) {
            config->fail[i] = number("fail", colon + 1);
            return;
        }
    }
    fv_die("FAKEVERBS: fail=%s: expected VERB:N, see FAKEVERBS=help", value);
}

static void help(void)
{
    printf("FAKEVERBS=\"key=value,key=value\"\n");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        printf("  %-14s %s\n", keys[i].name, keys[i].help);
    fflush(stdout);
    _exit(0); /* what runs at exit takes the lock */
}

static void set(struct fv_config *config, const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct key *key = &keys[i];
        if (strcmp(key->name, name) != 0)
            continue;
        char *at = (char *)config + key->offset;
        if (key->set) {
            key->set(config, value);
        } else if (key->size) {
            if (strlen(value) >= key->size)
                fv_die("FAKEVERBS: %s is too long", name);
            strcpy(at, value);
        } else {
            long n = number(name, value);
            memcpy(at, &n, sizeof n);
        }
        return;
    }
    fv_die("FAKEVERBS: unknown key %s; FAKEVERBS=help lists them", name);
}

void fv_config_change(struct fv_config *config, const char *text)
{
    char *copy = strdup(text), *rest = copy;
    if (!copy)
        fv_die("no memory");
    for (char *pair = strsep(&rest, ","); pair; pair = strsep(&rest, ",")) {
        char *value = strchr(pair, '=');
        if (!*pair)
            continue;
        if (!value)
            fv_die("FAKEVERBS: %s: expected key=value", pair);
        *value++ = '\0';
        set(config, pair, value);
    }
    free(copy);
    if (config->max_sge > FV_SGE || config->max_qp > FV_SLOTS)
        fv_die("FAKEVERBS: max_sge is at most %d, max_qp at most %d", FV_SGE, FV_SLOTS);
}

void fv_config_read(struct fv_config *config, const char *text)
{
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!keys[i].set && !keys[i].size)
            memcpy((char *)config + keys[i].offset, &keys[i].initial, sizeof keys[i].initial);
    if (!text)
        text = "";
    if (strcmp(text, "help") == 0)
        help();
    if (!strstr(text, "dev="))
        set_device(config, "fv0:lo:127.0.0.1+::1");
    fv_config_change(config, text);
}
