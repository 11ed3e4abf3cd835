/* The rules that are meant, and what there is to know about them before any runs. */
#ifndef MN_VERIFY_RULES_H
#define MN_VERIFY_RULES_H

#include "bench/check.h"
#include "topo/base/opt.h"
#include "topo/base/out.h"

struct mn_verify_choice {
    struct mn_opt_list names; /* of rules and families; none = all */
    unsigned flags;           /* enum mn_check_flags that a rule must carry */
    int two_machines;         /* only rules that run there, or that say why they do not */
    int two_processes;        /* the same of processes */
};

/* In the order of the tables. */
void mn_verify_each(void (*visit)(void *ctx, const struct mn_check_family *family,
                                  const struct mn_check_rule *rule),
                    void *ctx);
/* MN_ERR_USAGE when no rule or family has this name; option is where it came from. */
enum mn_err mn_verify_name(const char *option, const char *name, struct mn_diag *diag);
int mn_verify_chosen(const struct mn_verify_choice *choice, const struct mn_check_family *family,
                     const struct mn_check_rule *rule);

/* Whether the rule runs once more with its ends in two processes, although nobody asked: not when
 * it is named itself. */
int mn_verify_twice(const struct mn_verify_choice *choice, const struct mn_check_family *family,
                    const struct mn_check_rule *rule);

/* Whether a patient rule was asked for: by its own name, or with two machines. */
int mn_verify_patient(const struct mn_verify_choice *choice, const struct mn_check_rule *rule);

void mn_verify_list(struct mn_out *out, const struct mn_verify_choice *choice);
/* One rule, or those of a family, in full. */
void mn_verify_explain(struct mn_out *out, const char *name);

#endif
