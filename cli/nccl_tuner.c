/* Which tuner NCCL is told to take. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host/tuner.h"
#include "cli/nccl_env.h"
#include "topo/base/alloc.h"

/* NCCL 2.19 and 2.20 look for ncclTunerPlugin_v1 alone, in what NCCL_TUNER_PLUGIN names; from 2.21
 * on a path is taken, and without the variable the network plugin's library is asked. */
#define TAKES_TUNER 21
#define FEW         3 /* nodes, which every algorithm joins alike */

int mn_nccl_env_has_tuner(const char *library)
{
    struct mn_tuner tuner;
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    int has = opened && mn_tuner_find(opened, 0, &tuner);

    if (opened)
        dlclose(opened);
    return has;
}

static int lacks_a_cable(const struct mn_mesh *mesh)
{
    for (size_t a = 0; a < mesh->n_nodes; a++)
        for (size_t b = a + 1; b < mesh->n_nodes; b++)
            if (!mn_mesh_has_cable(mesh, (int)a, (int)b))
                return 1;
    return 0;
}

void mn_nccl_env_tuner(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    const char *before = getenv("NCCL_TUNER_PLUGIN"), *algorithm = getenv("NCCL_ALGO");

    if (!s->tuner || !s->mesh_path || !s->mesh.settings.tuner)
        return;
    if (s->minor >= TAKES_TUNER && before && !strcmp(before, "none"))
        mn_nccl_env_add(env, "NCCL_TUNER_PLUGIN", mn_asprintf("%s", before),
                        "as it is: NCCL chooses algorithms without the mesh")
            ->kept = 1;
    else if (s->minor >= TAKES_TUNER)
        mn_nccl_env_add(env, "NCCL_TUNER_PLUGIN", mn_asprintf("%s", s->plugin),
                        "algorithms that follow the cables: meshnet tune shows which");
    else if (s->mesh.n_nodes > FEW && lacks_a_cable(&s->mesh) && !(algorithm && *algorithm))
        mn_nccl_env_warn(env,
                         "this release takes no tuner like the plugin's (2.21 and newer do), and "
                         "trees leave the cables: NCCL_ALGO=Ring keeps data on the ring");
}
