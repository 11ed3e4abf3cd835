/* The keeper's own side: see apply_keeper_ask.c for those who speak with it. */
#include "fleet/apply_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fleet/apply_keeper_impl.h"
#include "fleet/apply_place.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"
#include "topo/base/mac.h"

#define WORD_MS  2000 /* for somebody who connects to say what he wants */
#define AGAIN_S  1    /* what could not be undone is tried again then … */
#define GIVEUP_S 600  /* … and no longer than this */

struct keeper {
    const struct mn_apply_state *state;
    struct mn_kernel *kernel;
    int lock, door, ends; /* ends: SIGTERM as a descriptor */
    double deadline;
    const char *how; /* why it is being undone; NULL: it is not */
    int files;       /* of it too */
    double giveup;
};

enum mn_err mn_keeper_undo_all(const struct mn_apply_state *state, struct mn_kernel *kernel,
                               int files, struct mn_diag *diag)
{
    struct mn_diag why = {.text = ""};
    char *said = NULL;
    enum mn_err first = MN_OK, last = MN_OK;

    if (files) {
        first = mn_changes_undo(NULL, &state->files, diag);
        if (!mn_manager_reload(state->manager, mn_place_root(), &said, NULL))
            free(said);
    }
    for (int pass = 0; pass < 2; pass++) {
        last = mn_kernel_refresh(kernel, &why);
        if (!last)
            last = mn_changes_undo(kernel, &state->kernel, &why);
    }
    if (last && !first && diag)
        *diag = why;
    return first ? first : last;
}

/* All that was made is there now, and nothing has taken it away again. */
static enum mn_err verify(struct keeper *k, struct mn_diag *diag)
{
    enum mn_err err = mn_kernel_refresh(k->kernel, diag);

    for (size_t i = 0; i < k->state->kernel.count && !err; i++) {
        const struct mn_change *c = &k->state->kernel.items[i];
        if (!mn_change_holds(k->kernel, c))
            err = mn_fail(diag, MN_ERR_FAILED,
                          "%s: %s %s was made and is not there: something else on this host "
                          "changes it",
                          c->nic[0] ? c->nic : c->what, mn_change_kind_name(c->kind),
                          c->to ? c->to : c->from);
    }
    return err;
}

static void set_outcome(const struct keeper *k, const char *how, const struct mn_diag *why)
{
    cJSON *json = cJSON_CreateObject();
    char *path;

    cJSON_AddStringToObject(json, "id", k->state->id);
    cJSON_AddStringToObject(json, "how", how);
    if (why)
        cJSON_AddStringToObject(json, "error", why->text);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (text && !mn_place_run("apply.last", &path, NULL)) {
        (void)mn_place_write(path, text, 0600, NULL);
        free(path);
    }
    cJSON_free(text);
}

/* After an error it is tried again: see wait_for_word. how of the first that wanted it stays. */
static enum mn_err undo(struct keeper *k, int files, const char *how, struct mn_diag *diag)
{
    struct mn_diag why = {.text = ""};

    if (!k->how) {
        k->how = how;
        k->giveup = mn_seconds() + GIVEUP_S;
    }
    k->files |= files;
    enum mn_err err = mn_keeper_undo_all(k->state, k->kernel, k->files, &why);
    if (!err)
        err = mn_apply_state_drop(MN_APPLY_PENDING, &why);
    if (!err)
        set_outcome(k, k->how, NULL);
    else if (mn_seconds() >= k->giveup)
        set_outcome(k, "it could not be undone", &why);
    k->deadline = mn_seconds() + AGAIN_S;
    if (err && diag)
        *diag = why;
    return err;
}

/* After an undo that ended so no other is tried. */
static int is_over(const struct keeper *k, enum mn_err err)
{
    return !err || mn_seconds() >= k->giveup;
}

/* 1: it is kept, or undone. */
static int keep(struct keeper *k, char **said, enum mn_err *result, struct mn_diag *diag)
{
    *said = NULL;
    enum mn_err err = mn_changes_make(NULL, &k->state->files, diag);
    if (!err && k->state->files.count)
        err = mn_manager_reload(k->state->manager, mn_place_root(), said, diag);
    /* Who is told may set up NICs himself. */
    if (!err)
        err = verify(k, diag);
    if (!err)
        err = mn_apply_state_keep(diag);
    *result = err;
    if (!err) {
        set_outcome(k, "kept", NULL);
        return 1;
    }
    free(*said);
    *said = NULL;
    return is_over(k, undo(k, 1, "undone: it could not be kept", NULL));
}

/* --- those who ask ---------------------------------------------------------------------------- */

static int is_allowed(int fd)
{
    struct ucred who;
    socklen_t size = sizeof who;

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
           (who.uid == 0 || who.uid == geteuid());
}

static void say(int fd, enum mn_err err, const struct mn_diag *diag, const char *text)
{
    cJSON *json = cJSON_CreateObject();

    if (err) {
        cJSON_AddNumberToObject(json, "code", err);
        cJSON_AddStringToObject(json, "error", diag->text);
    } else if (text) {
        cJSON_AddStringToObject(json, "said", text);
    }
    mn_keeper_send(fd, json);
    cJSON_Delete(json);
}

/* 1: it is over. */
static int answer(struct keeper *k, int fd, const cJSON *ask)
{
    const cJSON *word = cJSON_GetObjectItemCaseSensitive(ask, "do");
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(ask, "id");
    struct mn_diag diag = {.text = ""};
    char *said = NULL, id_text[MN_APPLY_ID] = "";
    enum mn_err err;
    int over = 0;

    if (!cJSON_IsString(word) || !cJSON_IsString(id))
        return 0;
    mn_strlcpy(id_text, id->valuestring, sizeof id_text);
    if (!mn_mac_equal(id_text, k->state->id, sizeof id_text)) {
        mn_fail(&diag, MN_ERR_NOTFOUND, "another set of changes is tried here, by %s",
                k->state->who);
        say(fd, MN_ERR_NOTFOUND, &diag, NULL);
        return 0;
    }
    if (!strcmp(word->valuestring, "keep") && k->how)
        err = mn_fail(&diag, MN_ERR_FAILED, "it is being undone");
    else if (!strcmp(word->valuestring, "keep"))
        over = keep(k, &said, &err, &diag);
    else if (!strcmp(word->valuestring, "undo"))
        over = is_over(k, err = undo(k, 0, "undone: it was asked for", &diag));
    else
        return 0;
    /* By then a new one may begin. */
    if (over)
        mn_keeper_unlock(k->lock);
    say(fd, err, &diag, said);
    free(said);
    return over;
}

static int listen_once(struct keeper *k)
{
    struct timeval bound = {.tv_sec = WORD_MS / 1000};
    int fd = accept4(k->door, NULL, NULL, SOCK_CLOEXEC), over = 0;

    if (fd < 0)
        return 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
    if (is_allowed(fd)) {
        cJSON *ask = mn_keeper_receive(fd);
        over = ask && answer(k, fd, ask);
        cJSON_Delete(ask);
    }
    close(fd);
    return over;
}

static void wait_for_word(struct keeper *k)
{
    struct signalfd_siginfo end;

    for (;;) {
        struct pollfd p[] = {{.fd = k->door, .events = POLLIN}, {.fd = k->ends, .events = POLLIN}};
        const char *how = "undone: nobody confirmed it in time";
        double left = k->deadline - mn_seconds();
        if (left > 0 && poll(p, 2, (int)(left * 1e3) + 1) <= 0)
            continue;
        if (left > 0 && !p[1].revents) {
            if (listen_once(k))
                return;
            continue;
        }
        if (left > 0) {
            (void)!read(k->ends, &end, sizeof end);
            how = "undone: its timer was asked to end";
        }
        if (is_over(k, undo(k, 0, how, NULL)))
            break;
    }
    mn_keeper_unlock(k->lock);
}

/* A session and descriptors of its own: whoever asked may go, and his terminal. */
static void come_loose(struct keeper *k, int *result)
{
    int *const keeps[] = {&k->lock, &k->door, result};
    sigset_t set;

    setsid();
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_SETMASK, &set, NULL);
    if (chdir("/")) /* no folder is held */
        set_outcome(k, "/ cannot be entered", NULL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
    /* To the end of the table, away from those to be closed. */
    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++)
        *keeps[i] = fcntl(*keeps[i], F_DUPFD_CLOEXEC, 3 + (int)i);
    int low = *result;
    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++)
        low = *keeps[i] > low ? *keeps[i] : low;
    for (int fd = 3; fd <= low; fd++)
        if (fd != k->lock && fd != k->door && fd != *result)
            close(fd);
    close_range((unsigned)low + 1, ~0u, 0);
    k->ends = signalfd(-1, &set, SFD_CLOEXEC);
}

_Noreturn void mn_keeper_run(const struct mn_apply_state *state, int lock, int door, int result)
{
    struct keeper k = {.state = state, .lock = lock, .door = door};
    struct mn_diag diag = {.text = ""};

    come_loose(&k, &result);
    mn_keeper_set_apart(state->id);
    k.deadline = mn_seconds() + state->rollback_ms / 1e3;
    enum mn_err err = mn_kernel_open(&k.kernel, &diag);
    int over = err != MN_OK;
    if (err)
        mn_apply_state_drop(MN_APPLY_PENDING, NULL); /* nothing was made */
    else
        err = mn_changes_make(k.kernel, &state->kernel, &diag);
    if (!err)
        err = verify(&k, &diag);
    if (err && !over) {
        struct mn_diag why, made = diag;
        over = is_over(&k, undo(&k, 0, "undone: it could not be made", &why));
        if (!over) /* an error that does not say that nothing stands */
            err = mn_fail(&diag, MN_ERR_FAILED, "%.400s; and undoing it failed: %.400s", made.text,
                          why.text);
    }
    if (over)
        mn_keeper_unlock(k.lock);
    say(result, err, &diag, NULL);
    close(result);
    if (!over)
        wait_for_word(&k);
    mn_kernel_close(k.kernel);
    _exit(0);
}
