/* PMIx (standard 4, pmix.github.io): what a launcher of that kind knows of ranks, and its way to
 * hand a line of text from rank 0 to the others. The library is opened at run time. */
#ifndef MN_LAUNCH_PMIX_H
#define MN_LAUNCH_PMIX_H

#include "topo/base/err.h"

/* Whether a launcher says that it speaks PMIx. */
int mn_pmix_offered(void);
/* MN_ERR_UNSUPPORTED, with the reason, when this meshnet or this host has no PMIx. Then mn_pmix_end
 * comes in every case, before the process ends: the launcher takes anything else for a crash. */
enum mn_err mn_pmix_begin(int *rank, int *nranks, struct mn_diag *diag);
/* All ranks: line is written by rank 0 and read by the others. Bounded by timeout_ms. */
enum mn_err mn_pmix_share(char *line, size_t size, unsigned timeout_ms, struct mn_diag *diag);
void mn_pmix_end(void);

#endif
