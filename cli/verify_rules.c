#include "cli/verify_rules.h"

#include <string.h>

void mn_verify_each(void (*visit)(void *ctx, const struct mn_check_family *family,
                                  const struct mn_check_rule *rule),
                    void *ctx)
{
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++)
            visit(ctx, mn_check_families[f], &mn_check_families[f]->rules[r]);
}

struct search {
    const char *name;
    int found;
};

static void find_name(void *ctx, const struct mn_check_family *family,
                      const struct mn_check_rule *rule)
{
    struct search *search = ctx;

    search->found |= mn_check_matches(family, rule, search->name);
}

enum mn_err mn_verify_name(const char *option, const char *name, struct mn_diag *diag)
{
    struct search search = {.name = name};

    mn_verify_each(find_name, &search);
    return search.found ? MN_OK
                        : mn_fail(diag, MN_ERR_USAGE,
                                  "--%s \"%s\": no rule or family of this name; --list shows them",
                                  option, name);
}

int mn_verify_chosen(const struct mn_verify_choice *choice, const struct mn_check_family *family,
                     const struct mn_check_rule *rule)
{
    int named = choice->names.count == 0;

    for (size_t i = 0; i < choice->names.count; i++)
        named |= mn_check_matches(family, rule, choice->names.items[i]);
    return named && (rule->flags & choice->flags) == choice->flags &&
           (!(choice->two_machines || choice->two_processes) || rule->here ||
            rule->flags & (MN_CHECK_PEER | MN_CHECK_ENDS));
}

static int is_named(const struct mn_verify_choice *choice, const struct mn_check_rule *rule)
{
    int named = 0;

    for (size_t i = 0; i < choice->names.count; i++)
        named |= strcmp(choice->names.items[i], rule->id) == 0;
    return named;
}

int mn_verify_twice(const struct mn_verify_choice *choice, const struct mn_check_family *family,
                    const struct mn_check_rule *rule)
{
    return family->twice && rule->flags & MN_CHECK_ENDS && !choice->two_machines &&
           !choice->two_processes && !is_named(choice, rule);
}

int mn_verify_patient(const struct mn_verify_choice *choice, const struct mn_check_rule *rule)
{
    return choice->two_machines || is_named(choice, rule);
}

struct printing {
    struct mn_out *out;
    const struct mn_verify_choice *choice;
    const char *name;
};

static void list_rule(void *ctx, const struct mn_check_family *family,
                      const struct mn_check_rule *rule)
{
    const struct printing *p = ctx;

    if (!mn_verify_chosen(p->choice, family, rule))
        return;
    mn_out_row(p->out);
    mn_out_cell(p->out, rule->id);
    mn_out_cell(p->out, mn_check_grade_name(rule->grade));
    mn_out_cell(p->out, rule->title);
    mn_out_cell(p->out, rule->needs);
    mn_out_cell(p->out, rule->evidence);
}

void mn_verify_list(struct mn_out *out, const struct mn_verify_choice *choice)
{
    static const struct mn_col cols[] = {{"id", "RULE", 0},
                                         {"grade", "GRADE", 0},
                                         {"title", "WHAT MUST HOLD", 0},
                                         {"requires", "WHAT THE API REQUIRES", MN_DROP(2)},
                                         {"evidence", "EVIDENCE", MN_DROP(1)}};
    struct printing p = {.out = out, .choice = choice};

    mn_out_table(out, "rules", NULL, cols, sizeof cols / sizeof *cols);
    mn_verify_each(list_rule, &p);
    mn_out_table_end(out);
}

static void explain(struct mn_out *out, const struct mn_check_family *family,
                    const struct mn_check_rule *rule)
{
    static const char *const ends[] = {
        [MN_CHECK_MUST] = "a failure, exit code 1",
        [MN_CHECK_SHOULD] = "a warning, exit code 1 with --strict only",
        [MN_CHECK_STYLE] = "a note, exit code 0",
    };

    mn_out_begin(out, NULL, rule->id);
    mn_out_str(out, "id", NULL, rule->id);
    mn_out_str(out, "family", "family", family->title);
    mn_out_str(out, "title", "what must hold", rule->title);
    mn_out_str(out, "requires", "what the API requires", rule->needs);
    mn_out_str(out, "breaks", "what happens otherwise", rule->breaks);
    mn_out_str(out, "grade", "grade", mn_check_grade_name(rule->grade));
    mn_out_str(out, "reported_as", "reported as", ends[rule->grade]);
    mn_out_str(out, "evidence", "evidence", rule->evidence);
    mn_out_str(out, "profile", "shown by --profile", rule->profile);
    mn_out_bool(out, "random", "depends on --seed", (rule->flags & MN_CHECK_RANDOM) != 0);
    mn_out_bool(out, "alone", "runs by itself", (rule->flags & MN_CHECK_ALONE) != 0);
    mn_out_bool(out, "patient", "only if named, or with --peer",
                (rule->flags & MN_CHECK_PATIENT) != 0);
    mn_out_str(out, "two_machines", "in two processes, or on two machines",
               rule->flags & MN_CHECK_PEER   ? "its second process is there"
               : rule->flags & MN_CHECK_ENDS ? "the end that connects is there"
                                             : rule->here);
    mn_out_strf(out, "again", "to run it alone", "meshnet verify-plugin --rule %s%s LIBRARY",
                rule->id, rule->flags & MN_CHECK_RANDOM ? " --seed N" : "");
    mn_out_end(out);
}

static void explain_named(void *ctx, const struct mn_check_family *family,
                          const struct mn_check_rule *rule)
{
    const struct printing *p = ctx;

    if (mn_check_matches(family, rule, p->name))
        explain(p->out, family, rule);
}

void mn_verify_explain(struct mn_out *out, const char *name)
{
    struct printing p = {.out = out, .name = name};

    mn_out_list_begin(out, "rules", NULL);
    mn_verify_each(explain_named, &p);
    mn_out_list_end(out);
}
