#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/relay/engine.h"

static const char *kind_name(int kind)
{
    return kind == MN_RELAY_BULK ? "bulk" : "small";
}

static void say_listening(const struct mn_relay *relay, struct mn_out *out)
{
    static const struct mn_col cols[] = {{"address", "address", 0}, {"port", "port", 1}};

    mn_out_table(out, "listening", "listening", cols, 2);
    for (int i = 0; i < relay->n_fds; i++) {
        struct sockaddr_storage ss;
        socklen_t len = sizeof ss;
        struct mn_addr addr;
        char text[MN_ADDR_TEXT];
        if (getsockname(relay->fds[i], (struct sockaddr *)&ss, &len) ||
            !mn_addr_from_sockaddr((struct sockaddr *)&ss, &addr))
            continue;
        mn_out_row(out);
        mn_out_cell(out, mn_addr_format(&addr, text, sizeof text));
        mn_out_cell_int(out,
                        ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port
                                                       : ((struct sockaddr_in *)&ss)->sin_port));
    }
    mn_out_table_end(out);
}

static void say_lines(const struct mn_relay *relay, struct mn_out *out)
{
    static const struct mn_col cols[] = {{"peer", "peer", 0},
                                         {"kind", "kind", 0},
                                         {"uid", "uid", 1},
                                         {"pid", "pid", 1},
                                         {"since_s", "since (s)", 1}};

    mn_out_table(out, "lines", "lines", cols, 5);
    for (const struct relayd_line *l = relay->lines; l; l = l->next) {
        int process = l->who.kind == MN_LINE_PROCESS;
        if (!l->up || l->ended)
            continue;
        mn_out_row(out);
        mn_out_cell(out, relayd_node_name(relay, (int)l->who.node));
        mn_out_cell(out, process ? "process" : "relay");
        if (process)
            mn_out_cell_int(out, l->who.uid);
        else
            mn_out_cell(out, NULL);
        if (process)
            mn_out_cell_int(out, l->who.pid);
        else
            mn_out_cell(out, NULL);
        mn_out_cell_int(out, (int64_t)(mn_now_ms() - l->born_ms) / 1000);
    }
    mn_out_table_end(out);
}

/* Free: buffers that the sending end may still fill. */
static void say_trunks(const struct mn_relay *relay, struct mn_out *out)
{
    static const struct mn_col cols[] = {{"neighbor", "neighbour", 0},  {"class", "class", 1},
                                         {"kind", "kind", 0},           {"way", "way", 0},
                                         {"transport", "transport", 0}, {"bytes", "bytes", 1},
                                         {"waiting", "waiting", 1},     {"free", "free", 1}};

    mn_out_table(out, "trunks", "trunks", cols, 8);
    for (const struct relayd_hop *hop = relay->hops; hop; hop = hop->next) {
        if (hop->way || !hop->line || hop->state == RELAYD_HOP_ENDED)
            continue;
        mn_out_row(out);
        mn_out_cell(out, relayd_node_name(relay, (int)hop->line->who.node));
        mn_out_cell_int(out, hop->class);
        mn_out_cell(out, kind_name(hop->kind));
        mn_out_cell(out, hop->is_in ? "in" : "out");
        mn_out_cell(out, hop->comm ? hop->comm->ops->name : NULL);
        mn_out_cell_int(out, (int64_t)hop->bytes);
        mn_out_cell_int(out, hop->is_in ? hop->busy : hop->share.used);
        mn_out_cell_int(out, hop->is_in ? hop->posted.n : hop->share.cap - hop->share.used);
    }
    mn_out_table_end(out);
}

static void say_whose(const struct relayd_way *w, struct mn_out *out)
{
    const struct relayd_line *process = NULL;

    for (int side = 0; side < RELAYD_SIDES; side++)
        if (w->line[side] && w->line[side]->who.kind == MN_LINE_PROCESS && !process)
            process = w->line[side];
    for (int i = 0; i < 2; i++)
        if (process)
            mn_out_cell_int(out, i ? process->who.pid : process->who.uid);
        else
            mn_out_cell(out, NULL);
}

static void say_relays(const struct mn_relay *relay, const struct mn_relay_way *nodes,
                       struct mn_out *out)
{
    char text[MN_RELAY_MAX * (MN_NAME_MAX + 2)];
    size_t at = 0;

    for (int i = 1; i + 1 < nodes->n && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i > 1 ? ", " : "",
                               relayd_node_name(relay, nodes->nodes[i]));
    mn_out_cell(out, text);
}

/* Credits: pieces that the next relay has of it; none where D is next. */
static void say_flow(const struct mn_relay *relay, const struct relayd_way *w, struct mn_out *out)
{
    uint64_t now = mn_now_ms(), oldest = 0;
    uint32_t waiting = 0, credits = 0;

    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        const struct relayd_buf *first = w->waiting[kind].first;
        waiting += w->waiting[kind].n;
        credits += w->turn[kind].used;
        if (first && now - first->came_ms > oldest)
            oldest = now - first->came_ms;
    }
    uint64_t window = now - w->rated_ms[1];
    mn_out_row(out);
    mn_out_cellf(out, "%02x%02x%02x%02x", w->key.flow.id[0], w->key.flow.id[1], w->key.flow.id[2],
                 w->key.flow.id[3]);
    mn_out_cell_int(out, w->key.way);
    mn_out_cell(out, relayd_node_name(relay, w->nodes.nodes[0]));
    mn_out_cell(out, relayd_node_name(relay, w->nodes.nodes[w->nodes.n - 1]));
    say_relays(relay, &w->nodes, out);
    say_whose(w, out);
    mn_out_cell(out, w->pair ? "open" : "attaching");
    mn_out_cell_int(out, (int64_t)(now - w->born_ms) / 1000);
    mn_out_cell_int(out, (int64_t)w->bytes);
    mn_out_cell_int(out, (int64_t)w->pieces);
    mn_out_cell_int(out, waiting);
    mn_out_cell_int(out, (int64_t)oldest);
    mn_out_cell_int(out, credits);
    mn_out_cell_num(out,
                    window ? (double)(w->bytes - w->rated_bytes[1]) * 8e-6 / (double)window : 0, 3);
}

static void say_flows(const struct mn_relay *relay, struct mn_out *out)
{
    static const struct mn_col cols[] = {
        {"id", "flow", 0},
        {"way", "way", 1},
        {"from", "from", 0},
        {"to", "to", 0},
        {"through", "through", 0},
        {"uid", "uid", 1},
        {"pid", "pid", 1},
        {"state", "state", 0},
        {"since_s", "since (s)", 1},
        {"bytes", "bytes", 1},
        {"pieces", "pieces", 1},
        {"waiting", "waiting", 1},
        {"oldest_ms", "oldest (ms)", 1},
        {"credits", "credits", 1},
        {"gbps", "Gb/s", 1},
    };

    mn_out_table(out, "flows", "flows", cols, sizeof cols / sizeof *cols);
    for (const struct relayd_way *w = relay->ways; w; w = w->next)
        if (!w->ended)
            say_flow(relay, w, out);
    mn_out_table_end(out);
}

void mn_relay_state(const struct mn_relay *relay, struct mn_out *out)
{
    mn_out_str(out, "version", "version", MESHNET_VERSION);
    mn_out_strf(out, "mesh", "mesh file", "%016llx", (unsigned long long)relay->digest);
    mn_out_str(out, "node", "node", relayd_node_name(relay, relay->self));
    mn_out_int(out, "pid", "process", getpid());
    mn_out_int(out, "uptime_s", "uptime (s)", (int64_t)(mn_now_ms() - relay->born_ms) / 1000);
    say_listening(relay, out);
    mn_out_begin(out, "buffers", "buffers");
    mn_out_int(out, "bytes", "bytes", (int64_t)relay->pool.size);
    mn_out_int(out, "in_use", "in use", (int64_t)relay->pool.used * MN_POOL_UNIT);
    mn_out_bool(out, "locked", "locked", relay->pool.locked);
    mn_out_end(out);
    say_lines(relay, out);
    say_trunks(relay, out);
    say_flows(relay, out);
    mn_out_begin(out, "counts", "counts");
    mn_out_int(out, "flows", "flows", (int64_t)relay->counts.flows);
    mn_out_int(out, "bytes", "bytes", (int64_t)relay->counts.bytes);
    mn_out_int(out, "pieces", "pieces", (int64_t)relay->counts.pieces);
    mn_out_int(out, "refused", "refused",
               (int64_t)(relay->counts.refused +
                         (relay->local ? mn_relay_local_refused(relay->local) : 0)));
    mn_out_int(out, "gone", "gone", (int64_t)relay->counts.gone);
    mn_out_end(out);
}

size_t mn_relay_flows(const struct mn_relay *relay)
{
    return relay->flows.count;
}

void mn_relay_summary(const struct mn_relay *relay, char *text, size_t size)
{
    unsigned lines = 0;

    for (const struct relayd_line *l = relay->lines; l; l = l->next)
        lines += l->up && !l->ended;
    snprintf(text, size, "%u flows, %u lines, %zu of %zu MiB in use", relay->flows.count, lines,
             (size_t)relay->pool.used * MN_POOL_UNIT >> 20, relay->pool.size >> 20);
}
