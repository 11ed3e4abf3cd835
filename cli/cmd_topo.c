#include "cli/cmd.h"

static const struct mn_opt options[] = {
    MN_OPT_END,
};

static const struct mn_command *const parts[] = {
    &mn_cmd_topo_address, &mn_cmd_topo_apply,  &mn_cmd_topo_emit, &mn_cmd_topo_plan,
    &mn_cmd_topo_ranks,   &mn_cmd_topo_routes, &mn_cmd_topo_show, NULL,
};

const struct mn_command mn_cmd_topo = {
    .name = "topo",
    .summary = "the mesh as a whole: its configuration on the nodes",
    .usage = "PART [OPTION]…",
    .options = options,
    .options_size = 1,
    .notes = "Example: meshnet topo emit netplan --mesh mesh.yaml --node spark-a",
    .exits = {{0, MN_GOOD}, {2, MN_REFUSED "no part of it is named"}},
    .parts = parts,
};
