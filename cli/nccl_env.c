#include "cli/nccl_env.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host.h"
#include "cli/plugin_path.h"
#include "cli/slow_pairs.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh_file.h"

/* NCCL takes a path from 2.21 on, the X of libnccl-net-X.so from 2.11 on, and before that only
 * libnccl-net.so (src/plugin/plugin_open.cc, before 2.27 src/plugin/net.cc and src/net.cc). */
#define TAKES_PATH 21
#define TAKES_NAME 11

#define LACKS                                                                                      \
    "%s needs %s, which is not here: NCCL would go on without it, slowly; install that, or use "   \
    "the bundle of ci/bundle, which needs libc alone"

void mn_nccl_env_warn(struct mn_nccl_env *env, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        mn_no_memory();
    va_end(args);
    *(char **)mn_grow((void **)&env->warnings, &env->n_warnings, sizeof text) = mn_clean(text);
}

void mn_nccl_env_free(struct mn_nccl_env *env)
{
    for (int i = 0; i < env->n_vars; i++)
        free(env->vars[i].value);
    for (size_t i = 0; i < env->n_warnings; i++)
        free(env->warnings[i]);
    free(env->warnings);
}

/* --- the subject ------------------------------------------------------------------------------ */

static enum mn_err find_mesh(const char *mesh, struct mn_nccl_subject *s, struct mn_diag *diag)
{
    char found[PATH_MAX], why[256];

    if (mesh)
        mn_strlcpy(found, mesh, sizeof found);
    else if (!mn_mesh_find_file(found, sizeof found))
        return MN_OK;
    s->mesh_path = realpath(found, NULL);
    if (!s->mesh_path)
        return mn_fail(diag, MN_ERR_USAGE, "--mesh %s: %s", found, strerror(errno));
    enum mn_err err = mn_mesh_read(s->mesh_path, &s->mesh, diag);
    /* A node that is not in the file is told by a warning, where its variables are asked for. */
    if (!err && mn_mesh_find_self(&s->mesh, &s->host, &s->self, why, sizeof why, NULL))
        s->self = -1;
    return err;
}

/* Its file and, as NCCL would see it, its name. */
static enum mn_err find_plugin(const char *plugin, struct mn_nccl_subject *s, struct mn_diag *diag)
{
    char given[PATH_MAX];
    struct mn_plugin *opened;

    mn_plugin_path(plugin, given, sizeof given);
    s->plugin = realpath(given, NULL);
    if (!s->plugin)
        return mn_fail(diag, MN_ERR_USAGE, "the plugin %s: %s; give --plugin FILE", given,
                       strerror(errno));
    s->lacks = mn_plugin_lacks(s->plugin);
    enum mn_err err = mn_plugin_open(s->plugin, 0, &opened, diag);
    if (err && s->lacks)
        return mn_fail(diag, MN_ERR_USAGE, LACKS, s->plugin, s->lacks);
    if (err)
        return mn_fail(diag, MN_ERR_USAGE, "%s", diag->text);
    mn_strlcpy(s->network, mn_plugin_info(opened)->name, sizeof s->network);
    s->tuner = mn_nccl_env_has_tuner(s->plugin);
    mn_plugin_close(opened);
    return MN_OK;
}

enum mn_err mn_nccl_subject_read(const char *mesh, const char *plugin, struct mn_nccl_subject *s,
                                 struct mn_diag *diag)
{
    *s = (struct mn_nccl_subject){.self = -1};
    mn_mesh_init(&s->mesh);
    enum mn_err err = find_plugin(plugin, s, diag);
    if (!err)
        err = mn_host_read(NULL, &s->host, diag);
    return err ? err : find_mesh(mesh, s, diag);
}

void mn_nccl_subject_free(struct mn_nccl_subject *s)
{
    mn_host_free(&s->host);
    mn_mesh_free(&s->mesh);
    free(s->mesh_path);
    free(s->plugin);
    free(s->lacks);
}

/* --- the variables ---------------------------------------------------------------------------- */

struct mn_nccl_var *mn_nccl_env_add(struct mn_nccl_env *env, const char *name, char *value,
                                    const char *why)
{
    struct mn_nccl_var *var = &env->vars[env->n_vars++];

    *var = (struct mn_nccl_var){.name = name, .why = why, .value = value};
    return var;
}

static void plugin(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    int dir = (int)(strrchr(s->plugin, '/') - s->plugin);
    char name[64];

    if (s->minor >= TAKES_PATH) {
        mn_nccl_env_add(env, "NCCL_NET_PLUGIN", mn_asprintf("%s", s->plugin),
                        "the plugin by its path, so that no search finds another");
        return;
    }
    if (s->minor < TAKES_NAME)
        mn_nccl_env_warn(env,
                         "this release knows the one name libnccl-net.so: have that lead to "
                         "%s and to nothing else",
                         s->plugin);
    else if (mn_plugin_short_name(s->plugin, name))
        mn_nccl_env_add(
            env, "NCCL_NET_PLUGIN", mn_asprintf("%s", name),
            s->rccl ? "this release takes no path, it looks for librccl-net- and this name"
                    : "this release takes no path, it looks for libnccl-net- and this name");
    else
        mn_nccl_env_warn(env, "%s: this release takes no path, and looks for libnccl-net-NAME.so",
                         s->plugin);
    mn_nccl_env_add(env, "LD_LIBRARY_PATH",
                    mn_asprintf("%.*s%s%s", dir, s->plugin, before && *before ? ":" : "",
                                before ? before : ""),
                    "where it is");
}

/* RDMA devices that the kernel shows and the plugin cannot open here: a container has the host's
 * sysfs, and libraries and device nodes of its own. */
static void unusable_rdma(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    const struct mn_host *host = &s->host;
    char devices[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < host->n_rdma && used < sizeof devices - 72; i++)
        if (!host->rdma[i].from_verbs &&
            (i == 0 || strcmp(host->rdma[i].device, host->rdma[i - 1].device) != 0))
            used += (size_t)snprintf(devices + used, sizeof devices - used, "%s%s",
                                     used ? ", " : "", host->rdma[i].device);
    if (used)
        mn_nccl_env_warn(env,
                         "%s cannot be used here (%s): the plugin needs libibverbs with the "
                         "driver's library for it (rdma-core of the distribution), and in a "
                         "container also /dev/infiniband",
                         devices, host->verbs);
}

/* In the mesh file, or NULL. */
static const struct mn_mesh_nic *in_file(const struct mn_nccl_subject *s, const struct mn_nic *nic)
{
    const struct mn_mesh_node *node = s->self >= 0 ? &s->mesh.nodes[s->self] : NULL;

    for (size_t i = 0; node && i < node->n_nics; i++)
        if (!strcmp(node->nics[i].netdev, nic->netdev))
            return &node->nics[i];
    return NULL;
}

static int has_address(const struct mn_nic *nic)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (!mn_addr_is_link_local(&nic->addrs[i]))
            return 1;
    return 0;
}

/* Leads beside the mesh. */
static int is_beside(const struct mn_nccl_subject *s, const struct mn_nic *nic, int management)
{
    const struct mn_mesh_nic *file = in_file(s, nic);

    return nic->admin_up && nic->carrier && !nic->master[0] && nic->kind != MN_NIC_LOOPBACK &&
           nic->kind != MN_NIC_BRIDGE && nic->kind != MN_NIC_OTHER && has_address(nic) &&
           (management ? file && file->role == MN_ROLE_MANAGEMENT : !file);
}

/* NCCL's ranks first meet over TCP, each with each. Where that is possible without the mesh, an
 * interface beside its cables leads there. */
static void bootstrap(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    const char *given = getenv("NCCL_SOCKET_IFNAME");
    const struct mn_nic *first = NULL;
    char others[256] = "";
    size_t used = 0;

    if (given && *given) {
        mn_nccl_env_add(env, "NCCL_SOCKET_IFNAME", mn_asprintf("%s", given),
                        "as it is: where ranks first meet")
            ->kept = 1;
        return;
    }
    /* Those that the file calls so come first. */
    for (size_t i = 0; i < 2 * s->host.n_nics && s->self >= 0; i++) {
        const struct mn_nic *nic = &s->host.nics[i % s->host.n_nics];
        if (!is_beside(s, nic, i < s->host.n_nics))
            continue;
        if (!first)
            first = nic;
        else if (used < sizeof others - 20)
            used += (size_t)snprintf(others + used, sizeof others - used, " %s", nic->netdev);
    }
    if (first)
        mn_nccl_env_add(env, "NCCL_SOCKET_IFNAME", mn_asprintf("=%s", first->netdev),
                        "where ranks first meet: the interface that is none of the mesh's cables");
    if (first && used)
        mn_nccl_env_warn(env,
                         "NCCL_SOCKET_IFNAME: %s was taken, there are also%s; set it if the other "
                         "nodes are not reached over it",
                         first->netdev, others);
    if (!first && s->self >= 0 && s->mesh.n_nodes > 2)
        mn_nccl_env_warn(env,
                         "no interface beside the mesh's cables is up: ranks of %zu nodes "
                         "meet only where each reaches each by routes",
                         s->mesh.n_nodes);
}

static void bare(const struct mn_mesh *mesh, struct mn_nccl_env *env)
{
    char names[MN_BARE_NAMES];

    if (mn_mesh_bare(mesh, -1, names))
        mn_nccl_env_warn(env,
                         "cables without addresses yet, over which nothing goes: %s; meshnet topo "
                         "address gives them, meshnet topo apply sets them",
                         names);
}

/* NCCL connects trees and rings whatever it will use: a pair without a cable needs a way. */
static void uncabled(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    struct mn_slow_pairs pairs;
    char more[64] = "";

    mn_slow_pairs_find(&s->mesh, -1, 1, &pairs);
    if (pairs.all > 1)
        snprintf(more, sizeof more, "; %zu more pair%s: meshnet topo routes --far", pairs.all - 1,
                 pairs.all == 2 ? "" : "s");
    if (pairs.count)
        mn_nccl_env_warn(env,
                         "%s and %s have no cable, and NCCL connects trees between any nodes when "
                         "a job starts: %s; %s%s",
                         s->mesh.nodes[pairs.items[0].nodes[0]].name,
                         s->mesh.nodes[pairs.items[0].nodes[1]].name, pairs.items[0].text,
                         mn_slow_pair_faster(pairs.items[0].way.kind), more);
    mn_slow_pairs_free(&pairs);
}

void mn_nccl_env_fill(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    *env = (struct mn_nccl_env){.n_vars = 0};
    plugin(s, env);
    /* This process has what others here would miss. */
    if (s->lacks)
        mn_nccl_env_warn(env, LACKS, s->plugin, s->lacks);
    mn_nccl_env_tuner(s, env);
    unusable_rdma(s, env);
    mn_nccl_env_add(
        env, "NCCL_NET", mn_asprintf("%s", s->network),
        "this network or none: a plugin that cannot be used ends the job with its reason, "
        "instead of sockets taking over in silence");
    if (s->mesh_path)
        mn_nccl_env_add(env, "MESHNET_CONFIG", mn_asprintf("%s", s->mesh_path),
                        "the mesh file, the same bytes on every node");
    else
        mn_nccl_env_warn(env, "no mesh file: the plugin takes every interface that looks like a "
                              "cable; meshnet discover writes one");
    if (s->mesh_path && s->self < 0)
        mn_nccl_env_warn(env,
                         "this host is no node of %s: set MESHNET_NODE to the name it has "
                         "there, or run this on the node",
                         s->mesh_path);
    bootstrap(s, env);
    const char *debug = getenv("NCCL_DEBUG");
    mn_nccl_env_add(env, "NCCL_DEBUG", mn_asprintf("%s", debug && *debug ? debug : "WARN"),
                    "errors name the peer, NIC and cable; without it they stay unsaid")
        ->kept = debug && *debug;
    bare(&s->mesh, env);
    uncabled(s, env);
    mn_nccl_env_relay(s, env);
    for (int i = 0; i < env->n_vars; i++) {
        const char *before = getenv(env->vars[i].name);
        if (before && *before && !env->vars[i].kept && strcmp(before, env->vars[i].value) != 0 &&
            strcmp(env->vars[i].name, "LD_LIBRARY_PATH") != 0)
            mn_nccl_env_warn(env, "%s=%s is in the environment; it becomes %s", env->vars[i].name,
                             before, env->vars[i].value);
    }
}
