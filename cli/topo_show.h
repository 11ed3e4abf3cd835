/* Inside cli/cmd_topo_show*.c only: what meshnet topo show writes for others than people. */
#ifndef MN_CLI_TOPO_SHOW_H
#define MN_CLI_TOPO_SHOW_H

#include "topo/base/out.h"
#include "topo/draw.h"

void mn_topo_show_json(const struct mn_draw *draw, const char *path, FILE *file);
/* An <svg> of its own. Without graphviz the nodes stand in a circle; then the error says so, and
 * the picture is written all the same. */
enum mn_err mn_topo_show_svg(const struct mn_draw *draw, FILE *file, struct mn_diag *diag);

#endif
