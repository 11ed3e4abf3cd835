#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/opt.h"

static void *field(const struct mn_opt *row, void *values)
{
    return (char *)values + row->offset;
}

static enum mn_err out_of_range(const struct mn_opt *row, const char *text, struct mn_diag *diag)
{
    return mn_fail(diag, MN_ERR_USAGE, "--%s '%s' is out of range: expected %.15g to %.15g",
                   row->name, text, row->min, row->max);
}

/* In the largest unit of which it is a whole number. */
static const char *time_text(double ms, char *text, size_t size)
{
    static const struct {
        const char *name;
        unsigned ms;
    } units[] = {{"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
    size_t i = 0;

    while (units[i].ms > 1 && (unsigned)ms % units[i].ms)
        i++;
    snprintf(text, size, "%u %s", (unsigned)ms / units[i].ms, units[i].name);
    return text;
}

static enum mn_err time_out_of_range(const struct mn_opt *row, const char *given,
                                     struct mn_diag *diag)
{
    char min[32], max[32];

    return mn_fail(diag, MN_ERR_USAGE, "--%s '%s' is out of range: expected %s to %s", row->name,
                   given, time_text(row->min, min, sizeof min),
                   time_text(row->max, max, sizeof max));
}

static int in_range(const struct mn_opt *row, double value)
{
    return (row->min == 0 && row->max == 0) || (value >= row->min && value <= row->max);
}

static enum mn_err set_choice(const struct mn_opt *row, const char *text, int *value,
                              struct mn_diag *diag)
{
    const char *at = row->choices;

    for (int i = 0; *at; i++) {
        size_t len = strcspn(at, "|");
        if (strlen(text) == len && !memcmp(at, text, len)) {
            *value = i;
            return MN_OK;
        }
        at += len + (at[len] == '|');
    }
    return mn_fail(diag, MN_ERR_USAGE, "--%s '%s': expected one of %s", row->name, text,
                   row->choices);
}

static enum mn_err add_items(const struct mn_opt *row, struct mn_opt_list *list, const char *text,
                             struct mn_diag *diag)
{
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        if (!len)
            return mn_fail(diag, MN_ERR_USAGE,
                           "--%s '%s': an item is empty; expected a list such as a,b", row->name,
                           text);
        const char **item = mn_grow((void **)&list->items, &list->count, sizeof *item);
        *item = mn_asprintf("%.*s", (int)len, at);
        at += len;
        if (!*at)
            return MN_OK;
    }
}

static enum mn_err set_text(const struct mn_opt *row, const char *text, const char **value,
                            struct mn_diag *diag)
{
    if (!*text && row->arg && !strcmp(row->arg, "FILE"))
        return mn_fail(diag, MN_ERR_USAGE, "--%s '': expected a file's name", row->name);
    *value = text;
    return MN_OK;
}

static enum mn_err set_number(const struct mn_opt *row, const char *text, double *value,
                              struct mn_diag *diag)
{
    char *end;

    errno = 0;
    *value = row->type == MN_OPT_INT ? (double)strtol(text, &end, 10) : strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text))
        return mn_fail(diag, MN_ERR_USAGE, "--%s '%s': expected a %snumber", row->name, text,
                       row->type == MN_OPT_INT ? "whole " : "");
    return errno || !in_range(row, *value) ? out_of_range(row, text, diag) : MN_OK;
}

static enum mn_err set(const struct mn_opt *row, void *values, const char *text,
                       struct mn_diag *diag)
{
    void *at = field(row, values);
    struct mn_diag why;
    unsigned long long bytes;
    unsigned ms;
    double number;
    enum mn_err err = MN_OK;

    switch (row->type) {
    case MN_OPT_FLAG:
        *(int *)at = 1;
        break;
    case MN_OPT_COUNT:
        ++*(int *)at;
        break;
    case MN_OPT_INT:
        err = set_number(row, text, &number, diag);
        if (!err)
            *(long *)at = strtol(text, NULL, 10);
        break;
    case MN_OPT_DOUBLE:
        err = set_number(row, text, &number, diag);
        if (!err)
            *(double *)at = number;
        break;
    case MN_OPT_SIZE:
        if (mn_parse_size(text, &bytes, &why))
            return mn_fail(diag, MN_ERR_USAGE, "--%s %s", row->name, why.text);
        if (!in_range(row, (double)bytes))
            return out_of_range(row, text, diag);
        *(unsigned long long *)at = bytes;
        break;
    case MN_OPT_DURATION:
        if (mn_parse_duration(text, &ms, &why))
            return mn_fail(diag, MN_ERR_USAGE, "--%s %s", row->name, why.text);
        if (!in_range(row, ms))
            return time_out_of_range(row, text, diag);
        *(unsigned *)at = ms;
        break;
    case MN_OPT_STRING:
        err = set_text(row, text, at, diag);
        break;
    case MN_OPT_CHOICE:
        err = set_choice(row, text, at, diag);
        break;
    case MN_OPT_LIST:
        err = add_items(row, at, text, diag);
        break;
    }
    return err;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance of two short words. */
static size_t distance(const char *a, const char *b)
{
    size_t row[64], la = strlen(a), lb = strlen(b);

    if (la > 63 || lb > 63)
        return 64;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = smaller(change, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[lb];
}

const char *mn_nearest(const char *word, const char *(*name_at)(const void *ctx, size_t i),
                       const void *ctx)
{
    const char *best = NULL, *name;
    size_t limit = strlen(word) / 3 + 1;

    for (size_t i = 0; (name = name_at(ctx, i)); i++) {
        size_t d = distance(word, name);
        if (d <= limit) {
            limit = d ? d - 1 : 0;
            best = name;
        }
    }
    return best;
}

static const char *option_name(const void *ctx, size_t i)
{
    return ((const struct mn_opt *)ctx)[i].name;
}

static enum mn_err unknown(const struct mn_opt *rows, const char *arg, struct mn_diag *diag)
{
    char word[64];

    mn_strlcpy(word, arg + strspn(arg, "-"), sizeof word);
    word[strcspn(word, "=")] = 0;
    const char *near = mn_nearest(word, option_name, rows);
    return mn_fail(diag, MN_ERR_USAGE, "unknown option '%s'%s%s%s", arg,
                   near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

static int takes_value(const struct mn_opt *row)
{
    return row->type != MN_OPT_FLAG && row->type != MN_OPT_COUNT;
}

static enum mn_err parse_long(const struct mn_opt *rows, void *values, int argc, char **argv,
                              int *at, struct mn_diag *diag)
{
    const char *arg = argv[*at] + 2;
    size_t len = strcspn(arg, "=");

    for (const struct mn_opt *row = rows; row->name; row++) {
        if (strlen(row->name) != len || memcmp(row->name, arg, len))
            continue;
        if (!takes_value(row))
            return arg[len] ? mn_fail(diag, MN_ERR_USAGE, "--%s takes no value", row->name)
                            : set(row, values, NULL, diag);
        if (arg[len])
            return set(row, values, arg + len + 1, diag);
        if (*at + 1 >= argc)
            return mn_fail(diag, MN_ERR_USAGE, "--%s needs a value: %s", row->name, row->arg);
        return set(row, values, argv[++*at], diag);
    }
    return unknown(rows, argv[*at], diag);
}

static enum mn_err parse_short(const struct mn_opt *rows, void *values, int argc, char **argv,
                               int *at, struct mn_diag *diag)
{
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct mn_opt *row = rows;
        while (row->name && row->letter != *letter)
            row++;
        if (!row->name)
            return unknown(rows, argv[*at], diag);
        if (takes_value(row)) {
            if (letter[1])
                return set(row, values, letter + 1, diag);
            if (*at + 1 >= argc)
                return mn_fail(diag, MN_ERR_USAGE, "-%c needs a value: %s", row->letter, row->arg);
            return set(row, values, argv[++*at], diag);
        }
        set(row, values, NULL, diag);
    }
    return MN_OK;
}

/* Moves argv[from] to the end of what is operands up to now: argv[0..count). */
static void move_left(char **argv, int from, int count)
{
    char *arg = argv[from];

    memmove(argv + count + 1, argv + count, (size_t)(from - count) * sizeof *argv);
    argv[count] = arg;
}

/* Swaps argv[0..count) and argv[count..argc), each in its order. */
static void rotate(char **argv, int argc, int count)
{
    for (int i = 0; i < count; i++) {
        char *arg = argv[0];
        memmove(argv, argv + 1, (size_t)(argc - 1) * sizeof *argv);
        argv[argc - 1] = arg;
    }
}

static const char *choice(const struct mn_opt *row, int index)
{
    const char *at = row->choices;

    while (index--)
        at += strcspn(at, "|") + 1;
    return at;
}

/* Programs are told "--json" everywhere; one output has one form. */
static enum mn_err check_form(const struct mn_opt *rows, void *values, struct mn_diag *diag)
{
    const struct mn_opt *json = NULL, *csv = NULL, *format = NULL;
    int was, of_json;

    for (const struct mn_opt *row = rows; row->name; row++)
        if (!strcmp(row->name, "json"))
            json = row;
        else if (!strcmp(row->name, "csv"))
            csv = row;
        else if (!strcmp(row->name, "format"))
            format = row;
    if (!json || !*(int *)field(json, values))
        return MN_OK;
    if (csv && *(int *)field(csv, values))
        return mn_fail(diag, MN_ERR_USAGE, "--json and --csv exclude each other");
    if (!format || !format->choices || set_choice(format, "json", &of_json, NULL) ||
        set_choice(format, format->def, &was, NULL))
        return MN_OK;
    int is = *(int *)field(format, values);
    if (is != of_json && is != was)
        return mn_fail(diag, MN_ERR_USAGE, "--json and --format %.*s exclude each other",
                       (int)strcspn(choice(format, is), "|"), choice(format, is));
    return MN_OK;
}

enum mn_err mn_opt_parse(const struct mn_opt *rows, void *values, int argc, char **argv, int *first,
                         struct mn_diag *diag)
{
    enum mn_err err = MN_OK;
    int at = 0, operands = 0;

    for (const struct mn_opt *row = rows; row->name && !err; row++)
        if (row->def && row->type != MN_OPT_LIST)
            err = set(row, values, row->def, diag);
    for (; at < argc && !err; at++) {
        if (argv[at][0] != '-' || !argv[at][1]) {
            move_left(argv, at, operands++);
        } else if (!strcmp(argv[at], "--")) {
            at++;
            break;
        } else if (argv[at][1] == '-') {
            err = parse_long(rows, values, argc, argv, &at, diag);
        } else {
            err = parse_short(rows, values, argc, argv, &at, diag);
        }
    }
    for (const struct mn_opt *row = rows; row->name && !err; row++)
        if (row->def && row->type == MN_OPT_LIST &&
            !((struct mn_opt_list *)field(row, values))->count)
            err = set(row, values, row->def, diag);
    if (!err)
        err = check_form(rows, values, diag);
    if (!err)
        rotate(argv, at, operands);
    *first = at - operands;
    return err;
}

void mn_opt_free(const struct mn_opt *rows, void *values)
{
    for (const struct mn_opt *row = rows; row->name; row++) {
        if (row->type != MN_OPT_LIST)
            continue;
        struct mn_opt_list *list = field(row, values);
        for (size_t i = 0; i < list->count; i++)
            free((void *)(uintptr_t)list->items[i]);
        free(list->items);
        *list = (struct mn_opt_list){0};
    }
}

void mn_opt_help(const struct mn_opt *rows, FILE *file)
{
    for (const struct mn_opt *row = rows; row->name; row++) {
        char left[64], letter[8] = "    ";
        if (row->letter)
            snprintf(letter, sizeof letter, "-%c, ", row->letter);
        snprintf(left, sizeof left, "  %s--%s%s%s", letter, row->name, row->arg ? " " : "",
                 row->arg ? row->arg : "");
        fprintf(file, "%-28s %s", left, row->help);
        if (row->choices)
            fprintf(file, " (%s)", row->choices);
        if (row->def && takes_value(row))
            fprintf(file, " [%s]", row->def);
        fputc('\n', file);
    }
}
