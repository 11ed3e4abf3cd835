/* What remote.c and remote_serve.c say to each other: a call, its bytes; an answer, its bytes. Both
 * ends run the same meshnet on machines of the same byte order; neither believes the other. */
#ifndef MN_CHECK_REMOTE_WIRE_H
#define MN_CHECK_REMOTE_WIRE_H

#include <stdint.h>

#define MN_REMOTE_COMMS    256u
#define MN_REMOTE_MRS      4096u
#define MN_REMOTE_REQUESTS 8192u
#define MN_REMOTE_PAGE     4096u
#define MN_REMOTE_LONGEST  (64u << 20) /* bytes that go over with one isend */

enum mn_remote_op {
    MN_REMOTE_CONNECT,
    MN_REMOTE_REG,
    MN_REMOTE_DEREG,
    MN_REMOTE_SEND,
    MN_REMOTE_TEST,
    MN_REMOTE_CLOSE,
    MN_REMOTE_COUNT,
    MN_REMOTE_N_OPS
};

struct mn_remote_call {
    uint32_t op, comm, mr, request; /* numbers the rule chose */
    int32_t number;                 /* connect: dev; reg: place in a page; send: tag; test: done;
                                     * count: enum mn_remote_count */
    uint32_t given;                 /* connect: a device handle; test: a place for sizes; send:
                                     * its bytes, by the send before it of this registration */
    uint64_t size, offset;          /* reg: size; send: where in the registration, and how much */
    uint64_t word;                  /* connect: *device_handle; send: *request */
    uint32_t bytes, unused;         /* that follow: connect: the handle; send: the message */
};

enum mn_remote_state { MN_REMOTE_NULL, MN_REMOTE_GIVEN, MN_REMOTE_UNCHANGED };

struct mn_remote_answer {
    int32_t result;
    uint32_t state; /* of *comm or *request */
    int32_t done;   /* test; count; before the first call: how many devices there are */
    uint32_t bytes; /* that follow: connect: the handle */
    uint64_t word;  /* connect: *device_handle */
};

_Static_assert(sizeof(struct mn_remote_call) == 56, "no padding");
_Static_assert(sizeof(struct mn_remote_answer) == 24, "no padding");

#endif
