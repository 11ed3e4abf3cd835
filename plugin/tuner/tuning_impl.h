/* The parts of the tuner among themselves. */
#ifndef MN_TUNING_IMPL_H
#define MN_TUNING_IMPL_H

#include "plugin/tuner/tuning.h"
#include "topo/fabric.h"

/* The rule, the order and what is barred. Ends as mn_zalloc() does. */
void mn_tuning_decide(const struct mn_mesh *mesh, const struct mn_tuning_asked *asked,
                      const struct mn_fabric *fabric, struct mn_tuning *tuner);
/* Fills what is predicted. Ends as mn_zalloc() does. */
void mn_tuning_predict(const struct mn_fabric *fabric, const struct mn_tuning_asked *asked,
                       struct mn_tuning *tuner);

#endif
