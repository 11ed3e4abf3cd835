#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/nccl_env.h"

static char *warning_of(const struct mn_nccl_env *env, const char *part)
{
    for (size_t i = 0; i < env->n_warnings; i++)
        if (strstr(env->warnings[i], part))
            return env->warnings[i];
    return NULL;
}

/* Devices of sysfs that libibverbs does not open are named once each, with its reason. */
static void rdma_that_cannot_be_used(void **state)
{
    struct mn_rdma_port ports[] = {
        {.device = "mlx5_0", .port = 1, .from_verbs = 1},
        {.device = "mlx5_1", .port = 1},
        {.device = "mlx5_1", .port = 2},
        {.device = "rxe0", .port = 1},
    };
    struct mn_nccl_subject s = {.plugin = "/x/libnccl-net-mesh.so",
                                .network = "meshnet",
                                .minor = 99,
                                .self = -1};
    struct mn_nccl_env env;

    (void)state;
    s.host = (struct mn_host){.rdma = ports, .n_rdma = 4, .verbs = "not used: no library"};
    mn_nccl_env_fill(&s, &env);
    const char *text = warning_of(&env, "cannot be used here");
    assert_non_null(text);
    assert_ptr_equal(strstr(text, "mlx5_1, rxe0 cannot be used here (not used: no library)"), text);
    mn_nccl_env_free(&env);

    s.host.n_rdma = 1;
    mn_nccl_env_fill(&s, &env);
    assert_null(warning_of(&env, "cannot be used here"));
    mn_nccl_env_free(&env);
}

/* What the plugin is linked with and only this process has is a warning. */
static void what_others_would_miss(void **state)
{
    struct mn_nccl_subject s = {.plugin = "/x/libnccl-net-mesh.so", .minor = 99, .self = -1};
    struct mn_nccl_env env;

    (void)state;
    mn_nccl_env_fill(&s, &env);
    assert_null(warning_of(&env, "ci/bundle"));
    mn_nccl_env_free(&env);
    s.lacks = "libyaml-0.so.2, GLIBC_2.38";
    mn_nccl_env_fill(&s, &env);
    assert_non_null(
        warning_of(&env, "libnccl-net-mesh.so needs libyaml-0.so.2, GLIBC_2.38, which"));
    mn_nccl_env_free(&env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rdma_that_cannot_be_used),
        cmocka_unit_test(what_others_would_miss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
