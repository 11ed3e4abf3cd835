/* What one host is: connections between processes of one host run over equal addresses. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/config.h"
#include "topo/base/log.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* asm-generic */
#endif

/* Linux 5.14 tells it without /proc, which a container may have masked; 0 = it cannot. */
static uint64_t namespace_cookie(void)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size))
        cookie = 0;
    close(fd);
    return cookie;
}

static uint64_t namespace_inode(const char *proc)
{
    char path[256];
    struct stat ns;

    snprintf(path, sizeof path, "%s/self/ns/net", proc);
    return stat(path, &ns) ? 0 : (uint64_t)ns.st_ino;
}

/* 0: not readable, or empty. */
static int read_boot_id(const char *proc, char *text, size_t size)
{
    char path[256];

    snprintf(path, sizeof path, "%s/sys/kernel/random/boot_id", proc);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    return text[0] != 0;
}

uint64_t mn_node_id(const char *proc, const char *hostname)
{
    static const uint8_t key[MN_KEY_SIZE] = "meshnet node id";
    char boot[64], text[MN_NAME_MAX + 128];
    uint64_t space = namespace_cookie();

    if (!space)
        space = namespace_inode(proc);
    if (read_boot_id(proc, boot, sizeof boot)) {
        snprintf(text, sizeof text, "boot %s|%" PRIu64, boot, space);
    } else {
        MN_INFO("%s/sys/kernel/random/boot_id cannot be read: the host name (%s) says which "
                "processes are on this host; containers need the same",
                proc, hostname);
        snprintf(text, sizeof text, "name %s|%" PRIu64, hostname, space);
    }
    return mn_mac64(key, text, strlen(text));
}
