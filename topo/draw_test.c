#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/base/width.h"
#include "topo/draw.h"
#include "topo/mesh_file.h"

#define NODES 16

/* A mesh under construction: a cable takes the next port of both nodes, with one half or two. */
struct kit {
    char links[32768];
    int n_nodes, ports[NODES], halves;
};

static const char *nic_name(const struct kit *k, int half, int port, char *text, size_t size)
{
    if (k->halves == 1 && !port)
        snprintf(text, size, "left");
    else
        snprintf(text, size, "e%cf%d", 'a' + half, port);
    return text;
}

static void cable(struct kit *k, int a, int b)
{
    size_t used = strlen(k->links);
    char one[16], two[16];

    for (int half = 0; half < k->halves; half++)
        used += (size_t)snprintf(k->links + used, sizeof k->links - used,
                                 "  - ends: [n%d/%s, n%d/%s]\n", a,
                                 nic_name(k, half, k->ports[a], one, sizeof one), b,
                                 nic_name(k, half, k->ports[b], two, sizeof two));
    k->ports[a]++;
    k->ports[b]++;
}

static void finish(struct kit *k, struct mn_mesh *mesh)
{
    size_t size = 1 << 18, used;
    char *text = malloc(size);
    struct mn_diag diag;

    used = (size_t)snprintf(text, size, "version: 1\nnodes:\n");
    for (int n = 0; n < k->n_nodes; n++) {
        used += (size_t)snprintf(text + used, size - used, "  - name: n%d\n    nics:\n", n);
        for (int port = 0; port < k->ports[n]; port++)
            for (int half = 0; half < k->halves; half++) {
                char name[16];
                used +=
                    (size_t)snprintf(text + used, size - used,
                                     "      - {netdev: e%cf%d, name: %s, speed: 200000%s%d}\n",
                                     'a' + half, port, nic_name(k, half, port, name, sizeof name),
                                     k->halves > 1 ? ", group: port" : ", mtu: 900", port);
            }
        used += (size_t)snprintf(text + used, size - used,
                                 "      - {netdev: eno1, role: management}\n");
    }
    snprintf(text + used, size - used, "%s%s", *k->links ? "links:\n" : "", k->links);
    mn_mesh_init(mesh);
    if (mn_mesh_parse("kit", text, strlen(text), mesh, &diag))
        fail_msg("%s\n%s", diag.text, text);
    free(text);
}

static struct kit *kit_new(int n_nodes, int halves)
{
    struct kit *k = mn_zalloc(sizeof *k);

    k->n_nodes = n_nodes;
    k->halves = halves;
    return k;
}

static char *draw_text(const struct mn_mesh *mesh, int columns, int utf8)
{
    struct mn_draw_look look = {.columns = columns, .utf8 = utf8};
    struct mn_draw draw;
    char *text;
    size_t len;
    FILE *file = open_memstream(&text, &len);

    mn_draw_init(&draw, mesh);
    mn_draw_text(&draw, &look, file);
    mn_draw_free(&draw);
    fclose(file);
    return text;
}

/* --- a drawing read again ------------------------------------------------------------------- */

#define WIDE 400
#define HIGH 400

struct page {
    uint32_t at[HIGH][WIDE];
    char lines[HIGH][WIDE * 4];
    int high;
};

static struct page *page_of(const char *text)
{
    struct page *page = mn_zalloc(sizeof *page);

    for (const char *line = text; *line && page->high < HIGH; page->high++) {
        size_t len = strcspn(line, "\n");
        assert_true(len < sizeof page->lines[0]);
        memcpy(page->lines[page->high], line, len);
        for (size_t i = 0, x = 0, n; i < len && x < WIDE; i += n, x++)
            n = mn_utf8(line + i, len - i, &page->at[page->high][x]);
        line += len + (line[len] == '\n');
    }
    return page;
}

/* The row at the other end of the wire that begins in this row; -1: none does. */
static int follow(const struct page *page, int y)
{
    int x = 0, step;

    for (int i = 0; i < WIDE && page->at[y][i]; i++)
        x = page->at[y][i] == 0x2510 || page->at[y][i] == 0x2518 ? i : x; /* ┐ ┘ */
    if (!x)
        return -1;
    step = page->at[y][x] == 0x2510 ? 1 : -1;
    for (y += step; y >= 0 && y < page->high; y += step) {
        if (page->at[y][x] == (step > 0 ? 0x2518u : 0x2510u))
            return y;
        assert_int_equal(page->at[y][x], 0x2502); /* unbroken */
    }
    return -1;
}

/* The node in whose block a row is. */
static const char *owner(const struct page *page, int y, char *name)
{
    while (y >= 0 && sscanf(page->lines[y], "┌─ %15s", name) != 1)
        y--;
    assert_true(y >= 0);
    return name;
}

/* "│ left  eaf0  200G ├── n1 eaf1 ─┐": what it is and where it goes. */
static int read_row(const char *line, char *own, char *peer_node, char *peer)
{
    const char *leader = strstr(line, "├── ");

    return leader && sscanf(line, "│ %15s", own) == 1 &&
           sscanf(leader, "├── %15s %15s", peer_node, peer) == 2;
}

/* Every wire ends where the texts at both of its ends say; returns how many there are. */
static int check_wires(const char *text)
{
    struct page *page = page_of(text);
    int wires = 0;

    for (int y = 0; y < page->high; y++) {
        char own[16], to[16], peer[16], own2[16], to2[16], peer2[16], name[16];
        int end = read_row(page->lines[y], own, to, peer) ? follow(page, y) : -1;
        if (end < 0)
            continue;
        assert_true(read_row(page->lines[end], own2, to2, peer2));
        assert_string_equal(owner(page, y, name), to2);
        assert_string_equal(owner(page, end, name), to);
        assert_string_equal(own, peer2);
        assert_string_equal(own2, peer);
        wires++;
    }
    free(page);
    return wires / 2;
}

static void check_width(const char *text, int columns)
{
    struct page *page = page_of(text);

    for (int y = 0; y < page->high; y++)
        if (mn_term_width(page->lines[y]) > columns)
            fail_msg("%d columns: %s", columns, page->lines[y]);
    free(page);
}

/* --- tests ---------------------------------------------------------------------------------- */

static void check_blocks(struct kit *k, int cables)
{
    struct mn_mesh mesh;

    finish(k, &mesh);
    /* Bare cables are dashed; addresses come in the bats file. Drawn as whole lines here. */
    for (size_t i = 0; i < mesh.n_links; i++)
        mesh.links[i].subnet.family = 2;
    for (int columns = 0; columns < 140; columns += columns ? 13 : 40) {
        char *text = draw_text(&mesh, columns, 1);
        int wires = check_wires(text);
        if (!columns)
            assert_int_equal(wires, cables);
        else
            assert_true(wires == 0 || wires == cables);
        if (columns > 65)
            check_width(text, columns);
        free(text);
        text = draw_text(&mesh, columns, 0);
        for (const char *at = text; *at; at++)
            assert_true((unsigned char)*at < 0x80);
        free(text);
    }
    mn_mesh_free(&mesh);
    free(k);
}

static void full_meshes_and_stars_have_a_wire_for_each_cable(void **state)
{
    (void)state;
    for (int halves = 1; halves <= 2; halves++)
        for (int n = 4; n <= 8; n++) {
            struct kit *k = kit_new(n, halves);
            for (int a = 0; a < n; a++)
                for (int b = a + 1; b < n; b++)
                    cable(k, a, b);
            check_blocks(k, n * (n - 1) / 2);
            k = kit_new(n, halves);
            for (int b = 1; b < n; b++)
                cable(k, b % 2 ? 0 : b, b % 2 ? b : 0);
            check_blocks(k, n - 1);
        }
}

static void any_mesh_has_a_wire_for_each_cable(void **state)
{
    uint32_t seed = 7;

    (void)state;
    for (int round = 0; round < 60; round++) {
        int n = 4 + round % 12, cables = 0;
        struct kit *k = kit_new(n, 1 + round % 2);
        cable(k, 0, 1); /* a node of three neighbours: no loop */
        cable(k, 0, 2);
        cable(k, 3, 0);
        for (int i = 0; i < round % 20; i++) {
            seed = seed * 1664525 + 1013904223;
            int a = (int)(seed >> 8) % n, b = (int)(seed >> 20) % n;
            if (a == b || k->ports[a] > 8 || k->ports[b] > 8)
                continue;
            cable(k, a, b);
            cables++;
        }
        check_blocks(k, cables + 3);
    }
}

static int count(const char *text, const char *word)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, word)); at++)
        n++;
    return n;
}

static void rings_and_lines_are_boxes(void **state)
{
    (void)state;
    for (int halves = 1; halves <= 2; halves++)
        for (int n = 2; n <= 12; n++)
            for (int closed = 0; closed <= (n > 2); closed++) {
                struct kit *k = kit_new(n, halves);
                struct mn_mesh mesh;
                int order[NODES], is_closed;
                for (int i = 0; i + !closed < n; i++)
                    cable(k, i % 2 ? i : (i + 1) % n, i % 2 ? (i + 1) % n : i);
                finish(k, &mesh);
                struct mn_draw draw;
                mn_draw_init(&draw, &mesh);
                assert_int_equal(mn_draw_loop(&draw, order, &is_closed), 1);
                assert_int_equal(is_closed, closed);
                assert_int_equal(draw.n_cables, (size_t)(n - !closed));
                mn_draw_free(&draw);
                char *text = draw_text(&mesh, 80, 1);
                check_width(text, 80);
                assert_int_equal(count(text, "├──"), 0);
                /* Each half at both of its ends. */
                assert_int_equal(count(text, "eaf") + count(text, "ebf"),
                                 2 * halves * (n - !closed));
                assert_int_equal(count(text, "200G"), n - !closed);
                free(text);
                text = draw_text(&mesh, 20, 1);
                assert_int_equal(count(text, "├╌╌") > 0, 1); /* no room: blocks */
                free(text);
                mn_mesh_free(&mesh);
                free(k);
            }
}

static void two_cables_between_two_nodes(void **state)
{
    struct kit *k = kit_new(2, 2);
    struct mn_mesh mesh;

    (void)state;
    cable(k, 0, 1);
    cable(k, 0, 1);
    finish(k, &mesh);
    char *text = draw_text(&mesh, 80, 1);
    assert_int_equal(count(text, "port0"), 2);
    assert_int_equal(count(text, "port1"), 2);
    assert_int_equal(count(text, "│ n0 "), 1);
    free(text);
    mn_mesh_free(&mesh);
    free(k);
    /* In a ring, where one below the other would hide them: blocks. */
    k = kit_new(4, 1);
    for (int i = 0; i < 4; i++)
        cable(k, i, (i + 1) % 4);
    cable(k, 1, 2);
    check_blocks(k, 5);
}

static void nothing_to_draw(void **state)
{
    struct mn_mesh mesh;
    char *text;

    (void)state;
    mn_mesh_init(&mesh);
    text = draw_text(&mesh, 80, 1);
    assert_string_equal(text, "\n");
    free(text);
    struct kit *k = kit_new(1, 1);
    finish(k, &mesh);
    text = draw_text(&mesh, 80, 1);
    assert_non_null(strstr(text, "┌─ n0 "));
    assert_non_null(strstr(text, "For management: n0/eno1"));
    free(text);
    mn_mesh_free(&mesh);
    free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_meshes_and_stars_have_a_wire_for_each_cable),
        cmocka_unit_test(any_mesh_has_a_wire_for_each_cable),
        cmocka_unit_test(rings_and_lines_are_boxes),
        cmocka_unit_test(two_cables_between_two_nodes),
        cmocka_unit_test(nothing_to_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
