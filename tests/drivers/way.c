/* What the ssh of tests/topo-apply.bats ends in: it goes into a node's namespace, if there is a
 * way to the node's management address; the kernel there refuses the connection. One program,
 * because a shell with nsenter and timeout would start six for each.
 *
 *   way NAMESPACE ADDRESS NODE_NAMESPACE COMMAND...
 *
 * 255, as ssh's, without a way. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int enter(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -1 : setns(fd, CLONE_NEWNET);

    if (rc)
        perror(path);
    if (fd >= 0)
        close(fd);
    return rc;
}

int main(int argc, char **argv)
{
    const struct timeval limit = {.tv_sec = 2};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1)};
    int fd;

    if (argc < 5 || inet_pton(AF_INET, argv[2], &to.sin_addr) != 1 || enter(argv[1]))
        return 255;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit))
        return 255;
    if (!connect(fd, (const struct sockaddr *)&to, sizeof to) || errno != ECONNREFUSED) {
        fprintf(stderr, "no way to %s: %s\n", getenv("MESHNET_NODE"), strerror(errno));
        return 255;
    }
    close(fd);
    if (!enter(argv[3]))
        execvp(argv[4], argv + 4);
    return 255;
}
