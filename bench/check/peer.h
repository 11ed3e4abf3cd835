/* A second process for rules about two of them: started before the plugin is loaded, since nothing
 * is promised across fork after init; told what to do through a pair of sockets. */
#ifndef MN_CHECK_PEER_H
#define MN_CHECK_PEER_H

#include <sys/types.h>

#include "bench/check/kit.h"

struct mn_peer {
    pid_t pid;
    int fd;
    int control; /* far away: takes signals */
};

/* run loads the plugin itself and ends by returning; its verdicts count for the rule, which carries
 * MN_CHECK_PEER. On another machine, where the rule's own function is entered again, this call does
 * not return; so nothing of a rule comes before it, and all its second processes do the same. */
void mn_peer_start(struct mn_check *check, void (*run)(struct mn_check *check, int fd),
                   struct mn_peer *peer);
void mn_peer_signal(struct mn_check *check, struct mn_peer *peer, int signal);
/* SIGKILL, and waits until the process is gone with all it had open. */
void mn_peer_kill(struct mn_check *check, struct mn_peer *peer);

/* Exactly size bytes, until the rule's deadline. The second fails when the other process ended. */
void mn_peer_tell(struct mn_check *check, int fd, const void *data, size_t size);
void mn_peer_hear(struct mn_check *check, int fd, void *data, size_t size);
/* The same, when what comes is the end of a call there. */
void mn_peer_hear_call(struct mn_check *check, int fd, void *data, size_t size, const char *call);

/* One end of a connection whose other end is in the process behind fd. */
void mn_peer_accept(struct mn_check *check, int fd, struct mn_pair *pair);
void mn_peer_connect(struct mn_check *check, int fd, struct mn_pair *pair);

#endif
