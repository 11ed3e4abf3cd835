/* Which NICs are taken for a network and not for a cable, why, and what to do about it. */
#include "cli/discover.h"

static void say(struct mn_out *out, const struct mn_nic *nic)
{
    int management = nic->role == MN_ROLE_MANAGEMENT;
    mn_out_note(out, MN_PLAIN, "%s: %s", nic->netdev,
                management ? "management network, no cable" : "cable");
    mn_out_note(out, MN_DIM, "  seen      %s", nic->role_why);
    mn_out_note(out, MN_DIM, "  change    meshnet discover --output FILE --%s %s",
                management ? "take" : "skip", nic->netdev);
}

void mn_discover_roles(struct mn_out *out, const struct mn_host *host)
{
    int first = 1;
    mn_out_list_begin(out, "roles", NULL);
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (!nic->role_why[0])
            continue;
        if (first)
            mn_out_note(out, MN_PLAIN, "%s", "");
        first = 0;
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "nic", NULL, nic->netdev);
        mn_out_str(out, "role", NULL, mn_nic_role_name(nic->role));
        mn_out_str(out, "why", NULL, nic->role_why);
        say(out, nic);
        mn_out_end(out);
    }
    mn_out_list_end(out);
}
