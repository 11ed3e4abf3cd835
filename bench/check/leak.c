#include "bench/check/leak.h"

#include <malloc.h>
#include <stdio.h>
#include <time.h>

/* There when the sanitizers' allocator takes the place of the C library's. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

size_t mn_leak_heap(void)
{
    struct mallinfo2 info = mallinfo2();

    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
    return info.uordblks + info.hblkhd;
}

size_t mn_leak_mapped(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t pages = 0;

    if (file && fscanf(file, "%zu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * 4096;
}

static void run_cycles(const struct mn_leak *leak)
{
    for (int i = 0; i < leak->cycles; i++)
        leak->cycle(leak->ctx);
}

/* What a plugin frees on a thread of its own may take a moment. */
static size_t settled(const struct mn_leak *leak, size_t limit)
{
    size_t now;

    for (int i = 0; (now = leak->measure()) > limit && i < 100; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        if (mn_check_expired(leak->check))
            break;
    }
    return now;
}

/* A cache fills once, a leak grows with every part alike: three parts after a first one. */
void mn_leak_judge(const struct mn_leak *leak)
{
    const size_t step = leak->least * (size_t)leak->cycles;
    size_t before, after[3];

    mn_check_step(leak->check, "%d %ss, four times", leak->cycles, leak->unit);
    run_cycles(leak);
    before = leak->measure();
    for (int part = 0; part < 3; part++) {
        size_t start = part ? after[part - 1] : before;
        run_cycles(leak);
        after[part] = settled(leak, start + step - 1);
        if (after[part] < start + step) {
            mn_check_note(leak->check, "%zu bytes of %s before, %zu after %d %ss", before,
                          leak->what, after[part], leak->cycles * (part + 1), leak->unit);
            return;
        }
    }
    mn_check_fail(leak->check, "%s grew from %zu to %zu, %zu, %zu bytes, each after %d more %ss",
                  leak->what, before, after[0], after[1], after[2], leak->cycles, leak->unit);
}
