/* Between the sources of meshnet topo apply. */
#ifndef MN_TOPO_APPLY_H
#define MN_TOPO_APPLY_H

#include "cli/crew_options.h"
#include "fleet/apply_run.h"
#include "topo/base/out.h"

struct mn_topo_apply {
    const char *mesh, *root, *node;
    struct mn_crew_options crew;
    struct mn_opt_list take;
    unsigned rollback_ms;
    int dry_run, yes, undo, json, wide, verbose;
};

/* What would change on each node, as a diff; JSON: "nodes". whole: 1: what is in files too, which
 * JSON has always; 2: and in apply's own record. */
void mn_topo_apply_show_plan(struct mn_out *out, const struct mn_apply_run *run, int dry,
                             int whole);
/* For a person: where unconfirmed changes stand without a timer, and whose. */
void mn_topo_apply_show_orphans(struct mn_out *out, const struct mn_apply_run *run);
/* How it went: "results", "cables", "missing_gids". */
void mn_topo_apply_show_end(struct mn_out *out, const struct mn_apply_run *run, enum mn_err err);
/* How many GIDs have not come. */
size_t mn_topo_apply_missing(const struct mn_apply_run *run);
/* One file, for people. */
void mn_topo_apply_show_file(struct mn_out *out, const struct mn_change *file, int whole);
/* The lines that a file loses and gets; NULL: it is not there. Their number; out NULL: that alone.
 */
size_t mn_topo_apply_diff(struct mn_out *out, const char *from, const char *to);

/* --root: the files of one node. */
enum mn_err mn_topo_apply_files(const struct mn_topo_apply *o, struct mn_mesh *mesh,
                                struct mn_diag *diag);

#endif
