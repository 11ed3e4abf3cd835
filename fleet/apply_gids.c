#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply.h"
#include "fleet/apply_check.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define LOOK_MS 100 /* sysfs tells nobody of a new GID */

static void add_missing(const struct mn_host *host, const struct mn_mesh_nic *want, char ***missing,
                        size_t *n)
{
    char text[160], buf[MN_ADDR_TEXT];

    for (size_t i = 0; i < want->n_addrs; i++) {
        struct mn_addr addr = want->addrs[i];
        const struct mn_nic *nic = mn_host_nic_by_addr(host, &addr);
        if (mn_addr_is_link_local(&addr) || !nic || nic->rdma < 0)
            continue;
        const struct mn_rdma_port *port = &host->rdma[nic->rdma];
        if (!strcmp(port->link_layer, "InfiniBand") || mn_rdma_gid_for(port, &addr))
            continue;
        addr.prefix = -1;
        snprintf(text, sizeof text, "%s port %d (%s): %s", port->device, port->port, nic->netdev,
                 mn_addr_format(&addr, buf, sizeof buf));
        *(char **)mn_grow((void **)missing, n, sizeof **missing) = mn_strdup(text);
    }
}

enum mn_err mn_gids_wait(const struct mn_mesh *mesh, int node, unsigned ms, char ***missing,
                         size_t *n_missing, struct mn_diag *diag)
{
    double deadline = mn_seconds() + ms / 1e3;
    const struct mn_mesh_node *own = &mesh->nodes[node];

    for (;;) {
        struct mn_host host;
        enum mn_err err = mn_host_read(NULL, &host, diag);
        *missing = NULL;
        *n_missing = 0;
        for (size_t i = 0; i < own->n_nics && !err; i++)
            if (own->nics[i].role != MN_ROLE_MANAGEMENT)
                add_missing(&host, &own->nics[i], missing, n_missing);
        mn_host_free(&host);
        if (err || !*n_missing || mn_seconds() >= deadline)
            return err;
        mn_texts_free(*missing, *n_missing);
        poll(NULL, 0, LOOK_MS);
    }
}
