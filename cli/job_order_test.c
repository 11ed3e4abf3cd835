/* Orders of hosts as launchers' words, files and the environment have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/job_order.h"
#include "topo/base/alloc.h"

static struct mn_mesh mesh;
static char folder[] = "/tmp/meshnet-job-XXXXXX";

static int setup(void **state)
{
    (void)state;
    mn_mesh_init(&mesh);
    for (int i = 0; i < 12; i++) {
        struct mn_mesh_node *node =
            mn_grow((void **)&mesh.nodes, &mesh.n_nodes, sizeof *mesh.nodes);
        snprintf(node->name, sizeof node->name, "n%d", i);
        snprintf(node->hostname, sizeof node->hostname, "spark-%02d", i);
    }
    for (char **name = (char *[]){"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "PBS_NODEFILE",
                                  "SLURM_HOSTFILE", "SLURM_DISTRIBUTION", NULL};
         *name; name++)
        unsetenv(*name);
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    mn_mesh_free(&mesh);
    rmdir(folder);
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    return 0;
}

/* Of a command of words with blanks between: nodes as "0 2 1", "" = not told. */
static void expect(const char *command, const char *nodes, const char *where)
{
    char copy[512], *argv[32], *rest = copy, text[256] = "";
    struct mn_job_order order;
    int argc = 0;
    size_t used = 0;

    snprintf(copy, sizeof copy, "%s", command);
    while ((argv[argc] = strsep(&rest, " ")) != NULL)
        argc++;
    mn_job_order_find(&mesh, 3, *command ? argc : 0, argv, &order);
    for (int i = 0; i < order.n; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? " " : "", order.nodes[i]);
    assert_string_equal(text, nodes);
    assert_string_equal(order.where, where);
    mn_job_order_free(&order);
}

static void test_words(void **state)
{
    (void)state;
    expect("mpirun -H n0,n2:4,spark-01 x", "0 2 1", "mpirun -H");
    expect("/usr/bin/mpiexec --host=n5,n4,n5,n6 x", "5 4 6", "mpirun --host");
    expect("timeout 60 orterun -host n1,localhost x", "1 3", "mpirun -host");
    expect("horovodrun -np 4 -H n0:1,n3:1 python x", "0 3", "horovodrun -H");
    expect("srun -wn10,n9,n2 x", "2 9 10", "srun -w"); /* Slurm sorts */
    expect("srun -m arbitrary --nodelist=n10,n9 x", "10 9", "srun --nodelist");
    expect("srun --nodelist spark-[08-10,01],n0 x", "0 1 8 9 10", "srun --nodelist");
    /* A host that is no node: not this mesh's job. */
    expect("mpirun -H n0,elsewhere x", "", "");
    expect("mpirun -H", "", "");
    expect("python serve.py --host n0,n1", "", "");
    expect("", "", "");
}

/* Between colons each program has hosts of its own, and ranks are numbered through them. */
static void test_programs(void **state)
{
    (void)state;
    expect("mpirun -host n3,n1 a : -host n0:2 b -host n7 : -np 2 -host n1,n5 c", "3 1 0 5",
           "mpirun -host");
    expect("mpirun -np 1 a : -np 1 -H n4,n2 b", "4 2", "mpirun -H");
    expect("mpirun -H n4,n2 a : -np 1 b", "4 2", "mpirun -H");
    expect("mpirun -H n4 a : -H elsewhere b : -H n2 c", "", "");
    expect("horovodrun -H n0:1,n3:1 x : -H n1", "0 3", "horovodrun -H");
}

static void stranger(char *word, const char *name, const char *of)
{
    char *argv[] = {"mpirun", "-H", word, "x"};
    struct mn_job_order order;

    mn_job_order_find(&mesh, 3, 4, argv, &order);
    assert_string_equal(order.stranger, name);
    assert_string_equal(order.stranger_of, of);
    assert_int_equal(order.programs, !*name);
    mn_job_order_free(&order);
}

static void test_strangers(void **state)
{
    (void)state;
    stranger("n0,n1,n2", "", "");
    stranger("n0,far-away:8,n1,other", "far-away", "mpirun -H");
    setenv("SLURM_JOB_NODELIST", "rack[7-8]", 1);
    stranger("n0,far-away:8", "far-away", "mpirun -H");
    stranger("n0,n1", "", ""); /* the words have told it */
    struct mn_job_order order;
    mn_job_order_find(&mesh, 3, 0, NULL, &order);
    assert_string_equal(order.stranger, "rack7");
    assert_string_equal(order.stranger_of, "SLURM_JOB_NODELIST");
    mn_job_order_free(&order);
    unsetenv("SLURM_JOB_NODELIST");
}

static void test_files(void **state)
{
    char path[64], command[160];
    static const char hosts[] =
        "# made by hand\nn4 slots=8\n\n  n0 slots=8 # the second\r\nn4\nn1:2\n";
    static const char ranks[] =
        "rank 1=n7 slot=0\nrank  0 = n2 slot=*:*\n#rank 2=n3\nrank 3=n0 slot=1\nrank 2=n7\nbad\n";

    (void)state;
    snprintf(path, sizeof path, "%s/f", folder);
    assert_int_equal(mn_file_write(path, hosts, sizeof hosts - 1, 0, NULL), MN_OK);
    snprintf(command, sizeof command, "mpirun --hostfile %s x", path);
    expect(command, "4 0 1", "mpirun --hostfile");
    snprintf(command, sizeof command, "deepspeed --hostfile=%s x", path);
    expect(command, "4 0 1", "deepspeed --hostfile");
    setenv("SLURM_HOSTFILE", path, 1);
    expect("srun --distribution=arbitrary x", "4 0 1", "SLURM_HOSTFILE");
    expect("srun x", "", "");
    unsetenv("SLURM_HOSTFILE");
    setenv("PBS_NODEFILE", path, 1);
    expect("x", "4 0 1", "PBS_NODEFILE");
    unsetenv("PBS_NODEFILE");
    assert_int_equal(mn_file_write(path, ranks, sizeof ranks - 1, 1, NULL), MN_OK);
    snprintf(command, sizeof command, "mpirun --rankfile %s x", path);
    expect(command, "2 7 0", "mpirun --rankfile");
    unlink(path);
    expect(command, "", "");
}

static void test_environment(void **state)
{
    (void)state;
    setenv("SLURM_JOB_NODELIST", "spark-[03,01-02]", 1);
    expect("", "1 2 3", "SLURM_JOB_NODELIST");
    setenv("SLURM_DISTRIBUTION", "arbitrary", 1);
    expect("", "3 1 2", "SLURM_JOB_NODELIST");
    setenv("SLURM_STEP_NODELIST", "spark-[01-02]", 1);
    expect("", "1 2", "SLURM_STEP_NODELIST");
    expect("mpirun -H n5,n6 x", "5 6", "mpirun -H"); /* the words go first */
    for (char **name =
             (char *[]){"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_DISTRIBUTION", NULL};
         *name; name++)
        unsetenv(*name);
}

static void test_node_rank(void **state)
{
    char *argv[] = {"python",        "-m",          "torch.distributed.run",
                    "--nnodes=4",    "--node_rank", "2",
                    "--master-addr", "spark-07",    "train.py"};
    struct mn_job_order order;

    (void)state;
    mn_job_order_find(&mesh, 3, 9, argv, &order);
    assert_int_equal(order.n, 0);
    assert_int_equal(order.node_rank, 2);
    assert_int_equal(order.n_hosts, 4);
    assert_int_equal(order.first, 7);
    assert_int_equal(order.word, 5);
    mn_job_order_free(&order);
    argv[3] = "--nnodes=1:4"; /* they come and go: no order */
    mn_job_order_find(&mesh, 3, 9, argv, &order);
    assert_int_equal(order.node_rank, -1);
    mn_job_order_free(&order);
}

static void test_new_words(void **state)
{
    const int nodes[] = {2, 0, 1};
    char *word;

    (void)state;
    word = mn_job_order_word(&mesh, 3, "--host=n0:4,n1:8,,spark-02:2,n0:1", 7, nodes, 3);
    assert_string_equal(word, "--host=spark-02:2,n0:4,n0:1,n1:8");
    free(word);
}

static void slurm(const char *list, const char *expected)
{
    char **names = NULL, text[512] = "";
    size_t n = 0, used = 0;

    mn_slurm_hosts(list, &names, &n);
    for (size_t i = 0; i < n; i++) {
        if (i < 8)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", names[i]);
        free(names[i]);
    }
    free(names);
    assert_string_equal(text, expected);
}

static void test_slurm_lists(void **state)
{
    (void)state;
    slurm("a", "a");
    slurm("a,b-c", "a b-c");
    slurm("x[1-3,07]y,z", "x1y x2y x3y x07y z");
    slurm("r[1-2]n[08-09]", "r1n08 r1n09 r2n08 r2n09");
    slurm("x[0-4294967295]", "x0 x1 x2 x3 x4 x5 x6 x7"); /* and has an end */
    alarm(60);
    slurm("x[1-99999999999][y]", "");
    slurm("x[1-18446744073709551615][y]", "");
    slurm("x[1-18446744073709551615]", "x1 x2 x3 x4 x5 x6 x7 x8");
    alarm(0);
    slurm("x[3-1]", "");
    slurm("x[3-1,5]", "x5");
    slurm("x[1", "");
    slurm("[", "");
    slurm("x[]", "");
    slurm("x[a-b],y", "y");
    slurm("", "");
    slurm(",,", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words, setup, teardown),
        cmocka_unit_test_setup_teardown(test_programs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strangers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_node_rank, setup, teardown),
        cmocka_unit_test_setup_teardown(test_new_words, setup, teardown),
        cmocka_unit_test(test_slurm_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
