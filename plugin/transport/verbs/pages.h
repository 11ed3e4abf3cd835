/* Memory that devices write to or read from on their own: whole pages that nothing else shares and
 * that a child of fork() does not get, so that neither process moves them away from the device by
 * writing to them. Holds whatever kernel and library do about registered memory. */
#ifndef MN_VERBS_PAGES_H
#define MN_VERBS_PAGES_H

#include <stddef.h>

/* Zeroed; NULL with errno set. A child that touches them dies. */
void *verbs_pages_new(size_t size);
/* NULL is ignored. size: as it was asked for. */
void verbs_pages_free(void *pages, size_t size);

#endif
