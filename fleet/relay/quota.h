/* How much of a relay one node's users may have, and one of them.
 *
 * Of buffers a node may have MN_QUOTA_NODE times what is left, and of that a user MN_QUOTA_USER
 * times what he leaves (dynamic thresholds: Choudhury, Hahne, IEEE/ACM Transactions on Networking
 * 6(2), 1998). So one alone has most, as a job on the mesh's nodes mostly is, and however much he
 * asks for, there is some for who comes next. Who has the cluster key is believed whom he says he
 * is, so these hold against users alone. */
#ifndef MN_RELAY_QUOTA_H
#define MN_RELAY_QUOTA_H

#include <stddef.h>
#include <stdint.h>

#define MN_QUOTA_NODE       8
#define MN_QUOTA_USER       4
#define MN_QUOTA_LINES      8192
#define MN_QUOTA_NODE_LINES 4096 /* of its processes */
#define MN_QUOTA_USER_LINES 2048 /* two for each of his ways */
#define MN_QUOTA_WAYS       4096 /* of flows */
#define MN_QUOTA_NODE_WAYS  2048 /* that begin there, or that its processes attached to first */
#define MN_QUOTA_USER_WAYS  1024 /* attached here */

struct relayd_line;
struct relayd_way;

struct mn_owner {
    uint32_t node, uid;
};

/* Bytes that who has `user` of them, all of his node's `node`, may have besides, with so many free.
 * Whatever the three are. */
size_t mn_quota_more(size_t free, size_t node, size_t user);

/* What the user of that line has of edges' buffers, and what he may still take. */
size_t relayd_quota_bytes(const struct relayd_line *line, size_t *has);
/* NULL: a way more may be made by that node, and the line's process be attached to it; else what
 * the relay has too many of. */
const char *relayd_quota_new_way(const struct relayd_line *line, uint32_t node);
const char *relayd_quota_attach(const struct relayd_line *line);
/* The same for a line that is up and counts already. */
const char *relayd_quota_line(const struct relayd_line *line);

#endif
