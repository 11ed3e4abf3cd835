/* Inside the mesh file reader: keys and values of a level, with an explanation for all that does
 * not fit. Each level is a table of keys; its rows are read in table order, so that a row may rely
 * on those above it. */
#ifndef MN_MESH_READ_H
#define MN_MESH_READ_H

#include "topo/mesh.h"
#include "topo/mesh_lookup.h"
#include "topo/mesh_yaml.h"

struct mn_reader {
    const char *file;
    struct mn_diag *diag;
    struct mn_mesh *mesh;
    size_t node, nic, gpu, link; /* being read */
    struct mn_mesh_lookup lookup;
};

struct mn_read_key {
    const char *name;
    enum mn_err (*read)(struct mn_reader *r, const char *key, const struct mn_yaml *value);
    int required;
};

/* MN_ERR_CONFIG with the place of at. */
enum mn_err mn_read_fail(struct mn_reader *r, const struct mn_yaml *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* "key: what stands there; expected …". */
enum mn_err mn_read_fail_kind(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                              const char *expected);

/* Refuses keys that are not in names (NULL at the end), and keys given twice. */
enum mn_err mn_read_check_keys(struct mn_reader *r, const char *what, const struct mn_yaml *map,
                               const char *const *names);
const struct mn_yaml *mn_read_map_get(const struct mn_yaml *map, const char *key); /* or NULL */
/* Reads a mapping by its table, which ends with name NULL. what names the level in messages. */
enum mn_err mn_read_map(struct mn_reader *r, const char *what, const struct mn_yaml *map,
                        const struct mn_read_key *keys);
enum mn_err mn_read_list(struct mn_reader *r, const char *key, const struct mn_yaml *list,
                         size_t max, const char *expected,
                         enum mn_err (*read)(struct mn_reader *r, const struct mn_yaml *item));

enum mn_err mn_read_text(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                         size_t size, char *text);
/* A name that stands in "node/nic", for a field of MN_NAME_MAX. */
enum mn_err mn_read_name(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                         char *name);
enum mn_err mn_read_long(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                         long min, long max, long *number);

/* A list of two ends, "node/nic", of two nodes. */
enum mn_err mn_read_ends(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                         struct mn_mesh_end ends[2]);
enum mn_err mn_read_routes(struct mn_reader *r, const char *key, const struct mn_yaml *value);

struct mn_mesh_node *mn_reader_node(struct mn_reader *r); /* the one being read */
/* Adds a NIC to it: mesh_read_nic.c. */
enum mn_err mn_read_nic(struct mn_reader *r, const struct mn_yaml *value);
/* Adds a GPU to it, whose NICs were read before: mesh_read_gpu.c. */
enum mn_err mn_read_gpu(struct mn_reader *r, const struct mn_yaml *value);

#endif
