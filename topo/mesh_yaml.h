/* A YAML document as a tree that knows the place of everything in it. The subset that a
 * configuration needs: one document, no anchors, aliases, tags or merge keys; bounded depth and
 * size. */
#ifndef MN_MESH_YAML_H
#define MN_MESH_YAML_H

#include <stddef.h>

#include "topo/base/err.h"

#define MN_YAML_MAX (32 * 1024 * 1024) /* bytes */

enum mn_yaml_kind { MN_YAML_SCALAR, MN_YAML_LIST, MN_YAML_MAP };

struct mn_yaml {
    enum mn_yaml_kind kind;
    int line, column;       /* from 1 */
    char *text;             /* scalar */
    int plain;              /* scalar without quotes */
    struct mn_yaml **items; /* a map has key, value, key, value, … with scalar keys */
    size_t n_items;
};

/* Errors name file:line:column. A text without a document gives *root NULL. */
enum mn_err mn_yaml_parse(const char *file, const char *text, size_t len, struct mn_yaml **root,
                          struct mn_diag *diag);
void mn_yaml_free(struct mn_yaml *node); /* NULL is fine */

/* Plain and one of the ways to write nothing: empty, ~, null. */
int mn_yaml_is_null(const struct mn_yaml *node);
/* "a list", "a mapping", "text", for messages. */
const char *mn_yaml_kind_name(const struct mn_yaml *node);

#endif
