#include "cli/pages.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topo/base/width.h"

#define WIDEST 100 /* lines beyond are hard to read */

const char *mn_page_short(const struct mn_page_source *page)
{
    size_t own = strlen("meshnet");

    return page->name[own] ? page->name + own + 1 : page->name;
}

const struct mn_page_source *mn_page_find(const char *topic)
{
    for (const struct mn_page_source *page = mn_pages; page->name; page++)
        if (!strcmp(page->name, topic) || !strcmp(mn_page_short(page), topic))
            return page;
    return NULL;
}

/* 1 when man(1) showed it. Images of Ubuntu without manuals put something in its place that shows
 * none, and keep the real one under another name. */
static int show_by_man(const char *text)
{
    int ends[2], status = 0;

    if (!isatty(STDOUT_FILENO) || access("/usr/bin/man.REAL", F_OK) == 0 || pipe(ends))
        return 0;
    pid_t pid = fork();
    if (!pid) {
        signal(SIGPIPE, SIG_DFL);
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("man", "man", "-l", "-", (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    for (size_t left = strlen(text); pid > 0 && left;) {
        ssize_t n = write(ends[1], text, left);
        if (n <= 0)
            break;
        text += n;
        left -= (size_t)n;
    }
    close(ends[1]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

void mn_page_show(const struct mn_page_source *page)
{
    int columns = mn_term_columns(stdout);

    fflush(stdout);
    if (!show_by_man(page->text))
        mn_roff_write(page->text, columns > 0 && columns < WIDEST ? columns : WIDEST, stdout);
}
