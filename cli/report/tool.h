/* Runs a program that makes a picture. */
#ifndef MN_CLI_REPORT_TOOL_H
#define MN_CLI_REPORT_TOOL_H

#include "topo/base/err.h"

/* Runs argv[0], found along PATH, with input on its standard input; *output is what it wrote, NUL
 * terminated, the caller's to free. MN_ERR_NOTFOUND when it is not installed; MN_ERR_FAILED when it
 * fails, writes more than 16 MiB or is not done within 20 seconds, with the last of what it said.
 */
enum mn_err mn_tool_run(const char *const argv[], const char *input, char **output,
                        struct mn_diag *diag);

#endif
