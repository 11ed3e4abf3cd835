/* Between fleet/verb_apply.c and verb_apply_check.c. */
#ifndef MN_VERB_APPLY_IMPL_H
#define MN_VERB_APPLY_IMPL_H

#include <cjson/cJSON.h>

#include "fleet/apply.h"

/* The mesh file of the question and this host, which is one of its nodes. */
struct mn_apply_site {
    struct mn_mesh mesh;
    struct mn_host host;
    struct mn_kernel *kernel;
    int node;
};

/* Close it after an error too. */
enum mn_err mn_apply_site_open(const cJSON *ask, struct mn_apply_site *s, struct mn_diag *diag);
void mn_apply_site_close(struct mn_apply_site *s);

enum mn_err mn_ask_number(const cJSON *ask, const char *key, unsigned min, unsigned max,
                          unsigned *value, struct mn_diag *diag);
/* Texts of ask, which owns them; the caller frees the array. None where there is no such key. */
enum mn_err mn_ask_texts(const cJSON *ask, const char *key, const char ***list, size_t *n,
                         struct mn_diag *diag);
cJSON *mn_texts_json(char *const *texts, size_t n);

#endif
