/* Whether the relay that a job would use is here. */
#include <stdlib.h>

#include "cli/nccl_env.h"
#include "fleet/relay/daemon.h"
#include "topo/mesh_file.h"

static int has_pair_without_cable(const struct mn_mesh *mesh)
{
    for (int a = 0; a < (int)mesh->n_nodes; a++)
        for (int b = a + 1; b < (int)mesh->n_nodes; b++)
            if (!mn_mesh_has_cable(mesh, a, b))
                return 1;
    return 0;
}

void mn_nccl_env_relay(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    struct mn_settings settings;
    struct mn_diag diag;
    char *state;

    /* With --mesh the settings of that file count, and the environment as for the job. */
    settings = s->mesh.settings;
    if (s->self < 0 || mn_settings_from_env(&settings, &diag) || !mn_reach_relays(&settings) ||
        !has_pair_without_cable(&s->mesh))
        return;
    if (!mn_relay_ask_state(settings.relay_socket, &state, &diag))
        free(state);
    else
        mn_nccl_env_warn(env,
                         "this node is to pass data on, and to ask for it, by meshnet relayd: %s",
                         diag.text);
}
