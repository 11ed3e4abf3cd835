/* Lines of a group whose callers go away again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fleet/group/group_impl.h"

#define CALLS 20 /* more than there are places */

/* As one who calls, and dies while he waits for the other. */
static int abandon(struct mn_group *g, unsigned number)
{
    cJSON *message = cJSON_CreateObject();
    struct mn_ctl ctl;
    struct mn_diag diag;

    cJSON_AddNumberToObject(message, "line", number);
    cJSON_AddNumberToObject(message, "side", 0);
    if (mn_ctl_reach(g->plan.host, g->plan.port, g->plan.token, g->plan.timeout_ms, &ctl, &diag)) {
        cJSON_Delete(message);
        return 1;
    }
    enum mn_err err = mn_ctl_send(&ctl, message, &diag);
    mn_ctl_close(&ctl);
    return err != MN_OK;
}

static int call(struct mn_group *g)
{
    int rank = mn_group_rank(g);
    struct mn_diag diag;

    if (mn_group_open_lines(g, &diag) || mn_group_barrier(g, &diag))
        return 1;
    /* A line that works shows each time that those before it have been looked at. */
    for (unsigned i = 0; i < CALLS; i++) {
        struct mn_ctl ctl;
        if (rank && abandon(g, 2 * i))
            return 2;
        if (mn_group_line(g, 2 * i + 1, !rank, &ctl, &diag))
            return 3;
        mn_ctl_close(&ctl);
    }
    return mn_group_barrier(g, &diag) ? 4 : 0;
}

struct party {
    struct mn_group_plan plan;
    int result;
};

static void *one_rank(void *arg)
{
    struct party *p = arg;
    struct mn_group *group;
    struct mn_diag diag;

    p->result = -1;
    if (mn_group_join(&p->plan, &group, &diag))
        return NULL;
    p->result = call(group);
    mn_group_leave(group);
    return NULL;
}

static void test_who_goes_away_leaves_his_place(void **state)
{
    struct party parties[2];
    pthread_t threads[2];
    struct mn_addr addr;
    struct sockaddr_in in;
    socklen_t len = sizeof in;
    int door;

    (void)state;
    assert_int_equal(mn_addr_parse("127.0.0.1", &addr, NULL), MN_OK);
    assert_int_equal(mn_ctl_listen(&addr, 0, &door, NULL), MN_OK);
    assert_int_equal(getsockname(door, (struct sockaddr *)&in, &len), 0);
    for (int r = 0; r < 2; r++) {
        parties[r].plan = (struct mn_group_plan){.rank = r,
                                                 .nranks = 2,
                                                 .host = "127.0.0.1",
                                                 .port = ntohs(in.sin_port),
                                                 .doors = {door},
                                                 .n_doors = !r,
                                                 .token = {1, 2, 3},
                                                 .timeout_ms = 20000};
        assert_int_equal(pthread_create(&threads[r], NULL, one_rank, &parties[r]), 0);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    close(door);
    for (int r = 0; r < 2; r++)
        assert_int_equal(parties[r].result, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_goes_away_leaves_his_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
