/* The few requests of roff that the manual's pages use, as plain text: for hosts without man(1). */
#include <stdlib.h>
#include <string.h>

#include "cli/pages.h"
#include "topo/base/alloc.h"
#include "topo/base/width.h"

#define BODY  7  /* indentation of a section's text, */
#define ITEM  14 /* and of what belongs to a tag */
#define ROWS  200
#define CELLS 8

struct paper {
    FILE *file;
    int columns, indent, at; /* at: columns written of this line; 0: none */
    int as_is;               /* .nf: lines stay as they are */
    int tagged;              /* the next text is a tag */
    int blank;               /* an empty line is due before what follows */
    int headed;              /* a heading is what stands above */
};

/* --- text ------------------------------------------------------------------------------------- */

/* Without escapes; the caller's to free. */
static char *plain(const char *text, size_t len)
{
    char *clean = mn_zalloc(len + 1), *to = clean;
    const char *end = text + len;

    while (text < end) {
        size_t left = (size_t)(end - text);
        if (*text != '\\' || left < 2) {
            *to++ = *text++;
        } else if (text[1] == '"') {
            break;
        } else if (text[1] == 'f') {
            text += left > 2 ? 3 : 2;
        } else if (text[1] == '(') {
            *to++ = '\''; /* \(aq */
            text += left > 3 ? 4 : left;
        } else {
            if (text[1] != '&')
                *to++ = text[1] == 'e' ? '\\' : text[1];
            text += 2;
        }
    }
    *to = 0;
    return clean;
}

static void end_line(struct paper *p)
{
    if (p->at)
        fputc('\n', p->file);
    p->at = 0;
}

/* An empty line before what follows, but not two, and none under a heading. */
static void leave_room(struct paper *p)
{
    end_line(p);
    p->blank = !p->headed;
}

static void start_line(struct paper *p, int indent)
{
    if (p->blank)
        fputc('\n', p->file);
    p->blank = p->headed = 0;
    fprintf(p->file, "%*s", indent, "");
    p->at = indent;
}

static void put_word(struct paper *p, const char *word, size_t len)
{
    int wide = 0;

    (void)mn_term_fit(word, len, 10000, &wide);
    if (p->at && p->at + 1 + wide > p->columns)
        end_line(p);
    if (!p->at)
        start_line(p, p->indent);
    else if (p->at > p->indent)
        p->at += fputc(' ', p->file) == ' ';
    fwrite(word, 1, len, p->file);
    p->at += wide;
}

static void put_text(struct paper *p, const char *text)
{
    if (p->as_is) {
        start_line(p, *text ? p->indent : 0);
        fprintf(p->file, "%s\n", text);
        p->at = 0;
        return;
    }
    int tag = p->tagged;
    p->indent = tag ? BODY : p->indent;
    for (size_t len; *(text += strspn(text, " ")); text += len) {
        len = strcspn(text, " ");
        put_word(p, text, len);
    }
    if (!tag)
        return;
    /* A short tag stands on the line of what it is the tag of. */
    p->tagged = 0;
    p->indent = ITEM;
    if (p->at && p->at < ITEM - 1) {
        fprintf(p->file, "%*s", ITEM - p->at, "");
        p->at = ITEM;
    } else {
        end_line(p);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

/* The words of a request become one text, with a space between them or none. */
static void put_words(struct paper *p, const char *words, const char *between)
{
    char *text = mn_strdup("");

    for (size_t n = 0; *(words += strspn(words, " ")); n++) {
        int quoted = *words == '"';
        words += quoted;
        size_t len = strcspn(words, quoted ? "\"" : " ");
        char *word = plain(words, len),
             *longer = mn_asprintf("%s%s%s", text, n ? between : "", word);
        free(word);
        free(text);
        text = longer;
        words += len + (size_t)(quoted && words[len]);
    }
    put_text(p, text);
    free(text);
}

static void put_head(struct paper *p, const char *words)
{
    char name[64] = "", section[8] = "";

    if (sscanf(words, "%63s %7s", name, section) == 2)
        fprintf(p->file, "%s(%s)\n", name, section);
    p->blank = 1;
}

static void put_heading(struct paper *p, const char *words, int indent)
{
    end_line(p);
    p->blank = 1;
    p->indent = indent;
    p->as_is = p->tagged = 0;
    put_words(p, words, " ");
    end_line(p);
    p->indent = BODY;
    p->headed = 1;
}

static void request(struct paper *p, const char *name, const char *words)
{
    static const char *const joined[] = {".BR", ".BI", ".RB", ".RI", ".IR", ".IB"};

    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
        if (!strcmp(name, joined[i])) {
            put_words(p, words, "");
            return;
        }
    if (!strcmp(name, ".B") || !strcmp(name, ".I")) {
        put_words(p, words, " ");
    } else if (!strcmp(name, ".TH")) {
        put_head(p, words);
    } else if (!strcmp(name, ".SH") || !strcmp(name, ".SS")) {
        put_heading(p, words, name[2] == 'H' ? 0 : 3);
    } else if (!strcmp(name, ".PP")) {
        leave_room(p);
        p->indent = BODY;
    } else if (!strcmp(name, ".TP")) {
        leave_room(p);
        p->tagged = 1;
    } else if (!strcmp(name, ".br")) {
        end_line(p);
    } else if (!strcmp(name, ".nf") || !strcmp(name, ".EX")) {
        end_line(p);
        p->as_is = 1;
    } else if (!strcmp(name, ".fi") || !strcmp(name, ".EE")) {
        end_line(p);
        p->as_is = 0;
    }
}

/* --- tables ----------------------------------------------------------------------------------- */

/* The rows between .TS and .TE; returns what follows. Cells of a row stand in line. */
static const char *put_table(struct paper *p, const char *at)
{
    char *cells[ROWS][CELLS] = {{NULL}}, between = '\t';
    int wide[CELLS] = {0}, rows = 0, body = 0;

    leave_room(p);
    for (size_t len; *at && strncmp(at, ".TE", 3) != 0; at += len + (at[len] == '\n')) {
        len = strcspn(at, "\n");
        if (!body) {
            const char *tab = strstr(at, "tab(");
            if (tab && tab < at + len)
                between = tab[4];
            body = len && at[len - 1] == '.';
            continue;
        }
        const char *cell = at, *end = at + len;
        for (int c = 0; c < CELLS && rows < ROWS && cell <= end; c++) {
            const char *stop = memchr(cell, between, (size_t)(end - cell));
            stop = stop ? stop : end;
            cells[rows][c] = plain(cell, (size_t)(stop - cell));
            int w = mn_term_width(cells[rows][c]);
            wide[c] = w > wide[c] ? w : wide[c];
            cell = stop + 1;
        }
        rows += rows < ROWS;
    }
    for (int r = 0; r < rows; r++) {
        start_line(p, BODY);
        for (int c = 0; c < CELLS && cells[r][c]; c++) {
            int last = c + 1 == CELLS || !cells[r][c + 1];
            int pad = last ? 0 : wide[c] - mn_term_width(cells[r][c]) + 2;
            fprintf(p->file, "%s%*s", cells[r][c], pad, "");
            free(cells[r][c]);
        }
        end_line(p);
    }
    leave_room(p);
    return at;
}

void mn_roff_write(const char *roff, int columns, FILE *file)
{
    struct paper p = {.file = file, .columns = columns > 40 ? columns : 40, .indent = BODY};

    for (size_t len; *roff; roff += len + (roff[len] == '\n')) {
        len = strcspn(roff, "\n");
        if (!strncmp(roff, ".TS", 3)) {
            roff = put_table(&p, roff + len + (roff[len] == '\n'));
            len = strcspn(roff, "\n");
        } else if (*roff == '.') {
            char *line = mn_asprintf("%.*s", (int)len, roff);
            size_t name = strcspn(line, " ");
            char *words = line + name + (line[name] == ' ');
            line[name] = 0;
            request(&p, line, words);
            free(line);
        } else if (*roff != '\'') {
            char *text = plain(roff, len);
            put_text(&p, text);
            free(text);
        }
    }
    end_line(&p);
}
