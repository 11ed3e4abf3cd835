/* Text that comes from outside: of a peer, a file, the kernel, a plugin. Whatever shows text calls
 * one of these: mn_out, mn_log and mn_fail do so for all of theirs. */
#ifndef MN_BASE_CLEAN_H
#define MN_BASE_CLEAN_H

#include <stddef.h>
#include <stdint.h>

/* Length of the character of UTF-8 at text, of which left bytes are there; *code is what it stands
 * for. 0, and U+FFFD, when it is none. */
size_t mn_utf8(const char *text, size_t left, uint32_t *code);
/* Whether a code point does something to a terminal or to what stands around it: controls, C1 and
 * line breaks included, what turns the direction of writing, and what is no character. */
int mn_is_control(uint32_t code);

/* Puts a '?' in the place of each control and each byte that is no UTF-8; returns text. */
char *mn_clean(char *text);
/* The same, but line breaks and tabs stay. */
char *mn_clean_lines(char *text);

struct cJSON;
/* mn_clean_lines for every string and key in it. */
void mn_clean_json(struct cJSON *json);

#endif
