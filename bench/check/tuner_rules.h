/* The rules about tuners; their rows are in tuner.c. */
#ifndef MN_CHECK_TUNER_RULES_H
#define MN_CHECK_TUNER_RULES_H

#include "bench/check/tuner_kit.h"

/* tuner_library.c: what is exported, and what every call does beside its work */
void mn_tune_check_symbols(struct mn_check *check);
void mn_tune_check_object(struct mn_check *check);
void mn_tune_check_name(struct mn_check *check);
void mn_tune_check_slots(struct mn_check *check);
void mn_tune_check_init(struct mn_check *check);
void mn_tune_check_constants(struct mn_check *check);
void mn_tune_check_quiet(struct mn_check *check);
void mn_tune_check_cost(struct mn_check *check);

/* tuner_choice.c: one answer */
void mn_tune_check_success(struct mn_check *check);
void mn_tune_check_bounds(struct mn_check *check);
void mn_tune_check_choice(struct mn_check *check);
void mn_tune_check_possible(struct mn_check *check);
void mn_tune_check_pair(struct mn_check *check);
void mn_tune_check_pair_whole(struct mn_check *check);
void mn_tune_check_numbers(struct mn_check *check);
void mn_tune_check_channels(struct mn_check *check);
void mn_tune_check_chunk(struct mn_check *check);
void mn_tune_check_edges(struct mn_check *check);

/* tuner_many.c: several answers, communicators, processes */
void mn_tune_check_repeatable(struct mn_check *check);
void mn_tune_check_ranks(struct mn_check *check);
void mn_tune_check_contexts(struct mn_check *check);
void mn_tune_check_destroy(struct mn_check *check);
void mn_tune_check_threads(struct mn_check *check);
void mn_tune_check_reload(struct mn_check *check);
void mn_tune_check_leaves(struct mn_check *check);
void mn_tune_check_memory(struct mn_check *check);

#endif
