/* Words for a command that somebody pastes into a shell. */
#ifndef MN_BASE_SHELL_H
#define MN_BASE_SHELL_H

#include <stddef.h>

/* word as one word of sh, in single quotes where they are needed. 1: all of it is in buf; 0: it did
 * not fit, and buf is "". */
int mn_shell_word(const char *word, char *buf, size_t size);

#endif
