/* One error list for every room, and the text that explains an error.
 *
 * Whoever detects an error explains it, once, with mn_fail(); callers pass the code on and do not
 * explain again. A text names what was seen, what was expected and what to do. */
#ifndef MN_BASE_ERR_H
#define MN_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

/* X(name, short text). The order is stable: codes travel in handshake frames. */
#define MN_ERR_LIST(X)                                                                             \
    X(OK, "success")                                                                               \
    X(USAGE, "wrong usage")                                                                        \
    X(CONFIG, "wrong configuration")                                                               \
    X(NOMEM, "out of memory")                                                                      \
    X(SYS, "system call failed")                                                                   \
    X(NOTFOUND, "not found")                                                                       \
    X(EXISTS, "already exists")                                                                    \
    X(UNSUPPORTED, "not supported")                                                                \
    X(AGAIN, "not ready yet")                                                                      \
    X(TIMEOUT, "timed out")                                                                        \
    X(PEER_DEAD, "peer is gone")                                                                   \
    X(PEER_SLOW, "peer is slow")                                                                   \
    X(LINK_DEAD, "link is silent")                                                                 \
    X(PROTO, "protocol violation")                                                                 \
    X(AUTH, "authentication failed")                                                               \
    X(TOO_LONG, "message longer than the posted receive")                                          \
    X(CLOSED, "closed")                                                                            \
    X(FAILED, "measured and failed")                                                               \
    X(SKIPPED, "skipped")                                                                          \
    X(INTERNAL, "internal error")

enum mn_err {
#define X(name, text) MN_ERR_##name,
    MN_ERR_LIST(X)
#undef X
        MN_ERR_COUNT
};
#define MN_OK MN_ERR_OK

/* "PEER_DEAD" and "peer is gone"; "?" for a code outside the list. */
const char *mn_err_name(enum mn_err err);
const char *mn_err_text(enum mn_err err);

/* Process exit code of the architecture: 0 good, 1 measured and failed (and every run-time
 * failure), 2 usage or configuration, 77 skipped. */
int mn_err_exit_code(enum mn_err err);

/* The explanation of the last error of a call. Caller-owned, plain value, no clean-up. */
struct mn_diag {
    enum mn_err code;
    char text[1024];
};

/* Sets *diag (may be NULL) and returns code, so that "return mn_fail(diag, MN_ERR_CONFIG, …)" reads
 * well. A text too long is cut at the end, and what is no text for a terminal becomes '?'. */
enum mn_err mn_fail(struct mn_diag *diag, enum mn_err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As mn_fail() with MN_ERR_SYS, and ": " strerror(errno) at the end. Keeps errno. */
enum mn_err mn_fail_errno(struct mn_diag *diag, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
