/* Prints what is wrong with a mesh as a whole, as text and as JSON. */
#ifndef MN_CLI_TROUBLES_H
#define MN_CLI_TROUBLES_H

#include "topo/base/out.h"
#include "topo/trouble.h"

/* In their order, under "findings": with the number of each severity before them, "No findings."
 * without any. */
void mn_troubles_print(struct mn_out *out, const struct mn_troubles *list);
/* What to do, in their order and each thing once, under "to_do"; nothing without any. */
void mn_troubles_print_to_do(struct mn_out *out, const struct mn_troubles *list);

#endif
