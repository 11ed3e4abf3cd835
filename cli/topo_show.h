/* What meshnet topo show draws, for its own files and those that draw a mesh beside it. */
#ifndef MN_CLI_TOPO_SHOW_H
#define MN_CLI_TOPO_SHOW_H

#include "topo/base/out.h"
#include "topo/draw.h"

/* Whether the environment's locale is UTF-8; the process's own stays what it is. */
int mn_topo_show_utf8(void);
void mn_topo_show_json(const struct mn_draw *draw, const char *path, FILE *file);
/* An <svg> of its own. Without graphviz the nodes stand in a circle; then the error says so, and
 * the picture is written all the same. */
enum mn_err mn_topo_show_svg(const struct mn_draw *draw, FILE *file, struct mn_diag *diag);

#endif
