#ifndef MN_PREDICT_IMPL_H
#define MN_PREDICT_IMPL_H

#include "bench/predict.h"
#include "topo/load.h"

/* Carries out the schedules of model->n_ranks ranks; parts gets what each part of the fabric had to
 * do in all. Seconds, or below 0: a schedule that cannot end. */
double mn_simulate(const struct mn_model *model, const struct mn_schedule *schedules,
                   struct mn_load *parts);

#endif
