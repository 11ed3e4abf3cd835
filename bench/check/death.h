/* What the rules about the death of a peer share. */
#ifndef MN_CHECK_DEATH_H
#define MN_CHECK_DEATH_H

#include "bench/check/kit.h"
#include "bench/check/peer.h"

/* Until the rule's deadline. */
void mn_death_hold(struct mn_check *check);
/* One word to the other process, and from it. */
void mn_death_say(struct mn_check *check, int fd);
void mn_death_await(struct mn_check *check, int fd);

/* One message to or from the other process, so that the connection is more than half there. */
void mn_death_receive_one(struct mn_check *check, struct mn_pair *pair, unsigned seed);
void mn_death_send_one(struct mn_check *check, struct mn_pair *pair, unsigned seed);
#define MN_DEATH_SIZE 60000

/* Rules: death_vanish.c */
void mn_death_sender_vanished(struct mn_check *check);
void mn_death_receiver_vanished(struct mn_check *check);

#endif
