/* For the tests of bench/host: a plugin made of a vtable in the test, and the functions that are
 * the same in every version. */
#ifndef MN_HOST_FAKE_H
#define MN_HOST_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/host/host_impl.h"
#include "topo/base/alloc.h"

static inline struct mn_plugin *fake_open(const struct mn_host_version *version, const void *table)
{
    struct mn_host_library *library = mn_zalloc(sizeof *library);
    struct mn_plugin first = {.library = library};

    library->version = version;
    library->table = table;
    library->log = mn_host_log_take(library);
    library->block = version->blocks ? mn_host_block_new() : NULL;
    pthread_mutex_init(&library->lock, NULL);
    return mn_plugin_context(&first);
}

/* Their addresses are comms, requests and registrations; the values count closes. */
static int fake[64];
static int fake_inits;

static inline ncclResult_t fake_init(ncclDebugLogger_t log)
{
    fake_inits++;
    log(NCCL_LOG_INFO, NCCL_NET, __FILE__, __LINE__, "hello %d", fake_inits);
    return ncclSuccess;
}

static inline ncclResult_t fake_devices(int *n)
{
    *n = 3;
    return ncclSuccess;
}

static inline ncclResult_t fake_listen(int dev, void *handle, void **comm)
{
    assert_int_equal(dev, 2);
    strcpy(handle, "handle");
    *comm = &fake[0];
    return ncclSuccess;
}

static inline ncclResult_t fake_dereg(void *comm, void *mh)
{
    return comm == &fake[1] && mh == &fake[5] ? ncclSuccess : ncclInvalidArgument;
}

static inline ncclResult_t fake_test(void *request, int *done, int *sizes)
{
    *done = request == &fake[6];
    *sizes = 17;
    return ncclSuccess;
}

static inline ncclResult_t fake_close(void *comm)
{
    __atomic_add_fetch((int *)comm, 1, __ATOMIC_SEQ_CST);
    return ncclSuccess;
}

#define FAKE_SLOTS                                                                                 \
    .devices = fake_devices, .deregMr = fake_dereg, .test = fake_test, .closeSend = fake_close,    \
    .closeRecv = fake_close, .closeListen = fake_close

#endif
