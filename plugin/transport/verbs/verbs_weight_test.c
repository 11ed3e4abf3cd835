/* Links that carry less than was agreed, and again as much: both ends in one thread, on the
 * libibverbs double. */
#define KIT_SIZE (1 << 19) /* a fifth of it is still worth a write */
#include "plugin/transport/verbs/recover_kit.h"

static struct verbs_comm *sender(const struct kit *kit)
{
    return (struct verbs_comm *)kit->send;
}

static double share(const struct kit *kit, int link)
{
    const struct verbs_comm *comm = sender(kit);
    double weight = 0, sum = 0;

    for (int q = 0; q < comm->n_qps; q++) {
        sum += comm->ways[q].weight;
        if (comm->qps[q].link == link)
            weight += comm->ways[q].weight;
    }
    return weight / sum;
}

/* Of the bytes that the next messages have. */
static double carries(struct kit *kit, int link, unsigned messages)
{
    const struct verbs_comm *comm = sender(kit);
    uint64_t before[KIT_LINKS], sum = 0;

    for (int i = 0; i < comm->n_links; i++)
        before[i] = comm->links[i].carried;
    assert_int_equal(kit_move(kit, kit->sent + messages), MN_OK);
    for (int i = 0; i < comm->n_links; i++)
        sum += comm->links[i].carried - before[i];
    return (double)(comm->links[link].carried - before[link]) / (double)sum;
}

static void links_alike_share_alike(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 2, 2, 60000, 1);
    kit.size = KIT_SIZE;
    assert_int_equal(kit_move(&kit, 100), MN_OK);
    assert_true(share(&kit, 0) > 0.35 && share(&kit, 0) < 0.65);
    double part = carries(&kit, 0, 100);
    assert_true(part > 0.35 && part < 0.65);
    assert_int_equal(kit_count("\n"), 0);
    kit_close(&kit);
}

/* Far below half of what was agreed, with messages one at a time and with many under way. */
static void a_slow_link_gets_what_it_can_carry(void **state)
{
    static const int windows[] = {1, KIT_WINDOW};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct kit kit;
        kit_open(&kit, 2, 1 + (int)i, 60000, 2);
        kit.size = KIT_SIZE;
        kit.window = (unsigned)windows[i];
        assert_int_equal(kit_move(&kit, 20), MN_OK);
        kit_set("slow=fv0:10,slow=fv1:40");
        assert_int_equal(kit_move(&kit, 120), MN_OK);
        double part = carries(&kit, 1, 80);
        if (part < 0.1 || part > 0.28)
            fail_msg("window %d: %.3f of the bytes, for a link that carries 0.2", windows[i], part);
        kit_set("slow=fv0:0,slow=fv1:0");
        kit_close(&kit);
    }
}

/* Its part becomes too small to be worth a write; it gets one again when it is as it was. */
static void a_link_that_hardly_carries_is_named_once_and_comes_back(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 2, 1, 60000, 3);
    kit.size = KIT_SIZE;
    kit_set("slow=fv0:4,slow=fv1:600");
    while (!kit_count(": slow: it takes "))
        assert_int_equal(kit_move(&kit, kit.sent + 10), MN_OK);
    assert_true(kit_count("fv1 port 1, 127.0.0.2/8 to 127.0.0.2/8): slow: it takes ") == 1);
    assert_true(carries(&kit, 1, 60) < 0.05);
    kit_set("slow=fv1:4");
    while (carries(&kit, 1, 30) < 0.35)
        ;
    kit_set("slow=fv1:600");
    while (carries(&kit, 1, 30) > 0.05)
        ;
    for (uint64_t until = mn_now_ms() + 1500; mn_now_ms() < until;)
        assert_int_equal(kit_move(&kit, kit.sent + 10), MN_OK);
    kit_set("slow=fv0:0,slow=fv1:0");
    assert_int_equal(kit_count(": slow: it takes "), 1);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_alike_share_alike),
        cmocka_unit_test(a_slow_link_gets_what_it_can_carry),
        cmocka_unit_test(a_link_that_hardly_carries_is_named_once_and_comes_back),
    };

    setenv("FAKEVERBS",
           "dev=fv0:lo:127.0.0.1,dev=fv1:lo:127.0.0.2,dev=fv2:lo:127.0.0.3,timeout=100000000", 1);
    kit_find_double();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
