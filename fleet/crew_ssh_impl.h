/* Between looking at hosts over ssh and giving them a copy. */
#ifndef MN_CREW_SSH_IMPL_H
#define MN_CREW_SSH_IMPL_H

#include "fleet/crew_impl.h"

/* Becomes ssh and there a shell, whatever the user's own is, that runs the script as argument. */
int mn_crew_ssh_become(const struct mn_crew_host *host, const char *script, const char *argument);
/* What comes after "MARK word " where a line of the text begins so, cut at its end; NULL = none
 * does: what a shell says when it starts has no mark. */
char *mn_crew_line(const struct mn_crew_host *host, char *text, const char *word);
/* 0: it is no path, and the host's error says so. */
int mn_crew_take_program(struct mn_crew_host *host, const char *path);
/* Says why ssh brought nothing back. */
void mn_crew_not_reached(struct mn_crew_host *host, const struct mn_errand *errand);

/* Of the crew's hosts those that are marked get a copy, and their program is it then; else their
 * error says why not. lacks[i]: the machine and C library of host i, NULL: it is left out. */
void mn_crew_copy(struct mn_crew *crew, char *const *lacks);
/* Ends what keeps the copies, which removes them. */
void mn_crew_copies_end(struct mn_crew *crew);

#endif
