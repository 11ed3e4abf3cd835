/* How a bench's results look. */
#ifndef MN_BENCH_REPORT_H
#define MN_BENCH_REPORT_H

#include "bench/p2p.h"
#include "topo/base/out.h"

/* mesh_path: the mesh file in effect, "" for none. */
void mn_bench_print(struct mn_out *out, const struct mn_p2p_plan *plan, const char *mesh_path,
                    const struct mn_mesh *mesh, int self, const struct mn_p2p_report *report);

/* What was measured alone. */
void mn_bench_print_tables(struct mn_out *out, const struct mn_p2p_plan *plan,
                           const struct mn_p2p_report *report);

#endif
