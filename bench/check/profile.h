/* How NCCL and RCCL releases differ in what they load and in how they call it. */
#ifndef MN_CHECK_PROFILE_H
#define MN_CHECK_PROFILE_H

#include "topo/base/err.h"

enum mn_check_dialect {
    /* connect and accept get the address of a 4-byte object where the device handle belongs. */
    MN_DIALECT_SMALL_SLOT = 1 << 0,
    /* *request holds 0x1 when irecv, or isend, is called. */
    MN_DIALECT_OPTIONAL_RECV = 1 << 1,
    MN_DIALECT_OPTIONAL_SEND = 1 << 2,
    /* finalize follows an init that failed. */
    MN_DIALECT_FINALIZE_FAILED = 1 << 3,
    /* dlclose after the last communicator; the next one loads the library again. */
    MN_DIALECT_UNLOADS = 1 << 4,
    /* makeVDevice is called for groups of one device. */
    MN_DIALECT_MERGES_ONE = 1 << 5,
    /* regMrDmaBuf is called whenever it is there, whatever ptrSupport says. */
    MN_DIALECT_DMABUF_ANYWAY = 1 << 6,
};

struct mn_check_profile {
    const char *library;            /* "nccl", "rccl" */
    int first, last;                /* releases, 100 * major + minor */
    int newest, oldest;             /* ABI versions they look for */
    int newest_tuner, oldest_tuner; /* the same of tuners that are driven here; 0 = none */
    unsigned dialect;
    const char *title;
};

/* Oldest first; library NULL ends it. */
extern const struct mn_check_profile mn_check_profiles[];

/* "nccl-2.18", "rccl-7": the row that holds this release. MN_ERR_USAGE with the names there are. */
enum mn_err mn_check_profile_find(const char *name, const struct mn_check_profile **profile,
                                  struct mn_diag *diag);

#endif
