/* Prints a matrix of links or pairs, as text, JSON or CSV. */
#ifndef MN_MATRIX_REPORT_H
#define MN_MATRIX_REPORT_H

#include <time.h>

#include "bench/environment.h"
#include "bench/matrix.h"
#include "topo/base/out.h"

struct mn_matrix_results {
    time_t started;
    struct mn_environment *environments;
    int n_environments;
    unsigned long long bytes;  /* of a message */
    const char *error;         /* why it ended early or is not whole, NULL = it is */
    const char *const *absent; /* by node, as in the plan */
    struct mn_matrix_report report;
};

void mn_matrix_print(struct mn_out *out, enum mn_out_format format,
                     const struct mn_matrix_results *results);

/* What is done of a matrix that is not judged yet: the grids and the cells. */
void mn_matrix_print_so_far(struct mn_out *out, const struct mn_matrix_results *results);

#endif
