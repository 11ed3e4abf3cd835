/* What a process says once: of peers, causes and the like, by a hash of what is to be said. */
#ifndef MN_BASE_ONCE_H
#define MN_BASE_ONCE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MN_ONCE_MAX 1024

/* All zero to begin with: static, one for each kind of remark. */
struct mn_once {
    _Atomic uint64_t said[MN_ONCE_MAX];
};

/* 1 the first time that it is asked for these bytes; 0 later, and once there were too many others:
 * a remark too few rather than one for each connection. Any thread; waits for nobody. */
int mn_once(struct mn_once *once, const void *what, size_t len);

#endif
