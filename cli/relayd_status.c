/* What the relayd of this node says of itself, as it comes: its keys are the labels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>

#include "cli/relayd.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh_file.h"

#define MOST_COLUMNS 24

/* What a narrow terminal does without, the first of these first. */
static const char *const spared[] = {"uid",     "pid",       "pieces", "class",
                                     "through", "oldest_ms", "since_s"};

static int how_of(const cJSON *item)
{
    int how = cJSON_IsNumber(item);

    for (int i = 0; i < (int)(sizeof spared / sizeof *spared); i++)
        if (!strcmp(item->string, spared[i]))
            how |= MN_DROP(i + 1);
    return how;
}

/* "uptime_s" is "uptime s". */
static char *label_of(const char *key)
{
    char *label = mn_strdup(key);

    for (char *at = label; *at; at++)
        if (*at == '_')
            *at = ' ';
    return label;
}

static int is_whole(double value)
{
    return value > -1e15 && value < 1e15 && value == (double)(long long)value;
}

static void put_value(struct mn_out *out, const cJSON *item)
{
    char *label = label_of(item->string);

    if (cJSON_IsNumber(item) && is_whole(item->valuedouble))
        mn_out_int(out, item->string, label, (int64_t)item->valuedouble);
    else if (cJSON_IsNumber(item))
        mn_out_num(out, item->string, label, item->valuedouble, 2);
    else if (cJSON_IsBool(item))
        mn_out_bool(out, item->string, label, cJSON_IsTrue(item));
    else
        mn_out_str(out, item->string, label, cJSON_GetStringValue(item));
    free(label);
}

static void put_cell(struct mn_out *out, const cJSON *item)
{
    if (cJSON_IsNumber(item) && is_whole(item->valuedouble))
        mn_out_cell_int(out, (int64_t)item->valuedouble);
    else if (cJSON_IsNumber(item))
        mn_out_cell_num(out, item->valuedouble, 2);
    else if (cJSON_IsBool(item))
        mn_out_cell_bool(out, cJSON_IsTrue(item));
    else
        mn_out_cell(out, cJSON_GetStringValue(item));
}

/* Columns are those of the first row. */
static void put_table(struct mn_out *out, const cJSON *list)
{
    struct mn_col cols[MOST_COLUMNS];
    char *labels[MOST_COLUMNS];
    int n = 0;
    const cJSON *first = cJSON_GetArrayItem(list, 0), *item, *row;

    if (!cJSON_IsObject(first))
        return;
    cJSON_ArrayForEach(item, first)
    {
        if (n == MOST_COLUMNS)
            break;
        labels[n] = label_of(item->string);
        cols[n] = (struct mn_col){item->string, labels[n], how_of(item)};
        n++;
    }
    mn_out_table(out, list->string, list->string, cols, n);
    cJSON_ArrayForEach(row, list)
    {
        mn_out_row(out);
        for (int i = 0; i < n; i++)
            put_cell(out, cJSON_GetObjectItemCaseSensitive(row, cols[i].key));
    }
    mn_out_table_end(out);
    for (int i = 0; i < n; i++)
        free(labels[i]);
}

static void put(struct mn_out *out, const cJSON *json)
{
    const cJSON *item, *inner;

    cJSON_ArrayForEach(item, json) if (!cJSON_IsArray(item) && !cJSON_IsObject(item))
        put_value(out, item);
    cJSON_ArrayForEach(item, json)
    {
        if (!cJSON_IsObject(item))
            continue;
        mn_out_begin(out, item->string, item->string);
        cJSON_ArrayForEach(inner, item) if (!cJSON_IsArray(inner) && !cJSON_IsObject(inner))
            put_value(out, inner);
        mn_out_end(out);
    }
    cJSON_ArrayForEach(item, json) if (cJSON_IsArray(item)) put_table(out, item);
}

/* As the daemon has them, so that it is found with a mesh file that is wrong otherwise. */
static enum mn_err find_socket(const struct mn_relayd_options *o, char *path, size_t size,
                               struct mn_diag *diag)
{
    struct mn_settings settings;
    enum mn_err err = o->socket ? MN_OK : mn_settings_in_force(&settings, diag);

    if (!err)
        mn_strlcpy(path, o->socket ? o->socket : settings.relay_socket, size);
    return err;
}

enum mn_err mn_relayd_status(const struct mn_relayd_options *o, struct mn_diag *diag)
{
    char path[256], *text = NULL;
    cJSON *json = NULL;
    enum mn_err err = find_socket(o, path, sizeof path, diag);

    if (!err)
        err = mn_relay_ask_state(path, &text, diag);
    if (!err && !(json = cJSON_Parse(text)))
        err = mn_fail(diag, MN_ERR_FAILED, "%s: what relayd says is no JSON", path);
    if (!err && o->json) {
        mn_clean_json(json);
        char *clean = cJSON_Print(json);
        if (!clean)
            mn_no_memory();
        puts(clean);
        cJSON_free(clean);
    } else if (!err) {
        struct mn_out *out = mn_out_new(stdout, MN_OUT_TEXT);
        if (o->wide)
            mn_out_width(out, 0);
        put(out, json);
        mn_out_free(out);
    }
    if (!err && mn_out_lost(stdout))
        err = mn_fail_errno(diag, "writing the output");
    cJSON_Delete(json);
    free(text);
    return err;
}
