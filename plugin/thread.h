/* The plugin's own threads: named, with all signals blocked, and on any core, since NCCL pins the
 * thread that makes them to the cores near its GPU. */
#ifndef MN_THREAD_H
#define MN_THREAD_H

#include <pthread.h>

/* 0, or an errno value. To be joined, or detached by pthread_detach(). name: 15 characters. */
int mn_thread_start(const char *name, void *(*run)(void *arg), void *arg, pthread_t *thread);
/* What a message says of that value, or of another one on the way to the thread; with the limit, if
 * it is one. */
const char *mn_thread_why(int error);

#endif
