/* The settings as rows. What reads, writes, overrides and documents a setting walks these rows. */
#ifndef MN_MESH_SETTING_H
#define MN_MESH_SETTING_H

#include "topo/mesh.h"

enum mn_setting_type {
    MN_SETTING_BOOL,     /* int */
    MN_SETTING_INT,      /* int, min..max */
    MN_SETTING_SIZE,     /* unsigned, bytes, min..max */
    MN_SETTING_DURATION, /* unsigned, milliseconds, min..max */
    MN_SETTING_CHOICE,   /* int, index into choices */
    MN_SETTING_PORTS,    /* struct mn_ports, min..max */
    MN_SETTING_STRING    /* char array, max = its size */
};

struct mn_setting {
    const char *section, *key;
    enum mn_setting_type type;
    const char *def; /* read like a value of the file */
    long min, max;
    const char *choices; /* "a|b|c" */
    size_t offset;       /* in struct mn_settings */
    const char *env;
    const char *help;
};

extern const struct mn_setting mn_setting_rows[]; /* ends with section NULL */

/* Stores text in the row's field. 0 and nothing stored when it is not what the row takes. */
int mn_setting_set(const struct mn_setting *row, const char *text, struct mn_settings *settings);
/* What the row takes, in words: "a duration from 2s to 1h". Returns buf. */
char *mn_setting_expected(const struct mn_setting *row, char *buf, size_t size);
/* The value as text that mn_setting_set reads back. Returns buf. */
char *mn_setting_format(const struct mn_setting *row, const struct mn_settings *settings, char *buf,
                        size_t size);
/* 1 when the value is not the default. */
int mn_setting_changed(const struct mn_setting *row, const struct mn_settings *settings);
/* The i-th of NCCL's variables that have a setting here: takes it, unless the setting's own
 * variable or the mesh file (given, as in struct mn_mesh) says what counts. -1 after the last; else
 * which of these, and for all but the first a line of text that says so. */
enum { MN_NCCL_UNSET, MN_NCCL_TAKEN, MN_NCCL_OVERRULED, MN_NCCL_WRONG };
int mn_setting_from_nccl(int i, uint64_t given, struct mn_settings *settings, char *text,
                         size_t size);

/* A whole decimal number from min to max: no sign but a minus, no leading zero. 0 when it is none.
 */
int mn_parse_long(const char *text, long min, long max, long *value);

#endif
