/* What this process's own connections sent, by the NIC they go out of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "bench/p2p/pump.h"

static uint64_t packets_of(const char *netdev, uint64_t *lost)
{
    struct mn_p2p_nic nics[MN_P2P_NICS] = {{.device = ""}};
    int count = mn_p2p_counters(nics);

    for (int i = 0; i < count; i++)
        if (!strcmp(nics[i].netdev, netdev)) {
            *lost = nics[i].tcp_lost;
            return nics[i].tcp_packets;
        }
    fail_msg("no NIC %s", netdev);
    return 0;
}

static void own_connections(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    uint64_t lost, before = packets_of("lo", &lost);
    int door = socket(AF_INET, SOCK_STREAM, 0), here = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(bind(door, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&at, &length), 0);
    assert_int_equal(connect(here, (struct sockaddr *)&at, sizeof at), 0);
    int there = accept(door, NULL, NULL);
    assert_true(there >= 0);
    for (int i = 0; i < 3; i++) {
        char byte = 0;
        assert_int_equal(send(here, "x", 1, 0), 1);
        assert_int_equal(recv(there, &byte, 1, 0), 1);
    }
    assert_int_equal(packets_of("lo", &lost), before + 3);
    assert_int_equal(lost, 0);
    close(here);
    close(there);
    close(door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_connections)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
