/* When packets need a global header, and which LID they go to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "plugin/transport/verbs/verbs.h"

static void paths(void **state)
{
    static const uint8_t local[16] = {0xfe, 0x80, [15] = 1}, near[16] = {0xfe, 0x80, [15] = 2},
                         other[16] = {0xfe, 0xc0, [7] = 1, [15] = 2},
                         next[16] = {0xfe, 0x80, [7] = 1, [15] = 2},
                         by_router[16] = {0xfe, 0x80, 0, 0, 0x12, 0x34, 0, 1, [15] = 2},
                         here[16] = {0xfe, 0x80, 0, 0, 0x12, 0x34, 0, 0, [15] = 2};
    const struct {
        int infiniband, grh, their_grh;
        const uint8_t *to;
        int is_global, dlid, known;
    } rows[] = {
        {0, 0, 0, near, 1, 9, 1},           {1, 0, 0, near, 0, 9, 1}, {1, 1, 0, near, 1, 9, 1},
        {1, 0, 1, near, 1, 9, 1},           {1, 0, 0, next, 1, 9, 0}, {1, 0, 0, other, 1, 9, 0},
        {1, 0, 0, by_router, 1, 0x1234, 1}, {1, 0, 0, here, 0, 9, 1}, {0, 0, 0, other, 1, 9, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_rdma_end from = {.infiniband = (uint8_t)rows[i].infiniband,
                                   .grh = (uint8_t)rows[i].grh,
                                   .lid = 8},
                           to = {.infiniband = (uint8_t)rows[i].infiniband,
                                 .grh = (uint8_t)rows[i].their_grh,
                                 .lid = 9};
        struct ibv_ah_attr path = {0};
        memcpy(from.gid, local, sizeof local);
        memcpy(to.gid, rows[i].to, sizeof to.gid);
        assert_int_equal(verbs_path(&from, &to, &path), rows[i].known);
        assert_int_equal(path.is_global, rows[i].is_global);
        assert_int_equal(path.dlid, rows[i].dlid);
        assert_memory_equal(path.grh.dgid.raw, to.gid, sizeof to.gid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
