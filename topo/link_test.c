/* Cables among many NICs: as the definition has it, which compares each with each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"

#define NODES 6
#define NICS  4
#define ENDS  (NODES * NICS)

static unsigned seed;

static unsigned any(unsigned below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % below;
}

/* Addresses so near one another, with such prefixes, that all cases occur. */
static void fill(struct mn_mesh *mesh)
{
    static const int prefixes[] = {24, 28, 30, 31, 31, 31};

    mn_mesh_init(mesh);
    mesh->nodes = mn_zalloc(NODES * sizeof *mesh->nodes);
    mesh->n_nodes = NODES;
    for (int n = 0; n < NODES; n++) {
        struct mn_mesh_node *node = &mesh->nodes[n];
        snprintf(node->name, sizeof node->name, "n%d", n);
        node->nics = mn_zalloc(NICS * sizeof *node->nics);
        node->n_nics = NICS;
        for (int i = 0; i < NICS; i++) {
            struct mn_mesh_nic *nic = &node->nics[i];
            snprintf(nic->name, sizeof nic->name, "e%d", i);
            nic->role = any(12) ? MN_ROLE_AUTO : MN_ROLE_MANAGEMENT;
            nic->n_addrs = any(3) ? 1 : any(3);
            nic->addrs = mn_zalloc((nic->n_addrs + 1) * sizeof *nic->addrs);
            for (size_t a = 0; a < nic->n_addrs; a++)
                nic->addrs[a] =
                    (struct mn_addr){.family = any(8) ? AF_INET : AF_INET6,
                                     .prefix = prefixes[any(6)],
                                     .bytes = {10, 0, (uint8_t)any(9), (uint8_t)(any(60) + 1)}};
        }
    }
}

static struct mn_mesh_nic *nic_of(const struct mn_mesh *mesh, int end)
{
    return &mesh->nodes[end / NICS].nics[end % NICS];
}

/* root[end]: the first end of its net. */
static void nets_by_definition(const struct mn_mesh *mesh, int root[ENDS])
{
    struct mn_addr subnet;

    for (int b = 0; b < ENDS; b++) {
        root[b] = b;
        for (int a = 0; a < b; a++) {
            const struct mn_mesh_nic *x = nic_of(mesh, a), *y = nic_of(mesh, b);
            if (a / NICS == b / NICS || x->role == MN_ROLE_MANAGEMENT ||
                y->role == MN_ROLE_MANAGEMENT || !mn_link_subnet(x, y, &subnet))
                continue;
            int low = root[a] < root[b] ? root[a] : root[b];
            int high = root[a] < root[b] ? root[b] : root[a];
            for (int i = 0; i <= b; i++)
                if (root[i] == high)
                    root[i] = low;
        }
    }
}

/* Whether the net that begins with this end has two ends, which are then in other; -1: it cannot
 * be. */
static int cable_at(const int root[ENDS], int first, int *other)
{
    int nodes[NODES] = {0}, count = 0, twice = 0;

    for (int i = 0; i < ENDS; i++)
        if (root[i] == first) {
            *other = i;
            count++;
            twice |= nodes[i / NICS]++;
        }
    return count > 2 && twice ? -1 : count == 2;
}

static int overlaps(const struct mn_mesh *mesh)
{
    for (size_t b = 0; b < mesh->n_links; b++)
        for (size_t a = 0; a < b; a++)
            for (int k = 0; k < 4; k++) {
                const struct mn_mesh_nic *x = mn_mesh_end_nic(mesh, &mesh->links[a].ends[k / 2]);
                const struct mn_mesh_nic *y = mn_mesh_end_nic(mesh, &mesh->links[b].ends[k % 2]);
                for (size_t i = 0; i < x->n_addrs; i++)
                    for (size_t j = 0; j < y->n_addrs; j++) {
                        struct mn_addr p = x->addrs[i], q = y->addrs[j], s;
                        struct mn_mesh_nic one = {.addrs = &p, .n_addrs = 1};
                        struct mn_mesh_nic two = {.addrs = &q, .n_addrs = 1};
                        const struct mn_mesh_nic *x2 =
                            mn_mesh_end_nic(mesh, &mesh->links[a].ends[!(k / 2)]);
                        const struct mn_mesh_nic *y2 =
                            mn_mesh_end_nic(mesh, &mesh->links[b].ends[!(k % 2)]);
                        if (!mn_link_subnet(&one, x2, &s))
                            continue;
                        p = s;
                        if (!mn_link_subnet(&two, y2, &s))
                            continue;
                        q = s;
                        p.prefix = q.prefix = p.prefix < q.prefix ? p.prefix : q.prefix;
                        if (mn_addr_share_subnet(&p, &q))
                            return 1;
                    }
            }
    return 0;
}

static int check(const struct mn_mesh *mesh, enum mn_err err, const struct mn_diag *diag)
{
    int root[ENDS], impossible = 0;
    size_t found = 0;

    nets_by_definition(mesh, root);
    for (int first = 0, other = 0; first < ENDS && !impossible; first++) {
        int cable = cable_at(root, first, &other);
        impossible = cable < 0;
        if (cable <= 0)
            continue;
        assert_true(found < mesh->n_links);
        const struct mn_mesh_end *ends = mesh->links[found++].ends;
        assert_int_equal(ends[0].node * NICS + ends[0].nic, first);
        assert_int_equal(ends[1].node * NICS + ends[1].nic, other);
    }
    assert_int_equal(mesh->n_links, found);
    if (impossible)
        assert_non_null(strstr(diag->text, "run into one another"));
    else if (overlaps(mesh))
        assert_non_null(strstr(diag->text, "overlaps subnet"));
    assert_int_equal(err, impossible || overlaps(mesh) ? MN_ERR_CONFIG : MN_OK);
    return err ? 0 : (int)found;
}

static void cables_are_those_of_the_definition(void **state)
{
    int cables = 0, refused = 0;

    (void)state;
    for (seed = 1; seed < 4000; seed++) {
        unsigned began = seed;
        struct mn_diag diag = {.text = ""};
        struct mn_mesh mesh;
        fill(&mesh);
        enum mn_err err = mn_link_find(&mesh, NULL, &diag);
        int found = check(&mesh, err, &diag);
        cables += found;
        refused += err != MN_OK;
        mn_mesh_free(&mesh);
        seed = began;
    }
    assert_in_range(cables, 1000, 4000 * ENDS / 2);
    assert_in_range(refused, 100, 3900);
}

static void parse(struct mn_mesh *mesh, const char *text)
{
    struct mn_diag diag;

    mn_mesh_init(mesh);
    if (mn_mesh_parse("mesh", text, strlen(text), mesh, &diag))
        fail_msg("%s", diag.text);
}

/* Names so long that what is left of them is the same: each cable has a name of its own still. */
static void long_names_are_told_apart(void **state)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    struct mn_mesh mesh;

    (void)state;
    fputs("version: 1\nnodes:\n", out);
    for (int i = 0; i < 2000; i++)
        fprintf(out,
                "  - {name: the-cluster-in-the-cellar-of-the-old-house-%d, nics: [{netdev: e0, "
                "addresses: [10.0.%d.%d/31]}]}\n",
                i, i / 256, i % 256);
    fclose(out);
    parse(&mesh, text);
    free(text);
    assert_int_equal(mesh.n_links, 1000);
    assert_string_equal(mesh.links[0].name,
                        "the-cluster-in-the-cellar-of-the-cluster-in-the-cellar-of");
    assert_string_equal(mesh.links[999].name,
                        "the-cluster-in-the-cellar-of-the-cluster-in-the-cellar-of-1000");
    mn_mesh_free(&mesh);
}

/* The largest torus there may be: a file of it is read, written and read as the same. */
static void thousands_of_nodes(void **state)
{
#ifdef __SANITIZE_THREAD__ /* there is one thread, and it is slow */
    enum { SIDE = 16, NODE_COUNT = SIDE * SIDE };
#else
    enum { SIDE = 64, NODE_COUNT = SIDE * SIDE };
#endif
    char *text = NULL, *again = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    struct mn_mesh mesh, same;
    struct mn_diag diag;

    (void)state;
    fputs("version: 1\nnodes:\n", out);
    for (int i = 0; i < NODE_COUNT; i++) {
        int left = i / SIDE * SIDE + (i + SIDE - 1) % SIDE;
        int above = (i + NODE_COUNT - SIDE) % NODE_COUNT;
        fprintf(out, "  - name: n%d\n    nics:\n", i);
        fprintf(out, "      - {netdev: e, addresses: [10.64.%d.%d/31]}\n", i / 128, i % 128 * 2);
        fprintf(out, "      - {netdev: w, addresses: [10.64.%d.%d/31]}\n", left / 128,
                left % 128 * 2 + 1);
        fprintf(out, "      - {netdev: s, addresses: [10.65.%d.%d/31]}\n", i / 128, i % 128 * 2);
        fprintf(out, "      - {netdev: n, addresses: [10.65.%d.%d/31]}\n", above / 128,
                above % 128 * 2 + 1);
    }
    fclose(out);
    parse(&mesh, text);
    free(text);
    assert_int_equal(mesh.n_nodes, NODE_COUNT);
    assert_int_equal(mesh.n_links, 2 * NODE_COUNT);
    assert_string_equal(mn_mesh_shape(&mesh), "torus");
    assert_int_equal(mn_mesh_format_yaml(&mesh, &text, &diag), MN_OK);
    parse(&same, text);
    assert_int_equal(mn_mesh_format_yaml(&same, &again, &diag), MN_OK);
    assert_string_equal(text, again);
    free(text);
    free(again);
    mn_mesh_free(&mesh);
    mn_mesh_free(&same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cables_are_those_of_the_definition),
        cmocka_unit_test(long_names_are_told_apart),
        cmocka_unit_test(thousands_of_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
