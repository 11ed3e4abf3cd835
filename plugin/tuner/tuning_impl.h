/* The parts of the tuner among themselves. */
#ifndef MN_TUNING_IMPL_H
#define MN_TUNING_IMPL_H

#include "plugin/tuner/tuning.h"
#include "topo/fabric.h"

/* The mesh file as this process first read it, sorted, however it changes: communicators that are
 * made later have to decide as the other ranks do. NULL: there is none, and the next call looks
 * again. A changed MESHNET_CONFIG is another file. What it points to stays. Any thread. */
enum mn_err mn_tuning_mesh(const struct mn_mesh **mesh, struct mn_diag *diag);
/* From here on mn_tuning_acts() is 1. */
void mn_tuning_has_acted(void);
/* The rule, the order and what is barred. Ends as mn_zalloc() does. */
void mn_tuning_decide(const struct mn_mesh *mesh, const struct mn_tuning_asked *asked,
                      const struct mn_fabric *fabric, struct mn_tuning *tuner);
/* Fills what is predicted. Ends as mn_zalloc() does. */
void mn_tuning_predict(const struct mn_fabric *fabric, const struct mn_tuning_asked *asked,
                       struct mn_tuning *tuner);

#endif
