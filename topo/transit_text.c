/* The files in which a node keeps what transit needs. */
#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/transit.h"

struct text {
    char *bytes;
    size_t size;
};

static FILE *text_begin(struct text *text)
{
    FILE *file = open_memstream(&text->bytes, &text->size);

    if (!file)
        mn_no_memory();
    return file;
}

static char *text_end(FILE *file, struct text *text)
{
    if (fclose(file))
        mn_no_memory();
    return text->bytes;
}

static int is_ipv6(const struct mn_transit_sysctl *row)
{
    return !strncmp(row->key, "net/ipv6/", 9);
}

char *mn_transit_sysctl_text(const struct mn_transit *t)
{
    struct text text;
    FILE *file = text_begin(&text);

    /* The first NIC's rows tell why. "-": the NIC may come later, udev has it set then. */
    for (size_t i = 0; i < t->n_sysctls; i++) {
        const struct mn_transit_sysctl *row = &t->sysctls[i];
        size_t k = 0;
        if (is_ipv6(row))
            continue;
        while (t->sysctls[k].why != row->why)
            k++;
        if (k == i)
            fprintf(file, "# %s: %s\n", strrchr(row->key, '/') + 1, row->why);
        fprintf(file, "-%s = %d\n", row->key, row->value);
    }
    return text_end(file, &text);
}

static void put_set(FILE *file, const struct mn_transit *t, const struct mn_mesh_node *node)
{
    fputs("{", file);
    for (size_t i = 0; i < t->n_nics; i++)
        fprintf(file, "%s \"%s\"", i ? "," : "", node->nics[t->nics[i]].netdev);
    fputs(" }", file);
}

static void put_nft(FILE *file, const struct mn_transit *t, const struct mn_mesh_node *node)
{
    fputs("table inet meshnet\ndelete table inet meshnet\ntable inet meshnet {\n"
          "    chain forward {\n        type filter hook forward priority filter; policy accept;\n"
          "        iifname ",
          file);
    put_set(file, t, node);
    fputs(" oifname ", file);
    put_set(file, t, node);
    fputs(" counter accept\n    }\n}\n", file);
}

char *mn_transit_nft_text(const struct mn_transit *t, const struct mn_mesh_node *node)
{
    struct text text;
    FILE *file = text_begin(&text);

    put_nft(file, t, node);
    return text_end(file, &text);
}

/* An interface that forwards believes no router unless told to: its default route would go. Where
 * it listens to none (0) networkd or NetworkManager does so in its place. */
static void put_routers(FILE *file, const struct mn_transit *t, const struct mn_mesh_node *node)
{
    fputs("\n# Routers are believed where they were, though packets are passed on.\n"
          "for conf in /proc/sys/net/ipv6/conf/*; do\n"
          "    case ${conf##*/} in all | lo",
          file);
    for (size_t i = 0; i < t->n_nics; i++)
        fprintf(file, " | '%s'", node->nics[t->nics[i]].netdev);
    fputs(") continue ;; esac\n"
          "    [ \"$(cat \"$conf/accept_ra\")\" != 1 ] || echo 2 >\"$conf/accept_ra\" || true\n"
          "done\n",
          file);
}

static void put_ipv6(FILE *file, const struct mn_transit *t, const struct mn_mesh_node *node)
{
    if (t->ipv6)
        put_routers(file, t, node);
    for (size_t i = 0; i < t->n_sysctls; i++) {
        const struct mn_transit_sysctl *row = &t->sysctls[i];
        if (!is_ipv6(row))
            continue;
        fprintf(file, "\n# %s\n", row->why);
        fprintf(file, "sysctl -qw '%s=%d'\n", row->key, row->value);
    }
}

/* From any cable to any cable, in a rule for each and not for each two. */
static void put_rules(FILE *file, const struct mn_transit *t, const struct mn_mesh_node *node)
{
    for (size_t i = 0; i < t->n_nics; i++)
        fprintf(file, "    $1 -w -A MESHNET -i '%s' -j MESHNET-OUT\n",
                node->nics[t->nics[i]].netdev);
    for (size_t i = 0; i < t->n_nics; i++)
        fprintf(file, "    $1 -w -A MESHNET-OUT -o '%s' -j ACCEPT\n",
                node->nics[t->nics[i]].netdev);
}

static const char script_head[] =
    "set -e\n\n"
    "take_away() { # iptables|ip6tables\n"
    "    for chain in DOCKER-USER FORWARD; do\n"
    "        while $1 -w -D $chain -j MESHNET 2>/dev/null; do :; done\n"
    "    done\n"
    "    for chain in MESHNET MESHNET-OUT; do\n"
    "        $1 -w -F $chain 2>/dev/null || true\n"
    "    done\n"
    "    for chain in MESHNET MESHNET-OUT; do\n"
    "        $1 -w -X $chain 2>/dev/null || true\n"
    "    done\n"
    "}\n\n"
    "# Docker's and ufw's FORWARD drops what passes between cables; what DOCKER-USER has in it "
    "stays\n"
    "# there when Docker starts again.\n"
    "put() { # iptables|ip6tables\n"
    "    # There may be the program and not its part of the kernel.\n"
    "    $1 -w -n -L FORWARD >/dev/null 2>&1 || return 0\n"
    "    take_away $1\n"
    "    [ \"$what\" != remove ] || return 0\n"
    "    $1 -w -N MESHNET\n"
    "    $1 -w -N MESHNET-OUT\n";
static const char script_tail[] = "    if $1 -w -n -L DOCKER-USER >/dev/null 2>&1; then\n"
                                  "        $1 -w -I DOCKER-USER -j MESHNET\n"
                                  "    else\n"
                                  "        $1 -w -I FORWARD -j MESHNET\n"
                                  "    fi\n"
                                  "}\n\n"
                                  "what=${1:-}\n";

char *mn_transit_script_text(const struct mn_transit *t, const struct mn_mesh_node *node)
{
    struct text text;
    FILE *file = text_begin(&text);

    fputs(script_head, file);
    put_rules(file, t, node);
    fputs(script_tail, file);
    fprintf(file, "%s%s", t->ipv4 ? "put iptables\n" : "", t->ipv6 ? "put ip6tables\n" : "");
    fputs(
        "\nif [ \"$what\" = remove ]; then\n"
        "    nft delete table inet meshnet 2>/dev/null || true\n    exit 0\nfi\n"
        "if nft list tables >/dev/null 2>&1; then\n"
        "    # It counts what passes; what another table drops it cannot lift.\n"
        "    nft -f - <<'END' || echo 'meshnet: no nft here, which would count what passes' >&2\n",
        file);
    put_nft(file, t, node);
    fputs("END\nfi\n", file);
    put_ipv6(file, t, node);
    return text_end(file, &text);
}

char *mn_transit_unit_text(void)
{
    /* It is over when it has run, so that Docker's next start runs it again. Nothing takes the
     * rules away when Docker stops, for what Docker has FORWARD do stays. */
    return mn_strdup("[Unit]\n"
                     "Description=Packets pass between the cables of a meshnet mesh\n"
                     "Documentation=man:meshnet-topo-emit(1)\n"
                     "After=network-pre.target nftables.service ufw.service docker.service\n"
                     "\n"
                     "[Service]\n"
                     "Type=oneshot\n"
                     "ExecStart=/bin/sh " MN_TRANSIT_SCRIPT_PATH "\n");
}

char *mn_transit_wants_text(void)
{
    return mn_strdup("[Unit]\nWants=" MN_TRANSIT_UNIT "\n");
}
