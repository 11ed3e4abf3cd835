/* A kernel whose copies keep no order: the receive buffer is polled line by line all the same;
 * where nobody does, its copies are the only ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/context.h"

#define TRIES 20000 /* of a millisecond's sleep at most: the bound of every wait */
#define LINES 4096
#define LINE  16 /* words; the last is the flag */
#define BLOCK 64 /* bytes that become visible at once */

static _Alignas(4096) uint64_t from[LINES * LINE], to[LINES * LINE];
static uint64_t flag;
static unsigned long copied, torn, straight;

static uint64_t datum(size_t i)
{
    return flag ^ (i * 0x9e3779b97f4a7c15u);
}

/* What a GPU sees that looks just now: data whose flag is there must be there. */
static void look(void)
{
    for (size_t line = 0; line < LINES; line++)
        torn += to[line * LINE + LINE - 1] == flag && to[line * LINE] != datum(line * LINE);
}

/* As allowed by the manual of a processor with fast string copies: the last block first. */
static void copy_backwards(uint8_t *into, const uint8_t *bytes, size_t n)
{
    int polled = into >= (uint8_t *)to && into < (uint8_t *)(to + LINES * LINE);

    straight += polled ? n : 0;
    while (n) {
        size_t block = (uintptr_t)(into + n) % BLOCK ? (uintptr_t)(into + n) % BLOCK : BLOCK;
        block = block < n ? block : n;
        n -= block;
        memcpy(into + n, bytes + n, block);
        if (polled)
            look();
    }
}

/* In place of libc's. */
ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    static uint8_t bytes[4 << 20];
    struct msghdr own = *msg;
    struct iovec iov = {bytes, 0};
    ssize_t n;

    for (size_t i = 0; i < msg->msg_iovlen; i++)
        iov.iov_len += msg->msg_iov[i].iov_len;
    assert_true(iov.iov_len <= sizeof bytes);
    own.msg_iov = &iov;
    own.msg_iovlen = 1;
    n = syscall(SYS_recvmsg, fd, &own, flags);
    for (size_t i = 0, at = 0; n > 0 && at < (size_t)n; i++) {
        size_t part = (size_t)n - at;
        part = part < msg->msg_iov[i].iov_len ? part : msg->msg_iov[i].iov_len;
        copy_backwards(msg->msg_iov[i].iov_base, bytes + at, part);
        at += part;
    }
    copied += n > 0 ? (unsigned long)n : 0;
    return n;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void pass(void *send_comm, void *recv_comm)
{
    void *into = to, *send_mr, *recv_mr, *send = NULL, *recv = NULL;
    size_t size = sizeof to;
    int tag = 0, sent = 0, received = 0;

    assert_int_equal(mn_net_reg_mr(send_comm, from, sizeof from, NCCL_PTR_HOST, &send_mr), 0);
    assert_int_equal(mn_net_reg_mr(recv_comm, to, sizeof to, NCCL_PTR_HOST, &recv_mr), 0);
    for (int i = 0; i < TRIES && !recv; i++)
        assert_int_equal(mn_net_irecv(recv_comm, 1, &into, &size, &tag, &recv_mr, &recv), 0);
    for (int i = 0; i < TRIES && !(sent && received); i++, nap()) {
        if (!send)
            assert_int_equal(mn_net_isend(send_comm, from, sizeof from, tag, send_mr, &send), 0);
        if (send && !sent)
            assert_int_equal(mn_net_test(send, &sent, NULL), 0);
        if (!received)
            assert_int_equal(mn_net_test(recv, &received, NULL), 0);
        look();
    }
    assert_true(sent && received);
    assert_memory_equal(from, to, sizeof from);
    assert_int_equal(mn_net_dereg_mr(send_comm, send_mr), 0);
    assert_int_equal(mn_net_dereg_mr(recv_comm, recv_mr), 0);
}

static void pass_rounds(int unpolled)
{
    void *listen_comm, *send_comm = NULL, *recv_comm = NULL;
    uint8_t handle[MN_HANDLE_SIZE];
    struct mn_net *net = NULL;

    copied = torn = straight = 0;
    assert_int_equal(mn_net_open(NULL, -1, &net), ncclSuccess);
    net->config.unpolled = unpolled;
    assert_int_equal(mn_net_listen(net, 0, handle, &listen_comm), ncclSuccess);
    for (int i = 0; i < TRIES && (!send_comm || !recv_comm); i++, nap()) {
        if (!send_comm)
            assert_int_equal(mn_net_connect(net, 0, -1, handle, &send_comm), ncclSuccess);
        if (!recv_comm)
            assert_int_equal(mn_net_accept(listen_comm, &recv_comm), ncclSuccess);
    }
    assert_true(send_comm && recv_comm);
    for (uint64_t round = 1; round <= 4; round++) {
        flag = round * 0x0101010101010101u;
        for (size_t i = 0; i < LINES * LINE; i++)
            from[i] = i % LINE == LINE - 1 ? flag : datum(i);
        pass(send_comm, recv_comm);
    }
    assert_true(copied >= sizeof to); /* it was this kernel that brought them */
    assert_int_equal(mn_net_close_send(send_comm), ncclSuccess);
    assert_int_equal(mn_net_close_recv(recv_comm), ncclSuccess);
    assert_int_equal(mn_net_close_listen(listen_comm), ncclSuccess);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

static void no_line_shows_its_flag_before_its_data(void **state)
{
    (void)state;
    pass_rounds(0);
    assert_int_equal(torn, 0);
    assert_int_equal(straight, 0);
}

static void what_nobody_polls_is_copied_once(void **state)
{
    (void)state;
    pass_rounds(1);
    assert_true(straight > sizeof to); /* but for what came with headers */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_shows_its_flag_before_its_data),
        cmocka_unit_test(what_nobody_polls_is_copied_once),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    unsetenv("MESHNET_CONFIG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
