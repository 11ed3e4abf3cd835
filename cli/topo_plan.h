/* Inside cmd_topo_plan.c and topo_plan_show.c only: plans as text and JSON. */
#ifndef MN_CLI_TOPO_PLAN_H
#define MN_CLI_TOPO_PLAN_H

#include "topo/base/out.h"
#include "topo/wiring_mesh.h"

struct mn_wiring_view {
    const struct mn_wiring *plans; /* the first is the one that is cabled */
    size_t n_plans;
    const struct mn_wiring_hosts *hosts;
    const struct mn_wiring_speed *speed;
    const struct mn_mesh *mesh; /* of the first; NULL: none is drawn */
    int json;
};

void mn_topo_plan_compare(struct mn_out *out, const struct mn_wiring_view *view);
/* Boxes to tick are the text's alone. */
void mn_topo_plan_list(struct mn_out *out, const struct mn_wiring_view *view);
/* Nothing in JSON, nor of a mesh too large for a look. columns: 0 = as many as it takes. */
void mn_topo_plan_draw(struct mn_out *out, const struct mn_wiring_view *view, int columns);

#endif
