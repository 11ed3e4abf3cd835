#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "topo/base/clean.h"
#include "topo/base/err.h"

static const struct {
    const char *name, *text;
} errs[] = {
#define X(name, text) {#name, text},
    MN_ERR_LIST(X)
#undef X
};

const char *mn_err_name(enum mn_err err)
{
    return (unsigned)err < MN_ERR_COUNT ? errs[err].name : "?";
}

const char *mn_err_text(enum mn_err err)
{
    return (unsigned)err < MN_ERR_COUNT ? errs[err].text : "?";
}

int mn_err_exit_code(enum mn_err err)
{
    switch (err) {
    case MN_OK:
        return 0;
    case MN_ERR_USAGE:
    case MN_ERR_CONFIG:
        return 2;
    case MN_ERR_SKIPPED:
        return 77;
    default:
        return 1;
    }
}

__attribute__((format(printf, 3, 0))) static void explain(struct mn_diag *diag, enum mn_err code,
                                                          const char *fmt, va_list args)
{
    if (!diag)
        return;
    /* The old text may be among the arguments. */
    char text[sizeof diag->text];
    vsnprintf(text, sizeof text, fmt, args);
    mn_clean_lines(text);
    memcpy(diag->text, text, sizeof text);
    diag->code = code;
}

enum mn_err mn_fail(struct mn_diag *diag, enum mn_err code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    explain(diag, code, fmt, args);
    va_end(args);
    return code;
}

enum mn_err mn_fail_errno(struct mn_diag *diag, const char *fmt, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, fmt);
    explain(diag, MN_ERR_SYS, fmt, args);
    va_end(args);
    if (diag) {
        size_t used = strlen(diag->text);
        snprintf(diag->text + used, sizeof diag->text - used, ": %s", strerror(saved));
    }
    errno = saved;
    return MN_ERR_SYS;
}
