/* What launchers tell in the environment. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fleet/launch_env.h"

static const char *const all[] = {
    "MESHNET_RANK", "MESHNET_WORLD",        "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",     "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_SIZE",     "MPI_LOCALNRANKS",      "RANK",
    "WORLD_SIZE",   "LOCAL_WORLD_SIZE",     "MASTER_ADDR",
    "MASTER_PORT",  "SLURM_PROCID",         "SLURM_NTASKS",
};

static int clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        unsetenv(all[i]);
    return 0;
}

static struct mn_launch_env read_env(void)
{
    struct mn_launch_env env;
    struct mn_diag diag;

    assert_int_equal(mn_launch_env(&env, &diag), MN_OK);
    return env;
}

static void none(void **state)
{
    (void)state;
    assert_null(read_env().launcher);
    setenv("RANK", "1", 1); /* alone it says nothing */
    assert_null(read_env().launcher);
}

static void torchrun(void **state)
{
    (void)state;
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    assert_null(read_env().address);
    setenv("MASTER_ADDR", "10.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
    struct mn_launch_env env = read_env();
    assert_string_equal(env.launcher, "torchrun");
    assert_int_equal(env.rank, 3);
    assert_int_equal(env.nranks, 8);
    assert_string_equal(env.address, "10.0.0.1");
    assert_int_equal(env.port, 29501);
}

static void open_mpi_inside_slurm(void **state)
{
    (void)state;
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "2", 1);
    assert_string_equal(read_env().launcher, "Slurm");
    assert_null(read_env().address);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    assert_string_equal(read_env().launcher, "Open MPI");
    assert_null(read_env().address);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
    assert_string_equal(read_env().address, "127.0.0.1");
    assert_int_equal(read_env().port, 0);
}

static void nonsense(void **state)
{
    static const char *const ranks[] = {"4", "-1", "x", "1x", "99999999999999999999"};
    struct mn_launch_env env;
    struct mn_diag diag;

    (void)state;
    setenv("WORLD_SIZE", "4", 1);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        setenv("RANK", ranks[i], 1);
        assert_int_equal(mn_launch_env(&env, &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, "RANK="));
    }
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "100000", 1);
    assert_int_equal(mn_launch_env(&env, &diag), MN_ERR_CONFIG);
    setenv("WORLD_SIZE", "4", 1);
    setenv("MASTER_PORT", "65535", 1);
    assert_int_equal(mn_launch_env(&env, &diag), MN_ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(none, clean),
        cmocka_unit_test_setup(torchrun, clean),
        cmocka_unit_test_setup(open_mpi_inside_slurm, clean),
        cmocka_unit_test_setup(nonsense, clean),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
