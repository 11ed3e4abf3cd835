/* The parts of the tuner among themselves. */
#ifndef MN_TUNING_IMPL_H
#define MN_TUNING_IMPL_H

#include "plugin/tuner/tuning.h"
#include "topo/fabric.h"

/* Rules 1 and 3 and, of rule 2, what is barred. order: the nodes along the cables, of as many as
 * the mesh has. Ends as mn_zalloc() does. */
void mn_tuning_decide(const struct mn_mesh *mesh, const struct mn_tuning_asked *asked,
                      const struct mn_fabric *fabric, int *order, struct mn_tuning *tuner);
/* Fills what is predicted. Ends as mn_zalloc() does. */
void mn_tuning_predict(const struct mn_fabric *fabric, const int *order,
                       const ncclTunerConstants_v5_t *constants, struct mn_tuning *tuner);

#endif
