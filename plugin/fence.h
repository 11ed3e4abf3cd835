/* Reading what another party wrote before the flag that was just read. */
#ifndef MN_FENCE_H
#define MN_FENCE_H

#include <stdatomic.h>

/* No load behind it is done before the loads in front of it: an instruction on aarch64, none on
 * x86. ThreadSanitizer knows no fences; nor does it see a GPU or a NIC write. */
static inline void mn_read_fence(void)
{
#ifndef __SANITIZE_THREAD__
    atomic_thread_fence(memory_order_acquire);
#endif
}

#endif
