#include "topo/mesh_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_setting.h"

enum mn_err mn_read_fail(struct mn_reader *r, const struct mn_yaml *at, const char *fmt, ...)
{
    char text[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mn_mesh_fail_at(r->diag, r->file, at->line, at->column, "%s", text);
}

/* --- keys ----------------------------------------------------------------------------------- */

/* Edit distance, bounded by the length of keys. */
static size_t distance(const char *a, const char *b)
{
    size_t row[32], n = strlen(b), m = strlen(a);
    if (n >= 32 || m >= 32)
        return 99;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[n];
}

/* keys: the names known here, NULL at the end. */
static enum mn_err fail_unknown(struct mn_reader *r, const char *what, const struct mn_yaml *key,
                                const char *const *keys)
{
    const char *nearest = NULL;
    size_t best = 4;
    char list[256] = "";
    for (; *keys; keys++) {
        size_t used = strlen(list), d = distance(key->text, *keys);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", *keys);
        if (d < best && d < strlen(*keys)) {
            best = d;
            nearest = *keys;
        }
    }
    if (nearest)
        return mn_read_fail(r, key, "unknown key \"%.64s\" in %s; did you mean \"%s\"?", key->text,
                            what, nearest);
    return mn_read_fail(r, key, "unknown key \"%.64s\" in %s; expected %s", key->text, what, list);
}

enum mn_err mn_read_fail_kind(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                              const char *expected)
{
    if (value->kind == MN_YAML_SCALAR && !mn_yaml_is_null(value))
        return mn_read_fail(r, value, "%s: \"%.64s\"; expected %s", key, value->text, expected);
    return mn_read_fail(r, value, "%s: %s; expected %s", key, mn_yaml_kind_name(value), expected);
}

static enum mn_err check_duplicates(struct mn_reader *r, const char *what,
                                    const struct mn_yaml *map)
{
    for (size_t i = 0; i < map->n_items; i += 2)
        for (size_t j = 0; j < i; j += 2)
            if (!strcmp(map->items[i]->text, map->items[j]->text))
                return mn_read_fail(
                    r, map->items[i],
                    "duplicate key \"%.64s\" in %s, first on line %d; expected it once",
                    map->items[i]->text, what, map->items[j]->line);
    return MN_OK;
}

const struct mn_yaml *mn_read_map_get(const struct mn_yaml *map, const char *key)
{
    for (size_t i = 0; i < map->n_items; i += 2)
        if (!strcmp(map->items[i]->text, key))
            return map->items[i + 1];
    return NULL;
}

/* Refuses keys outside the table first: a file of twenty wrong lines is told about line one. */
enum mn_err mn_read_check_keys(struct mn_reader *r, const char *what, const struct mn_yaml *map,
                               const char *const *names)
{
    for (size_t i = 0; i < map->n_items; i += 2) {
        size_t k = 0;
        while (names[k] && strcmp(map->items[i]->text, names[k]) != 0)
            k++;
        if (!names[k])
            return fail_unknown(r, what, map->items[i], names);
    }
    return check_duplicates(r, what, map);
}

enum mn_err mn_read_map(struct mn_reader *r, const char *what, const struct mn_yaml *map,
                        const struct mn_read_key *keys)
{
    const char *names[16] = {NULL};
    if (map->kind != MN_YAML_MAP)
        return mn_read_fail_kind(r, what, map, "a mapping (key: value)");
    for (size_t k = 0; keys[k].name; k++)
        names[k] = keys[k].name;
    enum mn_err err = mn_read_check_keys(r, what, map, names);
    for (const struct mn_read_key *key = keys; key->name && !err; key++) {
        const struct mn_yaml *value = mn_read_map_get(map, key->name);
        if (value)
            err = key->read(r, key->name, value);
        else if (key->required)
            err = mn_read_fail(r, map, "%s lacks the key \"%s\"", what, key->name);
    }
    return err;
}

/* --- values --------------------------------------------------------------------------------- */

enum mn_err mn_read_text(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                         size_t size, char *text)
{
    if (value->kind != MN_YAML_SCALAR || mn_yaml_is_null(value) || !*value->text)
        return mn_read_fail_kind(r, key, value, "text");
    if (strlen(value->text) >= size)
        return mn_read_fail(r, value, "%s: \"%.40s…\" is %zu bytes long; expected at most %zu", key,
                            value->text, strlen(value->text), size - 1);
    mn_strlcpy(text, value->text, size);
    return MN_OK;
}

enum mn_err mn_read_name(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                         char *name)
{
    enum mn_err err = mn_read_text(r, key, value, MN_NAME_MAX, name);
    if (err)
        return err;
    if (strchr(name, '/'))
        return mn_read_fail(r, value, "%s: \"%s\" contains a slash; expected a name without one",
                            key, name);
    if (name[0] == ' ' || name[strlen(name) - 1] == ' ')
        return mn_read_fail(r, value, "%s: \"%s\" begins or ends with a space; expected a name",
                            key, name);
    return MN_OK;
}

enum mn_err mn_read_long(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                         long min, long max, long *number)
{
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %ld to %ld", min, max);
    if (value->kind != MN_YAML_SCALAR || !value->plain ||
        !mn_parse_long(value->text, min, max, number))
        return mn_read_fail_kind(r, key, value, expected);
    return MN_OK;
}

enum mn_err mn_read_list(struct mn_reader *r, const char *key, const struct mn_yaml *list,
                         size_t max, const char *expected,
                         enum mn_err (*read)(struct mn_reader *r, const struct mn_yaml *item))
{
    if (list->kind != MN_YAML_LIST)
        return mn_read_fail_kind(r, key, list, expected);
    if (list->n_items > max)
        return mn_read_fail(r, list->items[max], "%s: %zu entries; expected at most %zu", key,
                            list->n_items, max);
    for (size_t i = 0; i < list->n_items; i++) {
        enum mn_err err = read(r, list->items[i]);
        if (err)
            return err;
    }
    return MN_OK;
}

struct mn_mesh_node *mn_reader_node(struct mn_reader *r)
{
    return &r->mesh->nodes[r->node];
}
