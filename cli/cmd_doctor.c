#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cmd.h"
#include "cli/doctor.h"
#include "fleet/launch.h"
#include "topo/base/alloc.h"

#define INTERVAL_MS 30000u

static const struct mn_opt options[] = {
    {.name = "mesh",
     .letter = 'm',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct mn_doctor_options, mesh),
     .help = "The mesh file, at the same path on each host; default: see meshnet.yaml(5)."},
    MN_CREW_OPTIONS(struct mn_doctor_options, crew),
    {.name = "no-write",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_doctor_options, no_write),
     .help = "Do not write over the cables: looks only, and sends some echo requests."},
    {.name = "strict",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_doctor_options, strict),
     .help = "Exit with 1 for warnings too."},
    {.name = "watch",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_doctor_options, watch),
     .help = "Again and again; after the first time only what changed."},
    {.name = "interval",
     .type = MN_OPT_DURATION,
     .arg = "TIME",
     .offset = offsetof(struct mn_doctor_options, interval_ms),
     .min = 1000,
     .max = 86400000,
     .help = "Rest between the rounds of --watch (default: 30s)."},
    {.name = "save",
     .type = MN_OPT_STRING,
     .arg = "DIR",
     .offset = offsetof(struct mn_doctor_options, save),
     .help = "Keep what the nodes said in this folder, to be judged elsewhere."},
    {.name = "answers",
     .type = MN_OPT_STRING,
     .arg = "DIR",
     .offset = offsetof(struct mn_doctor_options, answers),
     .help = "Judge what --save has kept, and ask nobody."},
    MN_WIDE_OPTION(struct mn_doctor_options),
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_doctor_options, json),
     .help = "The verdict as JSON."},
    MN_OPT_END,
};

static enum mn_err examine(struct mn_doctor_session *s, struct mn_diag *diag)
{
    enum mn_err err = mn_doctor_collect(s, diag);

    if (!err && s->options->save)
        err = mn_doctor_save(s, diag);
    if (err)
        return err;
    const struct mn_doctor_case what = {.mesh = &s->mesh,
                                        .file = s->path,
                                        .file_given = s->file_given,
                                        .nodes = s->nodes,
                                        .writes = s->writes,
                                        .write_error = s->write_error};
    mn_doctor_judge(&what, &s->troubles);
    return MN_OK;
}

static struct mn_out *begin(const struct mn_doctor_options *o)
{
    struct mn_out *out = mn_out_new(stdout, o->json ? MN_OUT_JSON : MN_OUT_TEXT);

    if (o->wide)
        mn_out_width(out, 0);
    return out;
}

static enum mn_err end(const struct mn_doctor_options *o, struct mn_out *out, struct mn_diag *diag)
{
    return mn_out_free(out) ? mn_cmd_lost(o->save, diag) : MN_OK;
}

static void rest(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    if (!mn_launch_stop)
        nanosleep(&left, NULL); /* a signal ends it */
}

static int differ(const struct mn_troubles *before, const struct mn_troubles *now)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    struct mn_out *out = mn_out_new(file, MN_OUT_TEXT);
    size_t n = mn_doctor_print_changes(out, before, now);

    mn_out_free(out);
    fclose(file);
    free(text);
    return n > 0;
}

/* Rounds after the first, until a signal. */
static enum mn_err watch(struct mn_doctor_session *s, struct mn_diag *diag)
{
    unsigned ms = s->options->interval_ms ? s->options->interval_ms : INTERVAL_MS;
    enum mn_err err = MN_OK;

    for (rest(ms); !mn_launch_stop && !err; rest(ms)) {
        struct mn_troubles before = s->troubles;
        s->troubles = (struct mn_troubles){.count = 0};
        mn_doctor_forget(s);
        err = examine(s, diag);
        if (!err && differ(&before, &s->troubles)) {
            struct mn_out *out = begin(s->options);
            mn_doctor_print_changes(out, &before, &s->troubles);
            err = end(s->options, out, diag);
            fflush(stdout);
        }
        mn_troubles_free(&before);
    }
    return mn_launch_stop ? MN_OK : err;
}

static enum mn_err check_usage(const struct mn_doctor_options *o, int argc, char **argv,
                               struct mn_diag *diag)
{
    if (argc)
        return mn_fail(diag, MN_ERR_USAGE, "unexpected '%s'", argv[0]);
    if (o->answers && (o->mesh || o->crew.hosts.count || o->crew.agents || o->save))
        return mn_fail(diag, MN_ERR_USAGE,
                       "--answers has its own mesh and hosts: without --mesh, --hosts, --agents "
                       "and --save");
    if (o->interval_ms && !o->watch)
        return mn_fail(diag, MN_ERR_USAGE, "--interval belongs to --watch: add it");
    return mn_crew_options_check(&o->crew, diag);
}

static int run(const void *values, int argc, char **argv)
{
    const struct mn_doctor_options *o = values;
    struct mn_doctor_session s = {.options = o};
    struct mn_diag diag = {.text = ""};
    int code = 0;

    mn_mesh_init(&s.mesh);
    enum mn_err err = check_usage(o, argc, argv, &diag);
    if (!err)
        err = mn_doctor_open(o, &s, &diag);
    if (!err)
        err = examine(&s, &diag);
    if (!err) {
        struct mn_out *out = begin(o);
        mn_doctor_print(out, &s);
        err = end(o, out, &diag);
        fflush(stdout);
    }
    if (!err && o->watch)
        err = watch(&s, &diag);
    if (!err)
        code = mn_troubles_count(&s.troubles, MN_SEVERITY_ERROR) > 0 ||
               (o->strict && mn_troubles_count(&s.troubles, MN_SEVERITY_WARNING) > 0);
    mn_doctor_close(&s);
    return err ? mn_cmd_fail("doctor", &diag) : code;
}

const struct mn_command mn_cmd_doctor = {
    .name = "doctor",
    .summary = "look at every node and cable of the mesh, and say what is wrong",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct mn_doctor_options),
    .notes = "Examples:\n"
             "  meshnet doctor\n"
             "  meshnet doctor --hosts spark-a,spark-b --mesh mesh.yaml --no-write\n"
             "  meshnet doctor --agents --token-file token --json\n"
             "  meshnet doctor --save report && meshnet doctor --answers report",
    .exits = {{0, MN_GOOD ": nothing is wrong that is graded an error"},
              {1, MN_FAILED "an error was found, with --strict a warning; why is in the output"},
              {2, MN_REFUSED "no mesh file, or a mistake in it"}},
    .run = run,
};
