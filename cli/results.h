/* Reads files of results, which meshnet bench --json writes (docs/RESULTS.md has the format). */
#ifndef MN_RESULTS_H
#define MN_RESULTS_H

#include <cjson/cJSON.h>

#include "topo/base/err.h"

#define MN_RESULTS_SCHEMA  "meshnet-results"
#define MN_RESULTS_VERSION 1
#define MN_RESULTS_MAX     (256u << 20) /* bytes of a file */

enum mn_results_kind {
    MN_RESULTS_LINK,
    MN_RESULTS_COLLECTIVES,
    MN_RESULTS_MATRIX,
    MN_RESULTS_KINDS
};

/* A kind and its lists of objects, NULL after the last. A list may be absent: not measured. */
struct mn_results_kind_row {
    const char *name;
    const char *lists[6];
};
extern const struct mn_results_kind_row mn_results_kinds[MN_RESULTS_KINDS];

struct mn_results {
    cJSON *json;
    enum mn_results_kind kind;
};

/* Whether the file holds results of a version and kind known here: then environment and the kind's
 * lists are arrays of objects, at least one of the lists is there, and environment is too. What
 * stands in the objects is for the caller to check. Otherwise MN_ERR_CONFIG with the file, what was
 * found and what was expected. Free in either case. */
enum mn_err mn_results_read(const char *path, struct mn_results *results, struct mn_diag *diag);
/* The same from memory; name stands for the file. */
enum mn_err mn_results_parse(const char *name, const char *text, size_t len,
                             struct mn_results *results, struct mn_diag *diag);
void mn_results_free(struct mn_results *results);

/* Members by key: the text or number, or the default when the member is absent or something else.
 */
const char *mn_results_text(const cJSON *object, const char *key, const char *otherwise);
double mn_results_number(const cJSON *object, const char *key, double otherwise);

#endif
