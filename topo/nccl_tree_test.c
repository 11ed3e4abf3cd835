#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topo/nccl_tree.h"

/* Both trees' parents, as NCCL's own code gives them. */
static const struct {
    int n;
    signed char up[MN_NCCL_TREES][8];
} trees[] = {
    {1, {{-1}, {-1}}},
    {2, {{-1, 0}, {1, -1}}},
    {3, {{-1, 2, 0}, {1, -1, 0}}},
    {4, {{-1, 2, 0, 2}, {1, 3, 1, -1}}},
    {5, {{-1, 2, 4, 2, 0}, {1, -1, 3, 0, 3}}},
    {6, {{-1, 2, 4, 2, 0, 4}, {1, 5, 3, 1, 3, -1}}},
    {7, {{-1, 2, 4, 2, 0, 6, 4}, {5, -1, 3, 5, 3, 1, 0}}},
    {8, {{-1, 2, 4, 2, 0, 6, 4, 6}, {1, 3, 1, 7, 5, 3, 5, -1}}},
};

static void test_parents(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
        for (int tree = 0; tree < MN_NCCL_TREES; tree++)
            for (int node = 0; node < trees[i].n; node++)
                assert_int_equal(mn_nccl_tree_parent(trees[i].n, tree, node),
                                 trees[i].up[tree][node]);
}

/* One root, everyone below it in few steps, nobody with more than two children. */
static void test_are_trees(void **state)
{
    (void)state;
    for (int n = 1; n <= 70; n++)
        for (int tree = 0; tree < MN_NCCL_TREES; tree++) {
            int roots = 0, children[70] = {0};
            for (int node = 0; node < n; node++) {
                int steps = 0, up = node;
                for (int p; (p = mn_nccl_tree_parent(n, tree, up)) >= 0; up = p)
                    assert_true(++steps <= 7 && p < n);
                roots += !steps;
                if (steps)
                    assert_true(++children[mn_nccl_tree_parent(n, tree, node)] <= 2);
            }
            assert_int_equal(roots, 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parents),
        cmocka_unit_test(test_are_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
