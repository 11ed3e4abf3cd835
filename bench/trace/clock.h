/* A clock for records: the processor's own counter where it is constant and the same on all cores,
 * which costs a third of what the kernel's does; else the kernel's CLOCK_MONOTONIC. */
#ifndef MN_TRACE_CLOCK_H
#define MN_TRACE_CLOCK_H

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

static inline uint64_t mn_kernel_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct mn_trace_clock {
    uint64_t start; /* ticks, or nanoseconds */
    uint64_t scale; /* nanoseconds a tick, times 2^32; 0 = the kernel's clock */
};

/* Ticks; 0 where there is no such counter. */
static inline uint64_t mn_trace_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

/* Intel SDM 18.17.1 and AMD APM 3, CPUID 8000_0007 EDX[8]; Arm ARM D12.1: always. */
static inline int mn_trace_counter_is_constant(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1;
#elif defined(__aarch64__)
    return 1;
#else
    return 0;
#endif
}

/* Measures for 10 ms how long a tick is: good to a few parts in a million. */
static inline struct mn_trace_clock mn_trace_clock_start(void)
{
    struct mn_trace_clock clock = {.start = mn_kernel_ns(CLOCK_MONOTONIC)};

    if (!mn_trace_counter_is_constant())
        return clock;
    uint64_t ns = mn_kernel_ns(CLOCK_MONOTONIC), ticks = mn_trace_ticks();
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    uint64_t after = mn_kernel_ns(CLOCK_MONOTONIC), passed = mn_trace_ticks() - ticks;
    if (passed && after - ns < 1u << 31)
        clock = (struct mn_trace_clock){mn_trace_ticks(), ((after - ns) << 32) / passed};
    return clock;
}

static inline uint64_t mn_trace_clock_ns(const struct mn_trace_clock *clock)
{
    if (!clock->scale)
        return mn_kernel_ns(CLOCK_MONOTONIC) - clock->start;
    return (uint64_t)((unsigned __int128)(mn_trace_ticks() - clock->start) * clock->scale >> 32);
}

#endif
