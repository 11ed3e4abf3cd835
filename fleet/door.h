/* A door: takes in who comes to some listening sockets, greets all at once and lets through who has
 * the token. Who has not proven that yet takes the place of nobody but of such as himself: when
 * more come than the door holds, one goes whose source (an IPv4 address, the first half of an IPv6
 * one) has most, by lot, so that who answers promptly stays and a flood from
 * elsewhere does not touch him. Nothing here waits. */
#ifndef MN_DOOR_H
#define MN_DOOR_H

#include "fleet/ctl.h"

#define MN_DOOR_GUESTS  256 /* who may stand at a door; fewer where descriptors are few */
#define MN_DOOR_GREET_S 5.0 /* for the greeting, and again for a first word */
#define MN_DOOR_PLACE_S 0.5 /* who has proven himself waits so long for a place */
#define MN_DOOR_LOOK_MS 100 /* a door with somebody at it wants to be looked at so often */

struct mn_door;

/* What a door has to say: of strangers it turned away (one line a second, with the count of those
 * passed over), and at most once a minute that descriptors have run out and that there are some. */
typedef void (*mn_door_say_fn)(int of_stranger, const char *text);

struct mn_door_plan {
    const int *fds; /* listening and non-blocking; they stay the caller's */
    int n_fds;
    uint8_t token[MN_KEY_SIZE];
    const char *who;    /* what a guest is called: "client", and his address */
    int first_word;     /* lets through only who has begun to say something, too */
    mn_door_say_fn say; /* NULL = nothing is said */
};

enum mn_err mn_door_open(const struct mn_door_plan *plan, struct mn_door **door,
                         struct mn_diag *diag);
/* Frees, and closes those who wait. In a child that has the door by fork it leaves the parent's
 * alone. NULL is fine. */
void mn_door_close(struct mn_door *door);

/* Readable when there is something to look at. */
int mn_door_fd(const struct mn_door *door);
/* How long poll() may wait for it: -1 without end. */
int mn_door_wait_ms(const struct mn_door *door);
/* Goes on with all of them. 1: *ctl is a guest who was let through, the caller's from now on; to
 * be called again until 0. place 0: who has proven himself waits a moment for one, and is then told
 * that there is none. */
int mn_door_look(struct mn_door *door, int place, struct mn_ctl *ctl);
/* How many stand at it. */
int mn_door_guests(const struct mn_door *door);

#endif
