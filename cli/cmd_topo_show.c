#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/topo_mesh.h"
#include "cli/topo_show.h"
#include "topo/base/alloc.h"
#include "topo/base/width.h"
#include "topo/mesh_file.h"

enum format { TEXT, DOT, SVG, JSON };
#define PAPER 80 /* columns where there is no terminal to ask */

struct options {
    const char *mesh, *output;
    int format, json, ascii, wide;
};

static const struct mn_opt options[] = {
    {.name = "mesh",
     .letter = 'm',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .help = "The mesh file; default: the one in force.",
     .offset = offsetof(struct options, mesh)},
    {.name = "format",
     .type = MN_OPT_CHOICE,
     .arg = "FORMAT",
     .def = "text",
     .choices = "text|dot|svg|json",
     .help = "For the terminal, graphviz, a browser or programs.",
     .offset = offsetof(struct options, format)},
    {.name = "json",
     .letter = 'j',
     .type = MN_OPT_FLAG,
     .help = "Short for --format json.",
     .offset = offsetof(struct options, json)},
    {.name = "output",
     .letter = 'o',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .help = "Write it there instead of to standard output.",
     .offset = offsetof(struct options, output)},
    {.name = "ascii",
     .type = MN_OPT_FLAG,
     .help = "Draw lines with - | +, as where the locale is not UTF-8.",
     .offset = offsetof(struct options, ascii)},
    {.name = "wide",
     .type = MN_OPT_FLAG,
     .help = "Leave nothing out, however narrow the terminal.",
     .offset = offsetof(struct options, wide)},
    MN_OPT_END,
};

int mn_topo_show_utf8(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    int utf8 = locale && !strcmp(nl_langinfo_l(CODESET, locale), "UTF-8");

    if (locale)
        freelocale(locale);
    return utf8;
}

static void put_head(const struct mn_draw *draw, const char *path, FILE *file)
{
    const struct mn_mesh *mesh = draw->mesh;

    fprintf(file, "%s: %zu node%s, %zu cable%s, %s\n\n", mesh->name[0] ? mesh->name : path,
            mesh->n_nodes, mesh->n_nodes == 1 ? "" : "s", draw->n_cables,
            draw->n_cables == 1 ? "" : "s", mn_mesh_shape(mesh));
}

static void put_text(const struct options *o, const struct mn_draw *draw, const char *path,
                     FILE *file)
{
    int columns = o->output ? 0 : mn_term_columns(stdout);
    const struct mn_draw_look look = {.columns = o->wide   ? 0
                                                 : columns ? columns
                                                           : PAPER,
                                      .utf8 = !o->ascii && mn_topo_show_utf8(),
                                      .colors = !o->output && mn_out_is_colored(stdout)};

    put_head(draw, path, file);
    mn_draw_text(draw, &look, file);
}

static void put(const struct options *o, enum format format, const struct mn_draw *draw,
                const char *path, FILE *file)
{
    struct mn_diag missing = {.text = ""};

    if (format == TEXT)
        put_text(o, draw, path, file);
    else if (format == DOT)
        mn_draw_dot(draw, file);
    else if (format == JSON)
        mn_topo_show_json(draw, path, file);
    else if (mn_topo_show_svg(draw, file, &missing))
        fprintf(stderr, "meshnet topo show: %s; the nodes stand in a circle\n", missing.text);
}

static enum mn_err show(const struct options *o, const struct mn_mesh *mesh, const char *path,
                        struct mn_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    struct mn_draw draw;
    FILE *file = open_memstream(&text, &len);

    if (!file)
        return mn_fail_errno(diag, "memory for the drawing");
    mn_draw_init(&draw, mesh);
    put(o, o->json ? JSON : (enum format)o->format, &draw, path, file);
    mn_draw_free(&draw);
    enum mn_err err = (ferror(file) | fclose(file))
                          ? mn_fail(diag, MN_ERR_NOMEM, "out of memory for the drawing")
                          : mn_topo_deliver(o->output, text, len, "the drawing", diag);
    free(text);
    return err;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    char path[MN_TOPO_PATH];
    struct mn_mesh mesh;
    struct mn_diag diag;
    enum mn_err err = MN_OK;

    mn_mesh_init(&mesh);
    if (argc)
        err =
            mn_fail(&diag, MN_ERR_USAGE, "%s: not expected; the mesh file follows --mesh", argv[0]);
    if (!err)
        err = mn_topo_read(o->mesh, path, &mesh, &diag);
    if (!err)
        err = show(o, &mesh, path, &diag);
    mn_mesh_free(&mesh);
    return err ? mn_cmd_fail("topo show", &diag) : 0;
}

const struct mn_command mn_cmd_topo_show = {
    .name = "topo show",
    .summary = "draw the mesh: which port of which node goes where",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Examples:\n"
             "  meshnet topo show --mesh mesh.yaml\n"
             "  meshnet topo show --format svg -o mesh.svg\n"
             "  meshnet topo show --format dot | dot -Tpdf >mesh.pdf",
    .exits = {{0, MN_GOOD ": drawn"},
              {1, MN_FAILED "it could not be written"},
              {2, MN_REFUSED
               "no mesh file, a mistake in it, or an --output that is a folder or a device"}},
    .run = run,
};
