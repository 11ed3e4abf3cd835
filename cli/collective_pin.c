#include "cli/bench_collective.h"
#include "topo/cpu.h"

enum mn_err mn_collective_pin(const struct mn_collective_session *s, const struct mn_group *group,
                              const char *pci_path, struct mn_diag *diag)
{
    int hosts[MN_GROUP_RANKS], rank = mn_group_rank(group), part = 0, parts = 0;

    mn_group_hosts(group, hosts);
    for (int r = 0; r < mn_group_size(group); r++) {
        part += r < rank && hosts[r] == hosts[rank];
        parts += hosts[r] == hosts[rank];
    }
    return mn_cpu_pin(s->options->pin, pci_path, part, parts, diag);
}
