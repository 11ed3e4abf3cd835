/* Which addresses the NICs of a mesh made from a survey have: only those that make links of the
 * cables there are. */
#include <stdlib.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/survey_make.h"

static int overlap(struct mn_addr a, struct mn_addr b)
{
    a.prefix = b.prefix = a.prefix < b.prefix ? a.prefix : b.prefix;
    return mn_addr_share_subnet(&a, &b);
}

/* Whether an address of a cable's end can stand beside those the mesh has. */
static int fits(const struct mn_mesh *mesh, int node, const struct mn_addr *addr, int management)
{
    for (size_t n = 0; n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++) {
            const struct mn_mesh_nic *other = &mesh->nodes[n].nics[i];
            int office = other->role == MN_ROLE_MANAGEMENT;

            for (size_t a = 0; a < other->n_addrs; a++)
                if (mn_addr_equal(addr, &other->addrs[a]) ||
                    (!management && (!office || (int)n == node) && overlap(*addr, other->addrs[a])))
                    return 0;
        }
    return 1;
}

static void addrs_take(const struct mn_mesh *mesh, int node, const struct mn_addr *addrs, size_t n,
                       struct mn_mesh_nic *to, int management)
{
    for (size_t i = 0; i < n && to->n_addrs < MN_MESH_ADDRS_MAX; i++) {
        int again = 0;

        for (size_t k = 0; k < to->n_addrs; k++)
            again |= mn_addr_equal(&addrs[i], &to->addrs[k]);
        if (again || mn_addr_is_link_local(&addrs[i]) || mn_addr_is_net_or_broadcast(&addrs[i]) ||
            mn_addr_is_loopback(&addrs[i]) || !fits(mesh, node, &addrs[i], management))
            continue;
        *(struct mn_addr *)mn_grow((void **)&to->addrs, &to->n_addrs, sizeof *to->addrs) = addrs[i];
    }
}

void mn_survey_address_office(const struct mn_survey_maker *m)
{
    for (size_t n = 0; n < m->survey->n_nodes; n++)
        for (size_t i = 0; i < m->survey->nodes[n].n_nics; i++) {
            const struct mn_survey_nic *nic = &m->survey->nodes[n].nics[i];
            struct mn_mesh_nic *to =
                m->place[n][i] < 0 ? NULL : &m->mesh->nodes[n].nics[m->place[n][i]];
            struct mn_mesh_nic found = {.n_addrs = 0};

            if (!to || to->role != MN_ROLE_MANAGEMENT)
                continue;
            addrs_take(m->mesh, (int)n, nic->addrs, nic->n_addrs, &found, 1);
            to->addrs = found.addrs;
            to->n_addrs = found.n_addrs;
        }
}

void mn_survey_address_kept(const struct mn_survey_maker *m, const struct mn_mesh_nic *was,
                            int node, struct mn_mesh_nic *to)
{
    addrs_take(m->mesh, node, was->addrs, was->n_addrs, to, was->role == MN_ROLE_MANAGEMENT);
}

/* An address that the other end has too is nobody's. */
static void drop_equal(struct mn_mesh_nic *nic, const struct mn_mesh_nic *other)
{
    size_t kept = 0;

    for (size_t i = 0; i < nic->n_addrs; i++) {
        int same = 0;

        for (size_t k = 0; k < other->n_addrs; k++)
            same |= mn_addr_equal(&nic->addrs[i], &other->addrs[k]);
        if (!same)
            nic->addrs[kept++] = nic->addrs[i];
    }
    nic->n_addrs = kept;
}

void mn_survey_address_link(const struct mn_survey_maker *m, struct mn_mesh_link *link,
                            const struct mn_mesh_end from[2])
{
    for (int host = 0; host < 2 && mn_link_is_bare(link); host++) {
        struct mn_mesh_nic found[2] = {{.n_addrs = 0}, {.n_addrs = 0}};

        for (int side = 0; side < 2; side++) {
            const struct mn_survey_nic *nic = mn_survey_end_nic(m->survey, &from[side]);
            const struct mn_mesh_nic *was = mn_survey_nic_before(m, from[side].node, nic);

            if (host || !was || !was->n_addrs)
                addrs_take(m->mesh, from[side].node, nic->addrs, nic->n_addrs, &found[side], 0);
            else
                addrs_take(m->mesh, from[side].node, was->addrs, was->n_addrs, &found[side], 0);
        }
        drop_equal(&found[1], &found[0]);
        int linked = mn_link_subnet(&found[0], &found[1], &link->subnet);
        for (int side = 0; side < 2; side++) {
            struct mn_mesh_nic *to =
                &m->mesh->nodes[link->ends[side].node].nics[link->ends[side].nic];

            if (!linked) {
                free(found[side].addrs);
                continue;
            }
            to->addrs = found[side].addrs;
            to->n_addrs = found[side].n_addrs;
        }
    }
}

void mn_survey_address_gids(struct mn_mesh *mesh)
{
    for (size_t n = 0; n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++) {
            struct mn_mesh_nic *nic = &mesh->nodes[n].nics[i];
            int there = 0;

            for (size_t a = 0; a < nic->n_addrs; a++)
                there |= mn_addr_equal(&nic->addrs[a], &nic->gid_addr);
            if (there || nic->gid_index < 0)
                continue;
            nic->gid_index = -1;
            nic->gid_addr = (struct mn_addr){.family = 0};
        }
}
