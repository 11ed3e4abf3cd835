#include "topo/mesh_yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh_check.h"

#define DEPTH_MAX 12

struct loader {
    const char *file, *text;
    size_t len;
    struct mn_diag *diag;
    yaml_parser_t parser;
    struct mn_yaml *stack[DEPTH_MAX]; /* open lists and maps */
    int depth;
    struct mn_yaml *root;
    int documents;
};

void mn_yaml_free(struct mn_yaml *node)
{
    if (!node)
        return;
    for (size_t i = 0; i < node->n_items; i++)
        mn_yaml_free(node->items[i]);
    free(node->items);
    free(node->text);
    free(node);
}

int mn_yaml_is_null(const struct mn_yaml *node)
{
    return node->kind == MN_YAML_SCALAR && node->plain &&
           (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null") ||
            !strcmp(node->text, "Null") || !strcmp(node->text, "NULL"));
}

const char *mn_yaml_kind_name(const struct mn_yaml *node)
{
    return node->kind == MN_YAML_MAP    ? "a mapping"
           : node->kind == MN_YAML_LIST ? "a list"
           : mn_yaml_is_null(node)      ? "nothing"
                                        : "one value";
}

/* --- characters ----------------------------------------------------------------------------- */

static enum mn_err check_characters(const char *file, const char *text, size_t len,
                                    struct mn_diag *diag)
{
    int line = 1, column = 1;
    uint32_t code;
    for (size_t at = 0; at < len;) {
        size_t step = mn_utf8(text + at, len - at, &code);
        if (step == 0)
            return mn_mesh_fail_at(diag, file, line, column,
                                   "byte 0x%02x is not UTF-8; expected UTF-8 text",
                                   (unsigned char)text[at]);
        if (mn_is_control(code) && code != '\n' && code != '\r' && code != '\t')
            return mn_mesh_fail_at(diag, file, line, column,
                                   "control character U+%04X; expected printable text", code);
        at += step;
        int ends = code == '\n' || (code == '\r' && !(at < len && text[at] == '\n'));
        line += ends;
        column = ends ? 1 : column + 1;
    }
    return MN_OK;
}

/* --- events --------------------------------------------------------------------------------- */

static enum mn_err fail_mark(struct loader *l, const yaml_mark_t *mark, const char *what)
{
    return mn_mesh_fail_at(l->diag, l->file, (int)mark->line + 1, (int)mark->column + 1, "%s",
                           what);
}

/* libyaml counts characters; the text is bytes. */
static char char_at(const struct loader *l, size_t index)
{
    size_t at = 0;
    for (; at < l->len; at++)
        if (((unsigned char)l->text[at] & 0xc0) != 0x80 && index-- == 0)
            return l->text[at];
    return '\0';
}

static enum mn_err fail_syntax(struct loader *l)
{
    const yaml_parser_t *p = &l->parser;
    const yaml_mark_t *mark = &p->problem_mark;
    int line = (int)mark->line + 1, column = (int)mark->column + 1;
    if (p->error == YAML_MEMORY_ERROR)
        return mn_fail(l->diag, MN_ERR_NOMEM, "%s: out of memory", l->file);
    if (p->error != YAML_READER_ERROR && char_at(l, mark->index) == '\t')
        return mn_mesh_fail_at(l->diag, l->file, line, column,
                               "a tab where YAML allows none; expected spaces");
    return mn_mesh_fail_at(l->diag, l->file, line, column, "not YAML: %s%s%s",
                           p->problem ? p->problem : "unreadable", p->context ? ", " : "",
                           p->context ? p->context : "");
}

/* Puts node where the document is open; node is owned by the tree afterwards, also on an error. */
static enum mn_err attach(struct loader *l, struct mn_yaml *node, const yaml_mark_t *mark)
{
    struct mn_yaml *parent = l->depth ? l->stack[l->depth - 1] : NULL;
    struct mn_yaml **place =
        parent ? mn_push(&parent->items, &parent->n_items, sizeof *place, l->diag) : &l->root;
    if (!place) {
        mn_yaml_free(node);
        return MN_ERR_NOMEM;
    }
    *place = node;
    if (parent && parent->kind == MN_YAML_MAP && parent->n_items % 2 == 1 &&
        node->kind != MN_YAML_SCALAR)
        return fail_mark(l, mark, "a list or mapping as a key; expected a word before the colon");
    if (node->kind == MN_YAML_SCALAR)
        return MN_OK;
    if (l->depth == DEPTH_MAX)
        return fail_mark(l, mark,
                         "lists and mappings nested too deeply; a mesh file needs few levels");
    l->stack[l->depth++] = node;
    return MN_OK;
}

static enum mn_err check_scalar(struct loader *l, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    uint32_t code;
    for (size_t at = 0; at < len;) {
        size_t step = mn_utf8(text + at, len - at, &code);
        if (step == 0 || mn_is_control(code))
            return fail_mark(l, &event->start_mark,
                             "text with a control character or line break; expected printable text "
                             "on one line");
        at += step;
    }
    return MN_OK;
}

static enum mn_err on_node(struct loader *l, const yaml_event_t *event, enum mn_yaml_kind kind,
                           const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor)
        return fail_mark(l, &event->start_mark,
                         "an anchor (&name); expected every value written out");
    if (tag)
        return fail_mark(l, &event->start_mark, "a tag (!type); expected plain values");
    if (kind == MN_YAML_SCALAR) {
        enum mn_err err = check_scalar(l, event);
        if (err)
            return err;
    }
    const char *text = kind == MN_YAML_SCALAR ? (const char *)event->data.scalar.value : NULL;
    struct mn_yaml *node = calloc(1, sizeof *node);
    if (node && text)
        node->text = strdup(text);
    if (!node || (text && !node->text)) {
        free(node);
        return mn_fail(l->diag, MN_ERR_NOMEM, "%s: out of memory", l->file);
    }
    node->kind = kind;
    node->line = (int)event->start_mark.line + 1;
    node->column = (int)event->start_mark.column + 1;
    if (text)
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return attach(l, node, &event->start_mark);
}

static enum mn_err on_event(struct loader *l, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (l->documents++)
            return fail_mark(l, &event->start_mark,
                             "a second document begins here; expected one document in the file");
        return MN_OK;
    case YAML_ALIAS_EVENT:
        return fail_mark(l, &event->start_mark,
                         "an alias (*name); expected every value written out");
    case YAML_SCALAR_EVENT:
        return on_node(l, event, MN_YAML_SCALAR, event->data.scalar.anchor, event->data.scalar.tag);
    case YAML_SEQUENCE_START_EVENT:
        return on_node(l, event, MN_YAML_LIST, event->data.sequence_start.anchor,
                       event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return on_node(l, event, MN_YAML_MAP, event->data.mapping_start.anchor,
                       event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        l->depth--;
        return MN_OK;
    default:
        return MN_OK;
    }
}

enum mn_err mn_yaml_parse(const char *file, const char *text, size_t len, struct mn_yaml **root,
                          struct mn_diag *diag)
{
    static const char *const byte_order_mark = "\xef\xbb\xbf";
    *root = NULL;
    if (len > MN_YAML_MAX)
        return mn_mesh_fail_at(diag, file, 1, 1, "%zu bytes; expected at most %d", len,
                               MN_YAML_MAX);
    if (len >= 3 && !memcmp(text, byte_order_mark, 3)) {
        text += 3;
        len -= 3;
    }
    struct loader l = {.file = file, .text = text, .len = len, .diag = diag};
    enum mn_err err = check_characters(file, text, len, diag);
    if (err)
        return err;
    if (!yaml_parser_initialize(&l.parser))
        return mn_fail(diag, MN_ERR_NOMEM, "%s: out of memory", file);
    yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)text, len);
    for (int done = 0; !done && !err;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&l.parser, &event)) {
            err = fail_syntax(&l);
            break;
        }
        err = on_event(&l, &event);
        done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&l.parser);
    if (err)
        mn_yaml_free(l.root);
    else
        *root = l.root;
    return err;
}
