/* The addresses and MTUs of a mesh that was numbered. */
#include "topo/address_impl.h"

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

static void strip(struct mn_mesh_nic *nic, int family)
{
    size_t kept = 0;

    for (size_t i = 0; i < nic->n_addrs; i++) {
        if (!mn_address_is_of_cable(&nic->addrs[i], family)) {
            nic->addrs[kept++] = nic->addrs[i];
        } else if (mn_addr_equal(&nic->addrs[i], &nic->gid_addr)) {
            nic->gid_index = -1;
            nic->gid_addr.family = 0;
        }
    }
    nic->n_addrs = kept;
}

static size_t room_in(const struct mn_address_work *w, const struct mn_cable *c, int side)
{
    const struct mn_mesh_nic *nic = mn_address_nic(w, c->link, side);
    size_t n = 0;

    for (size_t i = 0; i < nic->n_addrs; i++)
        n += !*mn_address_strip(w, c->link, side) ||
             !mn_address_is_of_cable(&nic->addrs[i], w->plan->family);
    return n < MN_MESH_ADDRS_MAX ? MN_MESH_ADDRS_MAX - n : 0;
}

enum mn_err mn_address_check_room(const struct mn_address_work *w, struct mn_diag *diag)
{
    for (size_t i = 0; i < 2 * w->mesh->n_links; i++) {
        const struct mn_cable *c = &w->cables[i / 2];
        const struct mn_mesh_end *end = &w->mesh->links[c->link].ends[i % 2];
        if (!c->net.family && !room_in(w, c, i % 2))
            return mn_fail(diag, MN_ERR_CONFIG,
                           "%s/%s has %d addresses already, as many as a NIC may have",
                           w->mesh->nodes[end->node].name, mn_address_nic(w, c->link, i % 2)->name,
                           MN_MESH_ADDRS_MAX);
    }
    return MN_OK;
}

static void give(struct mn_mesh_nic *nic, struct mn_addr addr)
{
    *(struct mn_addr *)mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof addr) = addr;
}

void mn_address_write(struct mn_address_work *w)
{
    const struct mn_place *place = w->places;
    int from = w->prefix >= (w->plan->family == AF_INET ? 31 : 127) ? 0 : 1;

    for (size_t i = 0; i < 2 * w->mesh->n_links; i++)
        if (*mn_address_strip(w, i / 2, i % 2))
            strip(mn_address_nic(w, i / 2, i % 2), w->plan->family);
    for (const struct mn_cable *c = w->cables; c < w->cables + w->mesh->n_links; c++) {
        enum mn_address_state *state = &w->done->states[c->link];
        *state = c->net.family      ? MN_ADDRESS_KEPT
                 : c->beside.family ? MN_ADDRESS_COMPLETED
                                    : MN_ADDRESS_NEW;
        w->done->counts[*state]++;
        if (*state == MN_ADDRESS_COMPLETED)
            give(mn_address_nic(w, c->link, c->beside_side), c->beside);
        for (int k = 0; k < 2 && *state == MN_ADDRESS_NEW; k++)
            give(mn_address_nic(w, c->link, k ? !c->low : c->low),
                 mn_addr_of_number(w->plan->family, w->prefix, place->start + (mn_wide)(from + k)));
        place += *state == MN_ADDRESS_NEW;
        struct mn_mesh_link *link = &w->mesh->links[c->link];
        mn_link_subnet(mn_address_nic(w, c->link, 0), mn_address_nic(w, c->link, 1), &link->subnet);
    }
}

/* Where nobody has said: as the other end, else 9000 where both are fast enough to be known for it.
 */
void mn_address_set_mtu(struct mn_address_work *w)
{
    for (size_t l = 0; l < w->mesh->n_links; l++) {
        struct mn_mesh_nic *ends[2] = {mn_address_nic(w, l, 0), mn_address_nic(w, l, 1)};
        int jumbo = 1;
        for (int k = 0; k < 2; k++)
            jumbo &= ends[k]->device[0] || ends[k]->speed_mbps >= 10000;
        for (int k = 0; k < 2; k++) {
            int mtu = w->plan->mtu    ? w->plan->mtu
                      : ends[k]->mtu  ? ends[k]->mtu
                      : ends[!k]->mtu ? ends[!k]->mtu
                      : jumbo         ? 9000
                                      : 0;
            w->done->n_mtu += mtu != ends[k]->mtu;
            ends[k]->mtu = mtu;
        }
    }
}
