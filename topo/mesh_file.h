/* The mesh file: YAML in and out (libyaml), and its JSON twin (cJSON).
 *
 *   version: 1
 *   name: desk                        # optional
 *   nodes:
 *     - name: spark-a
 *       hostname: spark-a.local       # optional, default: name
 *       nics:
 *         - netdev: enp1s0f0np0
 *           name: p0                  # optional, default: netdev
 *           device: rocep1s0f0        # optional, RDMA device; port: 1
 *           mac: 4c:bb:47:00:00:01    # optional
 *           addresses: [10.0.1.1/24]
 *           gid: {index: 3, address: 10.0.1.1}   # optional
 *           speed: 200000             # optional, Mbit/s
 *           mtu: 9000                 # optional
 *           group: port0              # optional, capacity group
 *           role: cable               # optional; or management: no end of a link
 *       gpus:                         # optional: the nearest NICs of each GPU
 *         - {pci: "0000:1a:00.0", name: NVIDIA 2330, nics: [p0], path: switch}   # name: optional
 *   links:                            # optional: default every pair that shares a subnet
 *     - name: a-b                     # optional
 *       ends: [spark-a/p0, spark-b/p0]
 *   transport: {kind: auto, silence: 20s, …}
 *   plugin: {device_mode: mesh, …}
 *
 * Errors are MN_ERR_CONFIG with "file:line:column: what, the offending text; what was expected". */
#ifndef MN_MESH_FILE_H
#define MN_MESH_FILE_H

#include "topo/mesh.h"

enum mn_err mn_mesh_read(const char *path, struct mn_mesh *mesh, struct mn_diag *diag);
/* From now on reading that path means this text, and of none (NULL) fails with why; in this process
 * and its forks, until the next is held (NULL for the path: none is). Copies. No threads beside. */
void mn_mesh_hold(const char *path, const char *text, size_t len, const struct mn_diag *why);
/* The same from memory; name stands for the file in messages. YAML; a text that begins with "{" is
 * JSON, which YAML 1.1 contains. */
enum mn_err mn_mesh_parse(const char *name, const char *text, size_t len, struct mn_mesh *mesh,
                          struct mn_diag *diag);
/* malloc'ed text, stable order, only settings that differ from their default. Caller frees. */
enum mn_err mn_mesh_format_yaml(const struct mn_mesh *mesh, char **text, struct mn_diag *diag);
enum mn_err mn_mesh_format_json(const struct mn_mesh *mesh, char **text, struct mn_diag *diag);

/* Where the file is: $MESHNET_CONFIG (must exist), else ./mesh.yaml is NOT looked at, else
 * $XDG_CONFIG_HOME/meshnet/mesh.yaml (~/.config/…), else /etc/meshnet/mesh.yaml. Returns 1 and
 * fills path, or 0 when there is none. */
int mn_mesh_find_file(char *path, size_t size);
/* The settings that count in this process: of that file, if there is one, and the environment. */
enum mn_err mn_settings_in_force(struct mn_settings *settings, struct mn_diag *diag);

#endif
