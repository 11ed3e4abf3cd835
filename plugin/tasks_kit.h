/* The threads and descriptors of this process, for tests. A thread that was joined may still be
 * listed while the kernel puts it away (PF_EXITING in its flags, proc(5)): it runs nothing any more
 * and is left out. Under qemu's emulation of a process it may still run, qemu's own code. */
#ifndef MN_TASKS_KIT_H
#define MN_TASKS_KIT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MN_TASK_EXITING 0x4

/* 0: it is gone, or about to be. */
static inline int mn_task_runs(const char *id, char name[64])
{
    char path[300], line[512] = "";
    unsigned flags = MN_TASK_EXITING;

    snprintf(path, sizeof path, "/proc/self/task/%s/stat", id);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const char *open = fgets(line, sizeof line, file) ? strchr(line, '(') : NULL;
    const char *close = open ? strrchr(line, ')') : NULL;
    fclose(file);
    if (!close || sscanf(close + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
        return 0;
    snprintf(name, 64, "%.*s", (int)(close - open - 1), open + 1);
    return !(flags & MN_TASK_EXITING);
}

/* How many there are whose name begins so; *id, where not NULL: of one of them. -1: not known. */
static inline int mn_tasks(const char *prefix, int *id)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;

    if (!tasks)
        return -1;
    for (struct dirent *task; (task = readdir(tasks));) {
        char name[64];
        if (task->d_name[0] == '.' || !mn_task_runs(task->d_name, name) ||
            strncmp(name, prefix, strlen(prefix)) != 0)
            continue;
        n++;
        if (id)
            *id = atoi(task->d_name);
    }
    closedir(tasks);
    return n;
}

/* Those that are left when all that have ended are put away: 0 as soon as there are none, else how
 * many there are after 30 s. A number from before is nothing to compare with: it may hold one that
 * was joined. */
static inline int mn_tasks_left(const char *prefix)
{
    int left = mn_tasks(prefix, NULL);

    for (int i = 0; i < 30000 && left > 0; i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        left = mn_tasks(prefix, NULL);
    }
    return left;
}

/* How many entries their folder has: three more than were open before. */
static inline int mn_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    if (!dir)
        abort();
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

#endif
