#include "cli/cmd.h"

enum mn_err mn_cmd_lost(const char *written, struct mn_diag *diag)
{
    return mn_fail(diag, MN_ERR_SYS, "cannot write to standard output: it is closed or full%s%s%s",
                   written ? "; " : "", written ? written : "", written ? " is written" : "");
}
