/* What TCP sent and lost on each NIC, by the sockets of this process: whichever plugin they are of,
 * and nothing of what else the host does. */
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench/p2p/pump.h"

/* Segments of data that went out, and those sent again because they were lost: a receiver tells of
 * each one that it had already (RFC 2883), which was sent again for nothing. 0: no TCP connection.
 */
static int read_socket(int fd, struct mn_addr *own, uint64_t *packets, uint64_t *lost)
{
    struct tcp_info info = {0};
    struct sockaddr_storage ss;
    socklen_t length = sizeof ss, info_length = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_length) ||
        info_length < offsetof(struct tcp_info, tcpi_dsack_dups) + sizeof info.tcpi_dsack_dups ||
        getsockname(fd, (struct sockaddr *)&ss, &length) ||
        mn_addr_from_sockaddr((const struct sockaddr *)&ss, own) < 0)
        return 0;
    *packets = info.tcpi_data_segs_out;
    *lost = info.tcpi_total_retrans > info.tcpi_dsack_dups
                ? info.tcpi_total_retrans - info.tcpi_dsack_dups
                : 0;
    return 1;
}

static const char *netdev_at(const struct mn_host *host, const struct mn_addr *addr)
{
    for (size_t i = 0; i < host->n_nics; i++)
        for (size_t k = 0; k < host->nics[i].n_addrs; k++)
            if (mn_addr_equal(&host->nics[i].addrs[k], addr))
                return host->nics[i].netdev;
    return "";
}

void mn_p2p_tcp_losses(const struct mn_host *host, struct mn_p2p_nic *nics, int count)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        struct mn_addr own;
        uint64_t packets, lost;
        if (*end || end == entry->d_name || !read_socket((int)fd, &own, &packets, &lost))
            continue;
        const char *netdev = netdev_at(host, &own);
        for (int i = 0; i < count; i++)
            if (!strcmp(nics[i].netdev, netdev)) {
                nics[i].tcp_packets += packets;
                nics[i].tcp_lost += lost;
            }
    }
    if (dir)
        closedir(dir);
}
