/* What is said of the relay, once for each peer: the ways that it takes, or that it would be
 * faster.
 */
#ifndef MN_RELAY_TELL_H
#define MN_RELAY_TELL_H

#include "plugin/conn.h"

/* "through b and through d, at most 400 Gb/s together" of the ways that the mesh has between the
 * ends of a connection whose plan is made; "" when there is none. Returns text. */
char *mn_relay_text(const struct mn_conn *conn, char *text, size_t size);
/* "; meshnet relayd on b and on d would be faster, but …" of a connection that goes without;
 * "" where the relay is not wanted or could not help. Returns text. */
char *mn_relay_hint(const struct mn_conn *conn, char *text, size_t size);

#endif
