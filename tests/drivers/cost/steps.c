/* Counts instructions where the processor's counters are out of reach, as in most virtual machines:
 * the parent steps its child through a call and sees in which library each instruction is. Slow, so
 * for a few calls only, and exact. Verbs are not stepped: the child runs until they return. */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/drivers/cost/cost.h"

#define MAX_CHILDREN 2
#define MAX_RANGES   64

/* Code elsewhere, in libc for one, belongs to whoever called it. */
enum owner { DRIVER, PLUGIN, VERBS, OTHER };

struct range {
    uint64_t begin, end;
    enum owner owner;
};

struct tracee {
    pid_t pid;
    struct cost_steps *steps;
    struct range ranges[MAX_RANGES];
    int n_ranges, stepping, ended;
    enum owner owner;
    uint64_t back; /* where verbs return to, with a trap in place of what is there; or 0 */
    long text;     /* what is there */
};

#ifdef __x86_64__
#define PC(regs)   ((regs)->rip)
#define TRAP(text) (((text) & ~0xffL) | 0xcc)
#else
#define PC(regs)   ((regs)->pc)
#define TRAP(text) (((text) & ~0xffffffffL) | 0xd4200000L)
#endif

int cost_steps_allow(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

void cost_steps_begin(struct cost_steps *steps)
{
    steps->plugin = 0;
    steps->inside = 1;
    raise(SIGTRAP);
}

void cost_steps_end(struct cost_steps *steps)
{
    steps->inside = 0;
}

static enum owner owner_of(const char *path, const char *library)
{
    const char *name = strrchr(path, '/'), *wanted = strrchr(library, '/');

    name = name ? name + 1 : path;
    wanted = wanted ? wanted + 1 : library;
    if (!strcmp(name, wanted))
        return PLUGIN;
    if (!strncmp(name, "libibverbs.so", 13))
        return VERBS;
    return strncmp(name, "cost", 4) ? OTHER : DRIVER;
}

static void read_ranges(struct tracee *t, const char *library)
{
    char name[64], line[1024], path[512];
    unsigned long long begin, end;

    snprintf(name, sizeof name, "/proc/%d/maps", (int)t->pid);
    FILE *file = fopen(name, "re");
    while (file && t->n_ranges < MAX_RANGES && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%llx-%llx %*2cx%*c %*s %*s %*s %511s", &begin, &end, path) != 3)
            continue;
        enum owner owner = owner_of(path, library);
        if (owner != OTHER)
            t->ranges[t->n_ranges++] = (struct range){begin, end, owner};
    }
    if (file)
        fclose(file);
}

static struct iovec all_of(struct user_regs_struct *regs)
{
    return (struct iovec){regs, sizeof *regs};
}

/* At the first instruction of a function: the child runs until it returns. */
static int run_to_return(struct tracee *t, const struct user_regs_struct *regs)
{
#ifdef __x86_64__
    t->back = (uint64_t)ptrace(PTRACE_PEEKDATA, t->pid, (void *)regs->rsp, NULL);
#else
    t->back = regs->regs[30];
#endif
    t->text = ptrace(PTRACE_PEEKTEXT, t->pid, (void *)t->back, NULL);
    ptrace(PTRACE_POKETEXT, t->pid, (void *)t->back, (void *)TRAP(t->text));
    return PTRACE_CONT;
}

static void returned(struct tracee *t, struct user_regs_struct *regs)
{
    struct iovec io = all_of(regs);

    ptrace(PTRACE_POKETEXT, t->pid, (void *)t->back, (void *)t->text);
    PC(regs) = t->back;
    ptrace(PTRACE_SETREGSET, t->pid, (void *)NT_PRSTATUS, &io);
    t->back = 0;
}

/* The child has stopped at a trap: its own, after a step, or back from verbs. Returns what to do
 * next. */
static int trapped(struct tracee *t, const char *library)
{
    struct user_regs_struct regs = {0};
    struct iovec io = all_of(&regs);

    if (!t->steps->inside) {
        t->stepping = 0;
        return PTRACE_CONT;
    }
    if (!t->n_ranges)
        read_ranges(t, library);
    if (!t->stepping) {
        t->stepping = 1;
        t->owner = DRIVER;
        return PTRACE_SINGLESTEP;
    }
    ptrace(PTRACE_GETREGSET, t->pid, (void *)NT_PRSTATUS, &io);
    if (t->back)
        returned(t, &regs);
    for (int i = 0; i < t->n_ranges; i++)
        if (PC(&regs) >= t->ranges[i].begin && PC(&regs) < t->ranges[i].end)
            t->owner = t->ranges[i].owner;
    if (t->owner == VERBS)
        return run_to_return(t, &regs);
    t->steps->plugin += t->owner == PLUGIN;
    return PTRACE_SINGLESTEP;
}

static struct tracee *find(struct tracee *tracees, int n, pid_t pid)
{
    for (int i = 0; i < n; i++)
        if (tracees[i].pid == pid)
            return &tracees[i];
    return NULL;
}

int cost_steps_run(const pid_t *children, struct cost_steps *const *steps, int n,
                   const char *library)
{
    static struct tracee tracees[MAX_CHILDREN];
    int left = n, good = 1, status;

    for (int i = 0; i < n; i++)
        tracees[i] = (struct tracee){.pid = children[i], .steps = steps[i]};
    while (left) {
        pid_t pid = waitpid(-1, &status, __WALL);
        struct tracee *t = find(tracees, n, pid);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return 0;
        if (!t)
            continue;
        if (WIFSTOPPED(status)) {
            int trap = WSTOPSIG(status) == SIGTRAP;
            int how = t->stepping && !t->back ? PTRACE_SINGLESTEP : PTRACE_CONT;
            if (trap)
                how = trapped(t, library);
            ptrace(how, pid, NULL, (void *)(long)(trap ? 0 : WSTOPSIG(status)));
            continue;
        }
        left--;
        t->ended = 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        good = 0;
        for (int i = 0; i < n; i++)
            if (!tracees[i].ended)
                kill(tracees[i].pid, SIGKILL);
    }
    return good;
}
