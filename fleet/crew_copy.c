/* A host without this meshnet gets a copy. The ssh that brings it stays, and the shell at its other
 * end removes the copy when that ssh's input ends, which it does however this process ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "fleet/build.h"
#include "fleet/crew_ssh_impl.h"
#include "fleet/own_files.h"
#include "topo/base/alloc.h"

#define COPY_MS 180000
#define END_MS  10000

/* Takes the tar file of that many bytes, with not one byte more: what is behind it is the wait for
 * the end. A folder on a file system that runs no programs is passed over: an empty file with the
 * right is a program to a shell. Where the host is gone without a word, the line now and then is
 * what its ssh server notices it by. $m begins each line that is meant for here. No quote,
 * backslash or exclamation mark for other shells. */
static const char *const script =
    "umask 077; d=; "
    "bye() { cd /; [ -z \"$d\" ] || rm -rf -- \"$d\"; }; trap bye EXIT; trap \"exit 1\" HUP INT "
    "PIPE TERM; "
    "for t in \"${TMPDIR:-/tmp}\" /var/tmp \"$HOME\" /dev/shm; do "
    "d=$(mktemp -d \"$t/meshnet.XXXXXXXXXX\" 2>/dev/null) || { d=; continue; }; "
    ": >\"$d/x\"; chmod 700 \"$d/x\"; \"$d/x\" 2>/dev/null && break; rm -rf -- \"$d\"; d=; done; "
    "[ -n \"$d\" ] || { echo \"$m none there\"; exit 0; }; rm -f \"$d/x\"; "
    "head -c \"$0\" | tar -xf - -C \"$d\" || exit 1; "
    "a=$(\"$d/meshnet\" node about </dev/null 2>&1) || { echo \"$m unfit $a\"; exit 0; }; "
    "echo \"$m ready $d/meshnet\"; "
    "( trap - EXIT; s=; off() { kill \"$s\"; exit; }; trap off TERM; "
    "while :; do sleep 20 </dev/null >/dev/null 2>&1 & s=$!; wait \"$s\"; echo || exit; done ) "
    "2>/dev/null & "
    "cat >/dev/null; kill $!";

struct copy {
    struct mn_crew_host *host;
    const char *script;
    char size[24];
};

static int bring(void *ctx)
{
    struct copy *c = ctx;

    return mn_crew_ssh_become(c->host, c->script, c->size);
}

/* A whole line of it has the verdict. */
static int has_said(const void *ctx, const char *out)
{
    const char *mark = ((const struct copy *)ctx)->host->crew->mark;

    for (const char *at = out, *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
        if (!strncmp(at, mark, strlen(mark)))
            return 1;
    return 0;
}

/* Of another architecture nothing can be hoped for. lack: "aarch64 glibc 2.39". */
static int fits(struct mn_crew_host *host, const char *lack)
{
    struct utsname own;
    size_t length = strcspn(lack, " ");

    if (uname(&own))
        return 0;
    if (strlen(own.machine) == length && !strncmp(own.machine, lack, length))
        return 1;
    mn_crew_host_fail(host, MN_ERR_CONFIG,
                      "it has no meshnet of this build, and cannot take a copy: it is %.*s, this "
                      "host is %s. Build this version of meshnet there and install it",
                      (int)length, lack, own.machine);
    return 0;
}

static void take(struct mn_crew_host *host, const char *lack)
{
    struct mn_errand *e = &host->keeper;
    char build[MN_BUILD_TEXT];
    char *ready = e->out ? mn_crew_line(host, e->out, "ready") : NULL;
    char *unfit = e->out && !ready ? mn_crew_line(host, e->out, "unfit") : NULL;
    char *none = e->out && !ready && !unfit ? mn_crew_line(host, e->out, "none") : NULL;

    if (unfit)
        mn_crew_host_fail(
            host, MN_ERR_CONFIG,
            "it has no meshnet of this build, and this host's (%s) does not run there "
            "(%s): %.300s. Build this version of meshnet there and install it",
            mn_build_libc(), lack, unfit);
    else if (none)
        mn_crew_host_fail(host, MN_ERR_CONFIG,
                          "it has no meshnet of this build (%s), and takes no copy: neither /tmp, "
                          "/var/tmp, the home folder nor /dev/shm can be written to and run "
                          "programs. Install this version of meshnet there",
                          mn_build_id(build));
    else if (e->end != MN_ERRAND_SPOKE || !ready)
        mn_crew_not_reached(host, e);
    else if (mn_crew_take_program(host, ready)) {
        host->copied = 1;
        mn_crew_say(host, "has a copy of this meshnet until the end");
    }
}

/* Only when some host needs them: errors are those hosts'. */
static int own_files(struct mn_crew *crew, char *const *lacks, char **tar, size_t *size)
{
    struct mn_diag diag = {.text = ""};
    enum mn_err err = mn_own_files(tar, size, &diag);

    for (size_t i = 0; i < crew->n && err; i++)
        if (lacks[i])
            mn_crew_host_fail(&crew->hosts[i], err, "a copy of this meshnet: %s", diag.text);
    return !err;
}

void mn_crew_copy(struct mn_crew *crew, char *const *lacks)
{
    struct mn_errand *errands = mn_zalloc(crew->n * sizeof *errands);
    struct copy *copies = mn_zalloc(crew->n * sizeof *copies);
    char *marked = mn_asprintf("m=%s; %s", crew->mark, script), *tar = NULL;
    size_t size = 0;
    int some = 0;

    for (size_t i = 0; i < crew->n; i++)
        some += lacks[i] && fits(&crew->hosts[i], lacks[i]);
    if (some && own_files(crew, lacks, &tar, &size)) {
        for (size_t i = 0; i < crew->n; i++) {
            if (!lacks[i] || crew->hosts[i].err)
                continue;
            copies[i].host = &crew->hosts[i];
            copies[i].script = marked;
            snprintf(copies[i].size, sizeof copies[i].size, "%zu", size);
            errands[i] = (struct mn_errand){.body = bring,
                                            .ctx = &copies[i],
                                            .text = tar,
                                            .size = size,
                                            .enough = has_said,
                                            .ms = crew->plan.connect_ms + COPY_MS};
        }
        mn_errands_run(errands, crew->n, crew->plan.stop);
        for (size_t i = 0; i < crew->n; i++) {
            if (!errands[i].body)
                continue;
            mn_errand_free(&crew->hosts[i].keeper);
            crew->hosts[i].keeper = errands[i];
            take(&crew->hosts[i], lacks[i]);
        }
    }
    free(tar);
    free(marked);
    free(copies);
    free(errands);
}

void mn_crew_copies_end(struct mn_crew *crew)
{
    struct mn_errand *keepers = mn_zalloc(crew->n * sizeof *keepers);

    for (size_t i = 0; i < crew->n; i++)
        keepers[i] = crew->hosts[i].keeper;
    mn_errands_end(keepers, crew->n, END_MS);
    for (size_t i = 0; i < crew->n; i++)
        mn_errand_free(&keepers[i]);
    free(keepers);
}
