#ifndef MN_MEMORY_H
#define MN_MEMORY_H

#include <stddef.h>

/* Bytes that the kernel can give without swapping; SIZE_MAX when it does not say. */
size_t mn_available_memory(void);

#endif
