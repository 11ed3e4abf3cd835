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

/* How many there are, or of this name; *id: of one of them. Both may be NULL. -1: not known. */
static inline int mn_tasks(const char *name, int *id)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;

    if (!tasks)
        return -1;
    for (struct dirent *task; (task = readdir(tasks));) {
        char own[64];
        if (task->d_name[0] == '.' || !mn_task_runs(task->d_name, own) ||
            (name && strcmp(own, name) != 0))
            continue;
        n++;
        if (id)
            *id = atoi(task->d_name);
    }
    closedir(tasks);
    return n;
}

/* How many there are when those that have ended are put away: `before` as soon as there are no more
 * than that, else what there are after 10 s. */
static inline int mn_tasks_left(int before)
{
    int left = mn_tasks(NULL, NULL);

    for (int i = 0; i < 10000 && left > before; i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        left = mn_tasks(NULL, NULL);
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
