#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fleet/nft.h"
#include "topo/base/alloc.h"

#define CHAIN(family, name, hook, policy)                                                          \
    "{\"chain\": {\"family\": \"" family "\", \"table\": \"t\", \"name\": \"" name                 \
    "\", \"type\": \"filter\", \"hook\": \"" hook "\", \"prio\": 0, \"policy\": \"" policy "\"}}"
#define SUB(family, name)                                                                          \
    "{\"chain\": {\"family\": \"" family "\", \"table\": \"t\", \"name\": \"" name "\"}}"
#define RULE(family, chain, expr)                                                                  \
    "{\"rule\": {\"family\": \"" family "\", \"table\": \"t\", \"chain\": \"" chain                \
    "\", \"expr\": [" expr "]}}"
#define IS(left, right)  "{\"match\": {\"op\": \"==\", \"left\": " left ", \"right\": " right "}}"
#define NOT(left, right) "{\"match\": {\"op\": \"!=\", \"left\": " left ", \"right\": " right "}}"
#define META(key)        "{\"meta\": {\"key\": \"" key "\"}}"
#define FIELD(protocol, field)                                                                     \
    "{\"payload\": {\"protocol\": \"" protocol "\", \"field\": \"" field "\"}}"
#define DROP   "{\"drop\": null}"
#define ACCEPT "{\"accept\": null}"
#define JUMP   "{\"jump\": {\"target\": \"sub\"}}"

/* TCP from 10.0.1.2 to 10.0.1.1, port 40000, in by p0; out by p1 where it passes through. */
static enum mn_nft_verdict judge(const char *rules, const char *out)
{
    struct mn_nft_packet packet = {.in = "p0", .out = out, .protocol = "tcp", .port = 40000};
    char *text = mn_asprintf("{\"nftables\": [{\"metainfo\": {}}, %s]}", rules), where[200];
    struct mn_diag diag;

    assert_int_equal(mn_addr_parse("10.0.1.2", &packet.from, &diag), MN_OK);
    assert_int_equal(mn_addr_parse("10.0.1.1", &packet.to, &diag), MN_OK);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    enum mn_nft_verdict verdict = mn_nft_judge(json, &packet, where, sizeof where);
    cJSON_Delete(json);
    free(text);
    return verdict;
}

/* Rules of a chain for what comes in, with that policy, and a chain "sub". */
#define INPUT(policy, rules) CHAIN("inet", "in", "input", policy) ", " SUB("inet", "sub") ", " rules

static const struct {
    const char *rules, *out;
    enum mn_nft_verdict verdict;
} cases[] = {
    {INPUT("accept", RULE("inet", "in", "{\"counter\": {}}")), NULL, MN_NFT_PASSES},
    {INPUT("drop", RULE("inet", "in", "{\"counter\": {}}")), NULL, MN_NFT_DROPS},
    {INPUT("accept", RULE("inet", "in", DROP)), NULL, MN_NFT_DROPS},
    /* Only what matches. */
    {INPUT("drop", RULE("inet", "in", IS(META("iifname"), "\"p0\"") ", " ACCEPT)), NULL,
     MN_NFT_PASSES},
    {INPUT("drop", RULE("inet", "in", IS(META("iifname"), "\"p*\"") ", " ACCEPT)), NULL,
     MN_NFT_PASSES},
    {INPUT("drop", RULE("inet", "in", IS(META("iifname"), "\"lo\"") ", " ACCEPT)), NULL,
     MN_NFT_DROPS},
    {INPUT("drop", RULE("inet", "in", NOT(META("iifname"), "\"lo\"") ", " ACCEPT)), NULL,
     MN_NFT_PASSES},
    {INPUT("drop",
           RULE("inet", "in", IS(META("iifname"), "{\"set\": [\"lo\", \"p0\"]}") ", " ACCEPT)),
     NULL, MN_NFT_PASSES},
    {INPUT("drop",
           RULE("inet", "in",
                IS(META("iifname"), "\"@s\"") ", " ACCEPT) ", {\"set\": {\"family\": \"inet\", "
                                                           "\"table\": \"t\", \"name\": \"s\", "
                                                           "\"elem\": [\"p0\"]}}"),
     NULL, MN_NFT_PASSES},
    /* What is part of something under way is nothing new. */
    {INPUT("drop", RULE("inet", "in",
                        IS("{\"ct\": {\"key\": \"state\"}}",
                           "[\"established\", \"related\"]") ", " ACCEPT)),
     NULL, MN_NFT_DROPS},
    {INPUT("accept",
           RULE("inet", "in", IS("{\"ct\": {\"key\": \"state\"}}", "\"invalid\"") ", " DROP)),
     NULL, MN_NFT_PASSES},
    {INPUT("drop", RULE("inet", "in", IS(FIELD("tcp", "dport"), "22") ", " ACCEPT)), NULL,
     MN_NFT_DROPS},
    {INPUT("drop", RULE("inet", "in",
                        IS(FIELD("tcp", "dport"),
                           "{\"set\": [22, {\"range\": [30000, 50000]}]}") ", " ACCEPT)),
     NULL, MN_NFT_PASSES},
    /* Of another protocol or family neither == nor != holds. */
    {INPUT("accept", RULE("inet", "in", NOT(FIELD("udp", "dport"), "53") ", " DROP)), NULL,
     MN_NFT_PASSES},
    {INPUT("accept", RULE("inet", "in", NOT(FIELD("ip6", "saddr"), "\"fe80::1\"") ", " DROP)), NULL,
     MN_NFT_PASSES},
    {INPUT("accept", RULE("inet", "in", NOT(FIELD("tcp", "dport"), "53") ", " DROP)), NULL,
     MN_NFT_DROPS},
    {INPUT("accept", RULE("inet", "in", IS(FIELD("udp", "dport"), "40000") ", " DROP)), NULL,
     MN_NFT_PASSES},
    {INPUT("drop", RULE("inet", "in",
                        IS(FIELD("ip", "saddr"),
                           "{\"prefix\": {\"addr\": \"10.0.0.0\", \"len\": 8}}") ", " ACCEPT)),
     NULL, MN_NFT_PASSES},
    {INPUT("drop", RULE("inet", "in", IS(FIELD("ip6", "saddr"), "\"::1\"") ", " ACCEPT)), NULL,
     MN_NFT_DROPS},
    /* Chains that are called. */
    {INPUT("drop", RULE("inet", "in", JUMP) ", " RULE("inet", "sub", ACCEPT)), NULL, MN_NFT_PASSES},
    {INPUT("drop", RULE("inet", "in", JUMP) ", " RULE("inet", "sub",
                                                      "{\"return\": null}") ", " RULE("inet", "in",
                                                                                      ACCEPT)),
     NULL, MN_NFT_PASSES},
    {INPUT("accept",
           RULE("inet", "in", "{\"goto\": {\"target\": \"sub\"}}") ", " RULE("inet", "in", DROP)),
     NULL, MN_NFT_PASSES},
    {INPUT("accept", RULE("inet", "in", JUMP) ", " RULE("inet", "sub", JUMP)), NULL, MN_NFT_PASSES},
    /* What cannot be told. */
    {INPUT("drop", RULE("inet", "in", "{\"xt\": null}, " ACCEPT)), NULL, MN_NFT_MAY_DROP},
    {INPUT("drop", RULE("inet", "in", "{\"xt\": null}, " JUMP) ", " RULE("inet", "sub", ACCEPT)),
     NULL, MN_NFT_MAY_DROP},
    {INPUT("accept", RULE("inet", "in", "{\"limit\": {\"rate\": 5}}, " DROP)), NULL, MN_NFT_PASSES},
    /* Other hooks, and what passes through. */
    {CHAIN("inet", "in", "input", "drop"), "p1", MN_NFT_PASSES},
    {CHAIN("ip", "FORWARD", "forward", "drop"), NULL, MN_NFT_PASSES},
    {CHAIN("ip", "FORWARD", "forward", "drop"), "p1", MN_NFT_DROPS},
    {CHAIN("ip6", "FORWARD", "forward", "drop"), "p1", MN_NFT_PASSES},
    {CHAIN("ip", "FORWARD", "forward", "drop") ", " RULE("ip", "FORWARD",
                                                         IS(META("oifname"), "\"p1\"") ", " ACCEPT),
     "p1", MN_NFT_PASSES},
    {"{\"chain\": {\"family\": \"netdev\", \"table\": \"t\", \"name\": \"x\", \"type\": "
     "\"filter\", \"hook\": \"ingress\", \"dev\": \"p1\", \"policy\": \"drop\"}}",
     NULL, MN_NFT_PASSES},
    {"{\"chain\": {\"family\": \"netdev\", \"table\": \"t\", \"name\": \"x\", \"type\": "
     "\"filter\", \"hook\": \"ingress\", \"dev\": [\"p1\", \"p0\"], \"policy\": \"drop\"}}",
     NULL, MN_NFT_DROPS},
    /* Nonsense. */
    {"{\"chain\": 1}, {\"rule\": []}, 7, " INPUT("accept", RULE("inet", "in", "7, [], {}")), NULL,
     MN_NFT_PASSES},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (judge(cases[i].rules, cases[i].out) != cases[i].verdict)
            fail_msg("case %zu: %d, expected %d: %s", i, judge(cases[i].rules, cases[i].out),
                     cases[i].verdict, cases[i].rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
