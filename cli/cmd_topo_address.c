#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/crew_options.h"
#include "cli/discover.h"
#include "cli/topo_mesh.h"
#include "cli/troubles.h"
#include "topo/address.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"

#define NAME "topo address"

struct options {
    const char *mesh, *output, *pool;
    struct mn_crew_options crew;
    struct mn_opt_list avoid;
    const char *survey;
    long prefix, mtu;
    int ipv6, renumber, check, force, json, wide;
};
#define AT(field) .offset = offsetof(struct options, field)

static const struct mn_opt rows[] = {
    {"mesh", 'm', MN_OPT_STRING, "FILE", .help = "The mesh file; default: the one in force.",
     AT(mesh)},
    {"output", 'o', MN_OPT_STRING, "FILE",
     .help = "Write the mesh with its addresses there; without it nothing is written.", AT(output)},
    {"force", 'f', MN_OPT_FLAG,
     .help =
         "Replace the file of --output; without one the mesh file itself, without its comments.",
     AT(force)},
    {"check", 'c', MN_OPT_FLAG, .help = "Say what is wrong with the addresses there are.",
     AT(check)},
    {"pool", 'p', MN_OPT_STRING, "CIDR",
     .help = "Take subnets out of this range; default: a private one that nobody uses.", AT(pool)},
    {"prefix", 0, MN_OPT_INT, "LENGTH",
     .help = "Of a cable's subnet: 31 (default) or 30; for IPv6 127 (default), 126 or 64.",
     AT(prefix), .min = 1, .max = 127},
    {"ipv6", '6', MN_OPT_FLAG, .help = "IPv6 addresses (beside IPv4 ones that are there).",
     AT(ipv6)},
    {"avoid", 0, MN_OPT_LIST, "CIDRS", .help = "Stay away from these, too.", AT(avoid)},
    MN_CREW_OPTIONS(struct options, crew),
    {"survey", 0, MN_OPT_STRING, "FILE",
     .help = "Stay away from what the nodes of a recorded survey use: discover --save-survey.",
     AT(survey)},
    {"renumber", 0, MN_OPT_FLAG, .help = "Number cables anew that have addresses.", AT(renumber)},
    {"mtu", 0, MN_OPT_INT, "BYTES",
     .help = "Set the MTU of all cables; default: 9000 for fast NICs of which the file has none.",
     AT(mtu), .min = 1280, .max = 65536},
    MN_WIDE_OPTION(struct options),
    {"json", 'j', MN_OPT_FLAG, .help = "Write JSON.", AT(json)},
    MN_OPT_END,
};

static enum mn_err take_survey(const struct options *o, const struct mn_mesh *mesh,
                               struct mn_takens *taken, struct mn_diag *diag)
{
    struct mn_survey survey = {.n_nodes = 0};
    enum mn_err err = o->survey ? mn_survey_read(o->survey, &survey, diag) : MN_OK;

    mn_taken_add_survey(taken, mesh, &survey);
    mn_survey_free(&survey);
    return err;
}

/* Numbers that do without a node's networks would be wrong there: all of them have to answer. */
static enum mn_err take_answers(const struct mn_crew_answer *answers, size_t n,
                                const struct mn_mesh *mesh, struct mn_takens *taken,
                                struct mn_diag *diag)
{
    if (mn_crew_print_failures(NAME, answers, n))
        return mn_fail(diag, MN_ERR_FAILED,
                       "what those hosts use is not known; without them in --hosts their networks "
                       "do not count");
    for (size_t i = 0; i < n; i++) {
        struct mn_survey survey;
        struct mn_diag why;
        enum mn_err err =
            answers[i].err ? answers[i].err : mn_survey_parse(answers[i].json, &survey, &why);

        if (err)
            return mn_fail(diag, err, "%s: %s", answers[i].host, why.text);
        mn_taken_add_survey(taken, mesh, &survey);
        mn_survey_free(&survey);
    }
    return MN_OK;
}

static enum mn_err take_hosts(const struct options *o, const struct mn_mesh *mesh,
                              struct mn_takens *taken, struct mn_diag *diag)
{
    struct mn_crew *crew = NULL;

    if (!o->crew.hosts.count)
        return MN_OK;
    enum mn_err err = mn_crew_options_open(&o->crew, NAME, &crew, diag);
    if (err)
        return err;
    size_t n = mn_crew_size(crew);
    struct mn_crew_answer *answers = mn_zalloc((n + 1) * sizeof *answers);
    cJSON *ask = cJSON_CreateObject();

    (void)mn_crew_ask(crew, "survey", ask, answers);
    err = take_answers(answers, n, mesh, taken, diag);
    mn_crew_answers_free(answers, n);
    free(answers);
    cJSON_Delete(ask);
    mn_crew_close(crew);
    return err;
}

static enum mn_err find_taken(const struct options *o, const struct mn_mesh *mesh,
                              struct mn_takens *taken, struct mn_diag *diag)
{
    struct mn_diag why;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < o->avoid.count && !err; i++)
        if (mn_taken_add_text(taken, o->avoid.items[i], "--avoid", &why))
            err = mn_fail(diag, MN_ERR_USAGE, "--avoid: %s", why.text);
    if (err)
        return err;
    mn_taken_add_mesh(taken, mesh);
    mn_taken_add_usual(taken);
    err = take_survey(o, mesh, taken, diag);
    if (!err)
        err = take_hosts(o, mesh, taken, diag);
    return err ? err : mn_taken_add_host(taken, mesh, NULL, diag);
}

static enum mn_err find_plan(const struct options *o, struct mn_address_plan *plan,
                             struct mn_diag *diag)
{
    struct mn_diag why;

    *plan = (struct mn_address_plan){
        .family = o->ipv6 ? AF_INET6 : AF_INET,
        .prefix = (int)o->prefix,
        .renumber = o->renumber,
        .mtu = (int)o->mtu,
    };
    if (o->pool && mn_addr_parse(o->pool, &plan->pool, &why))
        return mn_fail(diag, MN_ERR_USAGE, "--pool: %s", why.text);
    if (o->pool && !o->ipv6)
        plan->family = plan->pool.family;
    return MN_OK;
}

/* --- the result ----------------------------------------------------------------------------- */

/* The address of an end that lies in a subnet of the link. */
static const char *own_addr(const struct mn_mesh *mesh, const struct mn_mesh_link *link, int side,
                            int family, char text[MN_ADDR_TEXT])
{
    const struct mn_mesh_nic *own = mn_mesh_end_nic(mesh, &link->ends[side]);
    const struct mn_mesh_nic *peer = mn_mesh_end_nic(mesh, &link->ends[!side]);
    struct mn_mesh_nic one = *own;
    struct mn_addr net;

    for (one.n_addrs = 1; one.addrs < own->addrs + own->n_addrs; one.addrs++)
        if (one.addrs->family == family && mn_link_subnet(&one, peer, &net))
            return mn_addr_format(one.addrs, text, MN_ADDR_TEXT);
    return NULL;
}

static void put_mtu(struct mn_out *out, const struct mn_mesh_nic *a, const struct mn_mesh_nic *b)
{
    if (!a->mtu && !b->mtu)
        mn_out_cell(out, NULL);
    else if (a->mtu == b->mtu)
        mn_out_cellf(out, "%d", a->mtu);
    else
        mn_out_cellf(out, "%d/%d", a->mtu, b->mtu);
}

static void print_cables(struct mn_out *out, const struct mn_mesh *mesh, int family,
                         const struct mn_addressed *done)
{
    static const char *const states[] = {"kept", "new", "completed"};
    static const struct mn_col cols[] = {
        {"cable", "CABLE", 0},       {"a_node", "NODE", 0},      {"a_nic", "NIC", MN_DROP(2)},
        {"a_address", "ADDRESS", 0}, {"b_node", "NODE", 0},      {"b_nic", "NIC", MN_DROP(2)},
        {"b_address", "ADDRESS", 0}, {"mtu", "MTU", MN_DROP(1)}, {"state", "STATE", 0},
    };
    char text[MN_ADDR_TEXT];

    mn_out_table(out, "cables", NULL, cols, sizeof cols / sizeof *cols);
    for (size_t i = 0; i < mesh->n_links; i++) {
        const struct mn_mesh_link *link = &mesh->links[i];
        const struct mn_mesh_nic *nics[2];
        mn_out_row(out);
        mn_out_cell(out, link->name);
        for (int side = 0; side < 2; side++) {
            nics[side] = mn_mesh_end_nic(mesh, &link->ends[side]);
            mn_out_cell(out, mesh->nodes[link->ends[side].node].name);
            mn_out_cell(out, nics[side]->name);
            mn_out_cell(out, own_addr(mesh, link, side, family, text));
        }
        put_mtu(out, nics[0], nics[1]);
        mn_out_cell(out, states[done->states[i]]);
    }
    mn_out_table_end(out);
}

/* What is slower than it need be: said, for the file's MTU is the owner's. */
static void print_small(struct mn_out *out, const struct mn_mesh *mesh)
{
    size_t small = 0;

    for (size_t i = 0; i < 2 * mesh->n_links; i++) {
        const struct mn_mesh_nic *nic = mn_mesh_end_nic(mesh, &mesh->links[i / 2].ends[i % 2]);
        small += nic->mtu && nic->mtu < 4200 && nic->device[0];
    }
    mn_out_int(out, "small_mtu", NULL, (int64_t)small);
    if (small)
        mn_out_note(out, MN_YELLOW,
                    "%zu RDMA NIC%s with an MTU below 4200, where RDMA sends smaller packets than "
                    "it could: --mtu 9000 sets all",
                    small, small == 1 ? "" : "s");
}

static void print(struct mn_out *out, const struct mn_mesh *mesh, int family,
                  const struct mn_addressed *done, const char *written)
{
    char text[MN_ADDR_TEXT];

    print_cables(out, mesh, family, done);
    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_str(out, "pool", done->pool.family ? "Pool" : NULL,
               done->pool.family ? mn_addr_format(&done->pool, text, sizeof text) : NULL);
    mn_out_int(out, "kept", "Kept", (int64_t)done->counts[MN_ADDRESS_KEPT]);
    mn_out_int(out, "new", "New",
               (int64_t)(done->counts[MN_ADDRESS_NEW] + done->counts[MN_ADDRESS_COMPLETED]));
    print_small(out, mesh);
    mn_out_str(out, "written", NULL, written);
    if (written)
        mn_out_note(out, MN_GREEN, "Wrote %s", written);
    else
        mn_out_note(out, MN_PLAIN,
                    "Nothing is written: name a file with -o, or write into the mesh "
                    "file with --force");
}

/* --- doing it ------------------------------------------------------------------------------- */

/* Where the mesh goes; NULL: nowhere. */
static const char *target(const struct options *o, const char *path)
{
    return o->output ? o->output : o->force ? path : NULL;
}

static enum mn_err number(const struct options *o, struct mn_mesh *mesh, const char *path,
                          const struct mn_takens *taken, struct mn_out *out, struct mn_diag *diag)
{
    const char *to = target(o, path);
    struct mn_address_plan plan;
    struct mn_addressed done = {.states = NULL};
    enum mn_err err = find_plan(o, &plan, diag);

    if (!err)
        err = mn_address_mesh(mesh, &plan, taken, &done, diag);
    if (!err && to)
        err = mn_discover_write(mesh, to, o->force, diag);
    if (!err)
        print(out, mesh, plan.family, &done, to);
    mn_addressed_free(&done);
    return err;
}

static enum mn_err check(const struct mn_mesh *mesh, const struct mn_takens *taken,
                         struct mn_out *out, int *code)
{
    struct mn_troubles troubles = {.items = NULL};

    mn_address_check(mesh, taken, &troubles);
    mn_troubles_sort(&troubles);
    mn_troubles_print(out, &troubles);
    *code = mn_troubles_count(&troubles, MN_SEVERITY_ERROR) > 0;
    mn_troubles_free(&troubles);
    return MN_OK;
}

static enum mn_err check_usage(const struct options *o, int argc, char **argv, struct mn_diag *diag)
{
    if (argc)
        return mn_fail(diag, MN_ERR_USAGE,
                       "\"%s\" is not expected here; see meshnet " NAME " --help", argv[0]);
    if (o->check &&
        (o->output || o->force || o->pool || o->prefix || o->ipv6 || o->renumber || o->mtu))
        return mn_fail(
            diag, MN_ERR_USAGE,
            "--check only looks: beside it stand --mesh, --avoid, --hosts, --survey and --json "
            "alone");
    if (o->crew.agents && !o->crew.hosts.count)
        return mn_fail(diag, MN_ERR_USAGE, "--agents is for --hosts: which ones?");
    return mn_crew_options_check(&o->crew, diag);
}

static enum mn_err work(const struct options *o, char path[MN_TOPO_PATH], struct mn_mesh *mesh,
                        struct mn_out *out, int *code, struct mn_diag *diag)
{
    struct mn_takens taken = {.items = NULL};
    enum mn_err err = mn_topo_read(o->mesh, path, mesh, diag);

    if (!err && !mesh->n_links)
        err = mn_fail(diag, MN_ERR_CONFIG,
                      "%s: there is no cable in it: give it links, or see meshnet discover "
                      "--neighbors",
                      path);
    if (!err)
        err = find_taken(o, mesh, &taken, diag);
    if (!err)
        err = o->check ? check(mesh, &taken, out, code) : number(o, mesh, path, &taken, out, diag);
    mn_takens_free(&taken);
    return err;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_diag diag;
    struct mn_mesh mesh;
    char path[MN_TOPO_PATH];
    int code = 0;

    if (check_usage(o, argc, argv, &diag))
        return mn_cmd_fail(NAME, &diag);
    mn_mesh_init(&mesh);
    struct mn_out *out = mn_out_new(stdout, o->json ? MN_OUT_JSON : MN_OUT_TEXT);
    if (o->wide)
        mn_out_width(out, 0);
    enum mn_err err = work(o, path, &mesh, out, &code, &diag);
    mn_mesh_free(&mesh);
    if (mn_out_free(out) && !err)
        err = mn_cmd_lost(o->check ? NULL : target(o, path), &diag);
    return err ? mn_cmd_fail(NAME, &diag) : code;
}

const struct mn_command mn_cmd_topo_address = {
    .name = NAME,
    .summary = "give every cable a subnet and its ends addresses",
    .usage = "[OPTION]…",
    .options = rows,
    .options_size = sizeof(struct options),
    .notes = "Examples:\n"
             "  meshnet topo address -m bare.yaml -o mesh.yaml\n"
             "  meshnet topo address -m bare.yaml -o mesh.yaml --mtu 9000 --avoid 10.0.0.0/8\n"
             "  meshnet topo address -m bare.yaml -o mesh.yaml --hosts spark-a,spark-b,spark-c\n"
             "  meshnet topo address -m mesh.yaml --force     cables that were added\n"
             "  meshnet topo address -m mesh.yaml --check     what else uses them",
    .exits = {{0, MN_GOOD ": every cable has addresses"},
              {1, MN_FAILED "--check found cables without addresses or that others use theirs, or "
                            "the file is there already"},
              {2, MN_REFUSED "no room in the pool, or a mistake in the mesh file"}},
    .run = run,
};
