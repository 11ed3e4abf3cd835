/* OpenSSH as the way to another host: $MESHNET_SSH, else ssh. */
#ifndef MN_SSH_H
#define MN_SSH_H

#include <stdio.h>

#define MN_SSH_FAILED 255 /* its exit code when it did not reach the host, or lost it */

struct mn_ssh {
    const char *host;
    const char *address; /* where it is reached instead, with the name's keys; NULL = its name */
    const char *const *words; /* further ones of its command line; NULL = none */
    unsigned connect_s;
    const char *command; /* for the shell there */
};

/* Becomes it; returns, with an exit code, only when that cannot be. Never asks anybody anything,
 * and ends within 9 s when the host falls silent. */
int mn_ssh_become(const struct mn_ssh *ssh);
/* A space and a word that a shell reads as it is. */
void mn_ssh_word(FILE *file, const char *word);
/* Whether the name means this host: localhost, its own name, $MESHNET_NODE. */
int mn_ssh_is_here(const char *host);

#endif
