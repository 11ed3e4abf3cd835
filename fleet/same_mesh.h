/* Whether the two ends of a control connection go by the same mesh file: the first message of
 * either carries the digest of its own. */
#ifndef MN_SAME_MESH_H
#define MN_SAME_MESH_H

#include <cjson/cJSON.h>

#include "topo/mesh_digest.h"

/* Adds a digest to a message as "mesh"; reads it again, of a stranger: 0 when there is none. */
void mn_same_mesh_add(cJSON *message, const struct mn_mesh_digest *digest);
int mn_same_mesh_get(const cJSON *message, struct mn_mesh_digest *digest);
/* Adds this process's. One that cannot be read is left out: the plugin says why. */
void mn_same_mesh_put(cJSON *message);
/* 1 and what differs in text, when the message has the digest of another one. Of a stranger:
 * checked. peer: its name, for the text. */
int mn_same_mesh_differs(const cJSON *message, const char *peer, char *text, size_t size);
/* The same, said as a warning. */
void mn_same_mesh_warn(const cJSON *message, const char *peer);

#endif
