#include "bench/trace/replay.h"

enum mn_err mn_replay_play(struct mn_replay_rank *rank, struct mn_replay_report *reports,
                           struct mn_diag *diag)
{
    struct mn_plugin *plugin = NULL;
    struct mn_group *group = NULL;
    struct mn_trace trace = {.n = 0};
    enum mn_err err = mn_group_join(rank->plan, &group, diag);

    rank->joined = !err;
    if (!err)
        err = mn_trace_read(rank->trace, &trace, diag);
    if (!err)
        err = mn_plugin_open(rank->plugin, rank->abi, &plugin, diag);
    if (!err) {
        rank->info = *mn_plugin_info(plugin);
        err = mn_group_use(group, plugin, rank->device, diag);
    }
    if (!err) {
        struct mn_replay_plan replay = {.trace = &trace,
                                        .plugin = plugin,
                                        .device = rank->device,
                                        .timed = rank->timed};
        err = mn_replay(group, &replay, reports, diag);
    }
    if (!err)
        err = mn_group_barrier(group, diag);
    if (err && group)
        mn_group_fail(group, err, diag);
    rank->told = group && mn_group_told(group);
    mn_group_leave(group);
    if (plugin)
        mn_plugin_close(plugin);
    mn_trace_free(&trace);
    return err;
}
