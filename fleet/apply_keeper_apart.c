/* Where the keeper is safe from what ends others: a session's end, a service's, want of memory. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleet/apply_keeper_impl.h"
#include "fleet/apply_place.h"
#include "fleet/apply_program.h"
#include "topo/base/alloc.h"

#define ASK_MS              5000
#define MOVE_MS             1000 /* for systemd to have moved it: its answer comes before that */
#define LOOK_MS             20
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu /* PROC_PID_INIT_INO of the kernel */

/* Below 0 it takes CAP_SYS_RESOURCE, which root of a container may lack: then it is as others. */
static void outlive_others(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)!dprintf(fd, "%d", MN_KEEPER_OOM);
    close(fd);
}

static void wait_for_move(const char *unit)
{
    for (int ms = 0; ms < MOVE_MS; ms += LOOK_MS) {
        char text[4096] = "";
        int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return;
        (void)!read(fd, text, sizeof text - 1);
        close(fd);
        if (strstr(text, unit))
            return;
        poll(NULL, 0, LOOK_MS);
    }
}

/* systemd knows processes by the numbers of the host's own namespace: in another one the same
 * number is another process, which would be moved instead. */
static int is_first_namespace(void)
{
    struct stat own;

    return !stat("/proc/self/ns/pid", &own) && own.st_ino == FIRST_PID_NAMESPACE;
}

/* A scope of its own: whoever is in that of a session may be ended with it (KillUserProcesses= of
 * logind.conf(5)), whoever is in that of meshnet-serve is when it is started anew. Only systemd may
 * move processes between its groups. */
static void leave_session(const char *id)
{
    char *place = mn_asprintf("%s/run/systemd/system", mn_place_root());
    char *busctl = access(place, F_OK) ? NULL : mn_program_find(mn_place_root(), "busctl");
    char unit[64], pid[16];

    if (busctl && is_first_namespace()) {
        snprintf(unit, sizeof unit, "meshnet-apply-%.8s.scope", id);
        snprintf(pid, sizeof pid, "%d", (int)getpid());
        const char *const args[] = {"busctl",
                                    "--timeout=4",
                                    "call",
                                    "org.freedesktop.systemd1",
                                    "/org/freedesktop/systemd1",
                                    "org.freedesktop.systemd1.Manager",
                                    "StartTransientUnit",
                                    "ssa(sv)a(sa(sv))",
                                    unit,
                                    "fail",
                                    "4",
                                    "Description",
                                    "s",
                                    "meshnet topo apply: undoes it unless told to keep it",
                                    "Slice",
                                    "s",
                                    "system.slice",
                                    "CollectMode",
                                    "s",
                                    "inactive-or-failed",
                                    "PIDs",
                                    "au",
                                    "1",
                                    pid,
                                    "0",
                                    NULL};
        if (!mn_program_run(busctl, args, NULL, ASK_MS, NULL, NULL))
            wait_for_move(unit);
    }
    free(busctl);
    free(place);
}

void mn_keeper_set_apart(const char *id)
{
    leave_session(id);
    outlive_others();
}
