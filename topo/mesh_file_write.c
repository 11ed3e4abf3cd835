/* Prints the tree of a mesh as YAML. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "topo/mesh_file.h"
#include "topo/mesh_file_json.h"

/* 1 when a YAML reader takes the bare text for text, not for a number, time, truth value or null,
 * and nothing in it has a meaning of its own, in lists and mappings of either style. */
static int reads_as_text(const char *text)
{
    static const char *const words[] = {"y",   "n",    "yes",   "no",  "on",
                                        "off", "true", "false", "null"};
    static const char *const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_./:+-@";
    size_t len = strlen(text), dots = 0;
    if (!isalnum((unsigned char)*text) && *text != '_' && *text != '/')
        return 0;
    if (strspn(text, safe) != len || text[len - 1] == ':')
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(text, words[i]))
            return 0;
    if (!isdigit((unsigned char)*text))
        return 1;
    if (*text == '0' && strchr("xXoObB", text[1]) && text[1])
        return 0;
    /* "10.0.1.1" has too many dots for a number; "10:20" is one to base 60. */
    for (const char *c = text; *c; c++)
        dots += *c == '.';
    return strspn(text, "0123456789_.:+-eE") != len || (dots > 1 && !strchr(text, ':'));
}

static void put_text(FILE *out, const char *text)
{
    if (reads_as_text(text)) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_scalar(FILE *out, const cJSON *value)
{
    if (cJSON_IsString(value))
        put_text(out, value->valuestring);
    else if (cJSON_IsBool(value))
        fputs(cJSON_IsTrue(value) ? "true" : "false", out);
    else
        fprintf(out, "%.0f", value->valuedouble);
}

static int is_leaf(const cJSON *value)
{
    return !cJSON_IsArray(value) && !cJSON_IsObject(value);
}

static int only_leaves(const cJSON *value)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, value) if (!is_leaf(item)) return 0;
    return 1;
}

static void put_flow(FILE *out, const cJSON *value)
{
    const cJSON *item;
    fputc(cJSON_IsArray(value) ? '[' : '{', out);
    cJSON_ArrayForEach(item, value)
    {
        if (item != value->child)
            fputs(", ", out);
        if (item->string)
            fprintf(out, "%s: ", item->string);
        if (is_leaf(item))
            put_scalar(out, item);
        else
            put_flow(out, item);
    }
    fputc(cJSON_IsArray(value) ? ']' : '}', out);
}

static void put_map(FILE *out, const cJSON *map, int indent);

static void put_list(FILE *out, const cJSON *list, int indent)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        fprintf(out, "%*s- ", indent, "");
        if (!strcmp(list->string, "gpus")) { /* a table: one on each line */
            put_flow(out, item);
            fputc('\n', out);
        } else {
            put_map(out, item, indent + 2);
        }
    }
}

/* The first line stands where the caller has left off: behind the dash of a list, or at column 0.
 */
static void put_map(FILE *out, const cJSON *map, int indent)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, map)
    {
        if (item != map->child)
            fprintf(out, "%*s", indent, "");
        fprintf(out, "%s:", item->string);
        int flow = only_leaves(item) && (cJSON_IsArray(item) || indent > 0);
        if (is_leaf(item) || flow)
            fputc(' ', out);
        else
            fputc('\n', out);
        if (is_leaf(item))
            put_scalar(out, item);
        else if (flow)
            put_flow(out, item);
        if (is_leaf(item) || flow) {
            fputc('\n', out);
        } else if (cJSON_IsArray(item)) {
            put_list(out, item, indent + 2);
        } else {
            fprintf(out, "%*s", indent + 2, "");
            put_map(out, item, indent + 2);
        }
    }
}

enum mn_err mn_mesh_format_yaml(const struct mn_mesh *mesh, char **text, struct mn_diag *diag)
{
    size_t len;
    *text = NULL;
    cJSON *root = mn_mesh_tree(mesh);
    FILE *out = root ? open_memstream(text, &len) : NULL;
    if (out) {
        put_map(out, root, 0);
        if (ferror(out) | fclose(out)) {
            free(*text);
            *text = NULL;
        }
    }
    cJSON_Delete(root);
    return *text ? MN_OK : mn_fail(diag, MN_ERR_NOMEM, "out of memory for the mesh as YAML");
}
