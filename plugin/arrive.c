#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/arrive.h"
#include "plugin/conn.h"
#include "topo/base/log.h"
#include "topo/base/mac.h"
#include "topo/nic.h"

#define MIN_WAITING     2
#define TAKE_MAX        512 /* a step and address */
#define SPARED_MS       300
#define SAY_AGAIN_MS    60000
#define BUDGET_FRACTION 8 /* of RLIMIT_NOFILE */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int listeners;           /* under the lock, as what follows */
static int reserve = -1;        /* a descriptor to be given up when there is no other */
static uint64_t said_ms;        /* that there is none; 0 = never */
static atomic_int share_of_one; /* places of a listener's table */

static void set_share(void)
{
    struct rlimit files = {.rlim_cur = 1024};

    (void)getrlimit(RLIMIT_NOFILE, &files);
    rlim_t budget = files.rlim_cur / BUDGET_FRACTION;
    rlim_t each = budget / (rlim_t)(listeners ? listeners : 1);
    atomic_store(&share_of_one, each < MIN_WAITING      ? MIN_WAITING
                                : each > MN_MAX_WAITING ? MN_MAX_WAITING
                                                        : (int)each);
}

static void fill_reserve(void)
{
    if (reserve < 0)
        reserve = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void mn_arrivals_open(struct mn_arrivals *a)
{
    memset(a, 0, sizeof *a);
    (void)mn_random(&a->lot, sizeof a->lot, NULL);
    pthread_mutex_lock(&lock);
    listeners++;
    set_share();
    fill_reserve();
    pthread_mutex_unlock(&lock);
}

void mn_arrivals_close(struct mn_arrivals *a)
{
    while (a->n)
        close(a->waiting[--a->n].fd);
    pthread_mutex_lock(&lock);
    listeners--;
    set_share();
    if (!listeners && reserve >= 0) {
        close(reserve);
        reserve = -1;
    }
    pthread_mutex_unlock(&lock);
}

/* --- who waits -------------------------------------------------------------------------------- */

static uint64_t source_of(const struct sockaddr_storage *ss)
{
    struct mn_addr addr;
    uint64_t source;

    (void)mn_addr_from_sockaddr((const struct sockaddr *)ss, &addr);
    memcpy(&source, addr.bytes, sizeof source);
    return source;
}

/* Nobody who could gain by it sees the numbers. */
static unsigned draw(struct mn_arrivals *a, unsigned below)
{
    a->lot ^= a->lot << 13;
    a->lot ^= a->lot >> 7;
    a->lot ^= a->lot << 17;
    return (unsigned)((a->lot >> 32) % below);
}

static void let_go(struct mn_arrivals *a, int i)
{
    close(a->waiting[i].fd);
    a->waiting[i] = a->waiting[--a->n];
}

/* One of the address that has most places, with the newcomer's; by lot, the young spared. */
static int choose(struct mn_arrivals *a, uint64_t newcomer, uint64_t now)
{
    int counts[MN_MAX_WAITING], most = 0, chosen = 0;
    unsigned old = 0, young = 0;

    for (int i = 0; i < a->n; i++) {
        counts[i] = a->waiting[i].source == newcomer;
        for (int k = 0; k < a->n; k++)
            counts[i] += a->waiting[k].source == a->waiting[i].source;
        most = counts[i] > most ? counts[i] : most;
    }
    for (int i = 0; i < a->n; i++) {
        if (counts[i] != most)
            continue;
        if (now - a->waiting[i].came_ms > SPARED_MS) {
            if (draw(a, ++old) == 0)
                chosen = i;
        } else if (!old && draw(a, ++young) == 0) {
            chosen = i;
        }
    }
    return chosen;
}

static void keep(struct mn_arrivals *a, int fd, uint64_t source)
{
    uint64_t now = mn_now_ms();

    while (a->n >= atomic_load(&share_of_one))
        let_go(a, choose(a, source, now));
    a->waiting[a->n++] = (struct mn_arrival){.fd = fd, .source = source, .came_ms = now};
}

static void look_again(struct mn_arrivals *a, unsigned patience_ms, mn_arrival_judge judge,
                       void *listener)
{
    uint64_t now = mn_now_ms();

    for (int i = a->n - 1; i >= 0; i--) {
        enum mn_verdict verdict = judge(listener, a->waiting[i].fd);
        if (verdict == MN_ARRIVAL_TAKEN)
            a->waiting[i] = a->waiting[--a->n];
        else if (verdict == MN_ARRIVAL_STRANGER || now - a->waiting[i].came_ms > patience_ms)
            let_go(a, i);
    }
}

/* --- without descriptors ---------------------------------------------------------------------- */

/* With the lock held. */
static void say_full(int error)
{
    uint64_t now = mn_now_ms();

    if (said_ms && now - said_ms < SAY_AGAIN_MS)
        return;
    said_ms = now;
    MN_WARN("accept: %s: peers that connect wait until there are descriptors again (see ulimit -n "
            "and sysctl fs.file-max)",
            strerror(error));
}

/* accept4() with the reserve in hand, and a look at once: only a peer may keep the descriptor.
 * 1: somebody was there. */
static int take_by_reserve(int fd, int error, mn_arrival_judge judge, void *listener)
{
    int taken = -1;

    pthread_mutex_lock(&lock);
    say_full(error);
    if (reserve >= 0) {
        close(reserve);
        reserve = -1;
        taken = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (taken >= 0 && judge(listener, taken) != MN_ARRIVAL_TAKEN)
            close(taken);
    }
    fill_reserve();
    pthread_mutex_unlock(&lock);
    return taken >= 0;
}

static void mend_reserve(void)
{
    pthread_mutex_lock(&lock);
    fill_reserve();
    pthread_mutex_unlock(&lock);
}

/* --- who comes -------------------------------------------------------------------------------- */

/* 1: there may be more. */
static int take(struct mn_arrivals *a, int fd, mn_arrival_judge judge, void *listener)
{
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof from;
    int taken = accept4(fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (taken < 0 && (errno == EMFILE || errno == ENFILE)) {
        int error = errno;
        /* It fails like this when nobody is there, too. */
        if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) <= 0)
            return 0;
        if (!a->n)
            return take_by_reserve(fd, error, judge, listener);
        pthread_mutex_lock(&lock);
        say_full(error);
        pthread_mutex_unlock(&lock);
        let_go(a, choose(a, 0, mn_now_ms()));
        return 1;
    }
    if (taken < 0)
        return errno == ECONNABORTED || errno == EINTR;
    switch (judge(listener, taken)) {
    case MN_ARRIVAL_WAITS:
        keep(a, taken, source_of(&from));
        break;
    case MN_ARRIVAL_STRANGER:
        close(taken);
        break;
    default:
        break;
    }
    return 1;
}

void mn_arrivals_step(struct mn_arrivals *a, const int *fds, int n_fds, unsigned patience_ms,
                      mn_arrival_judge judge, void *listener)
{
    look_again(a, patience_ms, judge, listener);
    mend_reserve();
    for (int i = 0; i < n_fds; i++)
        for (int n = 0; n < TAKE_MAX && take(a, fds[i], judge, listener); n++)
            ;
}
