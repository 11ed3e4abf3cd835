#include "plugin/transport/verbs/pages.h"

#include <sys/mman.h>

void *verbs_pages_new(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return NULL;
    /* A sandbox that knows no such advice is no reason to go without RDMA. */
    (void)madvise(pages, size, MADV_DONTFORK);
    return pages;
}

void verbs_pages_free(void *pages, size_t size)
{
    if (pages)
        munmap(pages, size);
}
