/* An allocator that fails when told. libnomem.so stands before the C library (linked first, or by
 * LD_PRELOAD) and counts the allocations of every thread, those that libraries make for us
 * included.
 *
 * A program that is not ours to change is told by its environment: NOMEM=7 fails the 7th allocation
 * from the start of each process, NOMEM=7+ that and every later one; after a fork the child counts
 * on from where its parent was. */
#ifndef NOMEM_H
#define NOMEM_H

#include <stddef.h>

/* Counts from here on: fails number n (0: none), with on that and all that follow. */
void nomem_arm(long n, int on);
/* Fails none from here on; how many there were. */
long nomem_disarm(void);

/* What is allocated from here on and not freed is counted. */
void nomem_mark(void);
/* How many blocks but the loader's own are left since the mark, when no other thread runs; who
 * asked for the first of them, and the size. */
size_t nomem_left(void **caller, size_t *size);
/* The addresses through which the last failed allocation was asked for, the innermost first. */
int nomem_failed_at(void **frames, int max);

#endif
