/* Whether a stranger who was heard on a cable is in between, or speaks for one of its ends: the
 * firmware of many NICs sends LLDP by itself, under MACs that no host knows. */
#include <stdlib.h>
#include <string.h>

#include "topo/cabling_impl.h"

/* LLDP tells the full name: "spark-a.example.org" is spark-a. Numbers are addresses, which have no
 * short form. */
static int same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, "."), k = strcspn(b, ".");

    if (n == strspn(a, "0123456789") || a[n] == b[k])
        return !strcmp(a, b);
    return n == k && !strncmp(a, b, n);
}

int mn_survey_knows(const struct mn_survey *survey, const struct mn_survey_stranger *stranger)
{
    for (size_t n = 0; n < survey->n_nodes; n++) {
        const struct mn_survey_node *node = &survey->nodes[n];

        if (stranger->system[0] && (same_host(stranger->system, node->name) ||
                                    same_host(stranger->system, node->hostname)))
            return 1;
        for (size_t i = 0; i < node->n_nics; i++)
            if (node->nics[i].has_mac && !memcmp(node->nics[i].mac, stranger->mac, 6))
                return 1;
    }
    return 0;
}

static int is_mac(const char *text)
{
    return strlen(text) == 17 && strspn(text, "0123456789abcdef:") == 17;
}

static int same_sender(const struct mn_survey_stranger *a, const struct mn_survey_stranger *b)
{
    return !memcmp(a->mac, b->mac, sizeof a->mac) ||
           (a->system[0] && !strcmp(a->system, b->system));
}

/* Firmware speaks for its own port, so that it is heard at the other end alone, once for each
 * function; it has no name, and does not claim to pass on what it hears. */
int mn_stranger_between(const struct mn_cabling *c, int stranger, const int ports[2])
{
    const struct mn_survey *s = c->survey;
    const struct mn_survey_stranger *met = &s->strangers[stranger];
    int here = c->port_of[met->at.node][met->at.nic], senders = 1;

    if (met->way != MN_SURVEY_LLDP || met->bridges == MN_BRIDGES_YES ||
        (met->bridges == MN_BRIDGES_UNKNOWN && met->system[0] && !is_mac(met->system)))
        return 1;
    for (size_t i = 0; i < s->n_strangers; i++) {
        const struct mn_survey_stranger *other = &s->strangers[i];
        int there = c->port_of[other->at.node][other->at.nic];

        if (other == met || other->way != MN_SURVEY_LLDP)
            continue;
        if (there == ports[here == ports[0]] && same_sender(met, other))
            return 1;
        senders += other->at.node == met->at.node && other->at.nic == met->at.nic &&
                   !mn_survey_knows(s, other);
    }
    return senders > c->ports[ports[here == ports[0]]].n_nics;
}
