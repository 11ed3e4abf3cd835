/* Starting a keeper, and speaking with it: a socket in /run/meshnet, a message each way. */
#include "fleet/apply_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fleet/apply_keeper_impl.h"
#include "fleet/apply_place.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define MESSAGE_MAX 8192
#define ANSWER_S    60 /* for files to be written, a manager to be told, all to be undone */

void mn_keeper_send(int fd, const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);

    if (text && strlen(text) < MESSAGE_MAX)
        (void)!send(fd, text, strlen(text), MSG_NOSIGNAL); /* who has gone hears nothing */
    cJSON_free(text);
}

cJSON *mn_keeper_receive(int fd)
{
    char text[MESSAGE_MAX + 1];
    ssize_t n;

    do
        n = recv(fd, text, MESSAGE_MAX, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return NULL;
    text[n] = '\0';
    return cJSON_Parse(text);
}

/* --- the lock --------------------------------------------------------------------------------- */

/* The holder's own words, which others show. */
static void write_holder(int fd, const struct mn_apply_state *state)
{
    char line[256], at[32];
    time_t since = (time_t)state->since;
    struct tm tm;

    strftime(at, sizeof at, "%H:%M:%S", localtime_r(&since, &tm));
    int n = snprintf(line, sizeof line, "%s, since %s; undone at the latest %u s after that",
                     state->who, at, state->rollback_ms / 1000);
    if (ftruncate(fd, 0) || pwrite(fd, line, (size_t)n, 0) < 0)
        return; /* for people alone */
}

/* Of the open file, which the keeper shares by fork: it ends with the last that has it. */
static int lock_op(int fd, int op, short type, struct flock *at)
{
    *at = (struct flock){.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, op, at);
}

static void read_holder(int fd, char *text, size_t size)
{
    ssize_t n = pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    mn_clean(text);
}

/* MN_ERR_EXISTS: somebody has it. *fd -1 after an error. */
static enum mn_err take_lock(int *fd, char *holder, size_t size, struct mn_diag *diag)
{
    char *path;
    struct flock at;
    enum mn_err err = mn_place_run("apply.lock", &path, diag);

    *fd = -1;
    if (err)
        return err;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* Who may open it may lock it: one of an earlier version is closed to others too. */
    if (*fd < 0 || fchmod(*fd, 0600)) {
        err = mn_fail_errno(diag, "%s: opening it", path);
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
    } else if (lock_op(*fd, F_OFD_SETLK, F_WRLCK, &at)) {
        read_holder(*fd, holder, size);
        err = mn_fail(diag, MN_ERR_EXISTS,
                      "another apply is under way on this host: by %s; nothing was changed",
                      *holder ? holder : "somebody");
        close(*fd);
        *fd = -1;
    }
    free(path);
    return err;
}

static int door_address(struct sockaddr_un *to, struct mn_diag *diag)
{
    char *path;

    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (mn_place_run("apply.sock", &path, diag))
        return 0;
    int fits = mn_strlcpy(to->sun_path, path, sizeof to->sun_path);
    if (!fits)
        mn_fail(diag, MN_ERR_CONFIG, "%s: too long for a socket's name", path);
    free(path);
    return fits;
}

void mn_keeper_unlock(int lock)
{
    struct sockaddr_un at;
    struct flock all;

    if (door_address(&at, NULL))
        unlink(at.sun_path);
    (void)!ftruncate(lock, 0); /* who it was, for people alone */
    lock_op(lock, F_OFD_SETLK, F_UNLCK, &all);
}

static int open_door(struct mn_diag *diag)
{
    struct sockaddr_un at;

    if (!door_address(&at, diag))
        return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    mode_t old = umask(077);
    unlink(at.sun_path); /* of one that was killed: the lock is this process's */
    int failed = fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4);
    umask(old);
    if (!failed)
        return fd;
    mn_fail_errno(diag, "%s: listening there", at.sun_path);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* --- starting ----------------------------------------------------------------------------------
 */

static enum mn_err take_answer(int fd, char **said, struct mn_diag *diag)
{
    cJSON *json = mn_keeper_receive(fd);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(json, "error");
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(json, "code");
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(json, "said");
    enum mn_err err = MN_OK;

    if (!json)
        err = mn_fail(diag, MN_ERR_FAILED, "the process that keeps the changes gave no answer");
    else if (cJSON_IsString(error))
        err = mn_fail(diag,
                      cJSON_IsNumber(code) && code->valueint > 0 && code->valueint < MN_ERR_COUNT
                          ? (enum mn_err)code->valueint
                          : MN_ERR_FAILED,
                      "%.1000s", error->valuestring);
    else if (said && cJSON_IsString(text))
        *said = mn_strdup(text->valuestring);
    cJSON_Delete(json);
    return err;
}

static enum mn_err run_apart(const struct mn_apply_state *state, int lock, int door,
                             struct mn_diag *diag)
{
    struct timeval bound = {.tv_sec = ANSWER_S};
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return mn_fail_errno(diag, "a socket for the process that keeps the changes");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        mn_keeper_run(state, lock, door, ends[1]);
    close(ends[1]);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    enum mn_err err = pid < 0 ? mn_fail_errno(diag, "a process that keeps the changes")
                              : take_answer(ends[0], NULL, diag);
    close(ends[0]);
    return err;
}

enum mn_err mn_keeper_start(const struct mn_apply_state *state, struct mn_diag *diag)
{
    struct mn_apply_state old;
    char holder[256];
    int lock, door = -1;
    enum mn_err err = take_lock(&lock, holder, sizeof holder, diag);

    if (err)
        return err;
    err = mn_apply_state_read(MN_APPLY_PENDING, &old, diag);
    if (!err)
        err =
            mn_fail(diag, MN_ERR_AGAIN,
                    "an unconfirmed change by %s stands, whose timer is gone; nothing was changed",
                    old.who);
    else if (err == MN_ERR_NOTFOUND)
        err = MN_OK;
    mn_apply_state_free(&old);
    if (!err) {
        write_holder(lock, state);
        door = open_door(diag);
        err = door < 0 ? MN_ERR_SYS : mn_apply_state_write(MN_APPLY_PENDING, state, diag);
    }
    if (!err)
        err = run_apart(state, lock, door, diag);
    if (door >= 0)
        close(door);
    close(lock); /* the keeper has it, by the same open file */
    return err;
}

/* --- undoing without a keeper ------------------------------------------------------------------
 */

static enum mn_err undo_files_too(const struct mn_apply_state *state, struct mn_diag *diag)
{
    struct mn_kernel *kernel;
    struct mn_diag why;
    enum mn_err err = mn_kernel_open(&kernel, diag);

    if (!err)
        err = mn_keeper_undo_all(state, kernel, 1, diag);
    else
        (void)mn_changes_undo(NULL, &state->files, &why); /* that much; the error is the first */
    mn_kernel_close(kernel);
    return err;
}

/* --- asking ------------------------------------------------------------------------------------
 */

static enum mn_err ask(const char *word, const char *id, char **said, struct mn_diag *diag)
{
    struct timeval bound = {.tv_sec = ANSWER_S};
    struct sockaddr_un at;
    char text[160];

    if (!door_address(&at, diag))
        return MN_ERR_CONFIG;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return mn_fail_errno(diag, "a socket");
    if (connect(fd, (struct sockaddr *)&at, sizeof at)) {
        close(fd);
        return mn_fail(diag, MN_ERR_NOTFOUND, "nothing is tried here: %s",
                       mn_keeper_outcome(id, text, sizeof text) ? text
                                                                : "it ended, or never began");
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "do", word);
    cJSON_AddStringToObject(json, "id", id);
    mn_keeper_send(fd, json);
    cJSON_Delete(json);
    enum mn_err err = take_answer(fd, said, diag);
    close(fd);
    return err;
}

enum mn_err mn_keeper_keep(const char *id, char **said, struct mn_diag *diag)
{
    *said = NULL;
    return ask("keep", id, said, diag);
}

/* It was kept on this host, and could not be on another. */
static enum mn_err undo_kept(const char *id, struct mn_diag *diag)
{
    struct mn_apply_state kept;
    char holder[256];
    int lock;
    enum mn_err err = mn_apply_state_read(MN_APPLY_KEPT, &kept, NULL);

    if (err || strcmp(kept.id, id) != 0) {
        mn_apply_state_free(&kept);
        return MN_ERR_NOTFOUND; /* explained already */
    }
    err = take_lock(&lock, holder, sizeof holder, diag);
    if (!err)
        err = undo_files_too(&kept, diag);
    if (!err)
        err = mn_apply_state_drop(MN_APPLY_KEPT, diag);
    mn_apply_state_free(&kept);
    if (lock >= 0)
        close(lock);
    return err;
}

enum mn_err mn_keeper_undo(const char *id, struct mn_diag *diag)
{
    enum mn_err err = ask("undo", id, NULL, diag);
    struct mn_apply_state state;

    if (err != MN_ERR_NOTFOUND)
        return err;
    enum mn_err left = mn_apply_state_read(MN_APPLY_PENDING, &state, NULL);
    if (!left && !strcmp(state.id, id))
        err = mn_keeper_recover(diag);
    else
        err = undo_kept(id, diag);
    mn_apply_state_free(&state);
    return err;
}

/* --- what stands --------------------------------------------------------------------------------
 */

enum mn_keeper_stand mn_keeper_stand(char *text, size_t size)
{
    char *path = mn_asprintf("%s/run/meshnet/apply.lock", mn_place_root());
    struct mn_apply_state state;
    struct flock at;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int held = fd >= 0 && !lock_op(fd, F_OFD_GETLK, F_WRLCK, &at) && at.l_type != F_UNLCK;

    text[0] = '\0';
    if (held)
        read_holder(fd, text, size);
    if (fd >= 0)
        close(fd);
    free(path);
    if (held)
        return MN_STAND_TRIED;
    enum mn_err err = mn_apply_state_read(MN_APPLY_PENDING, &state, NULL);
    if (!err)
        snprintf(text, size, "by %s; its timer is gone (killed, or the host was started anew)",
                 state.who);
    mn_apply_state_free(&state);
    return err ? MN_STAND_NONE : MN_STAND_ORPHAN;
}

static int boot_is(const char *boot)
{
    struct mn_apply_state now = {.id = ""};

    mn_apply_state_stamp(&now);
    return !strcmp(now.boot, boot);
}

/* After a boot the kernel's part is gone by itself, unless files were written before it. */
static enum mn_err undo_orphan(const struct mn_apply_state *state, struct mn_diag *diag)
{
    int written = 0;

    for (size_t i = 0; i < state->files.count; i++)
        written |= mn_change_holds(NULL, &state->files.items[i]);
    return written || boot_is(state->boot) ? undo_files_too(state, diag) : MN_OK;
}

enum mn_err mn_keeper_recover(struct mn_diag *diag)
{
    struct mn_apply_state state;
    char holder[256];
    int lock;
    enum mn_err err = take_lock(&lock, holder, sizeof holder, diag);

    if (err)
        return err;
    err = mn_apply_state_read(MN_APPLY_PENDING, &state, diag);
    if (!err)
        err = undo_orphan(&state, diag);
    if (!err)
        err = mn_apply_state_drop(MN_APPLY_PENDING, diag);
    mn_apply_state_free(&state);
    close(lock);
    return err == MN_ERR_NOTFOUND ? MN_OK : err;
}

int mn_keeper_outcome(const char *id, char *text, size_t size)
{
    char *path = mn_asprintf("%s/run/meshnet/apply.last", mn_place_root()), *file;
    unsigned mode;
    int known = 0;

    if (!mn_place_read(path, &file, &mode, NULL) && file) {
        cJSON *json = cJSON_Parse(file);
        const cJSON *of = cJSON_GetObjectItemCaseSensitive(json, "id");
        const cJSON *how = cJSON_GetObjectItemCaseSensitive(json, "how");
        const cJSON *error = cJSON_GetObjectItemCaseSensitive(json, "error");
        known = cJSON_IsString(of) && !strcmp(of->valuestring, id) && cJSON_IsString(how);
        if (known)
            snprintf(text, size, "%s%s%s", how->valuestring, cJSON_IsString(error) ? ": " : "",
                     cJSON_IsString(error) ? error->valuestring : "");
        cJSON_Delete(json);
    }
    free(file);
    free(path);
    return known;
}
