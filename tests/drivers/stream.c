/* One end of a stream through a plugin, for tests that break the link or the peer under it:
 *
 *   stream LIBRARY receive FILE MESSAGES [IDLE]     writes its handle to FILE, takes MESSAGES
 *   stream LIBRARY send FILE MESSAGES [IDLE]        reads the handle from FILE, sends MESSAGES
 *
 * IDLE: a file; the sender calls nothing while it is there and no message is on its way.
 *
 * Messages have 256 KiB; each carries its number, which the receiver compares. With
 * STREAM_SIZES=all in the environment they have from none to 1 MiB, and every byte is compared;
 * with STREAM_END=FILE the sender ends the stream, at both ends, when the file is there. MESSAGES
 * 0: until an error. With STREAM_PACE the sender sleeps so many microseconds after each message;
 * DRIVER_NAP is in idle.h. Prints "connected", a line with the count every 256 messages, then "done
 * COUNT" (exit 0), or "failed COUNT RESULT: the plugin's last warning" (exit 1); each warning on
 * stderr, with STREAM_INFO in the environment what is less, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/host.h"
#include "plugin/abi/nccl_abi.h"
#include "tests/drivers/idle.h"
#include "topo/base/alloc.h"

#define SIZE  (256u << 10)
#define MOST  (1u << 20)
#define DEPTH 8
#define LAST  3   /* bytes of the message that ends a stream: no other has so many */
#define LIMIT 600 /* seconds until the test is given up */

static char warning[1024] = "no warning";

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == NCCL_LOG_WARN)
        mn_strlcpy(warning, line, sizeof warning);
    if (level == NCCL_LOG_WARN || (level == NCCL_LOG_INFO && getenv("STREAM_INFO")))
        fprintf(stderr, "%s\n", line);
}

static int all_sizes;
static uint64_t last = UINT64_MAX;

static size_t size_of(uint64_t number)
{
    static const uint32_t sizes[] = {0,     8,     64,     1000, 4096, 16384, 16385, 65535,
                                     65536, 65537, 100000, SIZE, SIZE, MOST,  127,   700001};
    uint32_t draw = (uint32_t)number * 2654435761u;

    if (number == last)
        return LAST;
    return all_sizes ? sizes[draw >> 8 & 15] : SIZE;
}

/* Eight bytes of a message, of which the last may be cut. */
static uint64_t word(uint64_t number, size_t at)
{
    return (number + 1) * 0x9e3779b97f4a7c15u + at;
}

static void fill(uint8_t *data, uint64_t number, size_t size)
{
    size_t at = 0;
    uint64_t w;

    for (; size - at >= sizeof w; at += sizeof w) {
        w = word(number, at);
        memcpy(data + at, &w, sizeof w);
    }
    w = word(number, at);
    memcpy(data + at, &w, size - at);
}

static int is_right(const uint8_t *data, uint64_t number, size_t size)
{
    size_t at = 0;
    uint64_t w, there;

    if (!all_sizes)
        return !memcmp(data, &number, sizeof number) &&
               !memcmp(data + SIZE - sizeof number, &number, sizeof number);
    for (; size - at >= sizeof w; at += sizeof w) {
        memcpy(&there, data + at, sizeof there);
        if (there != word(number, at))
            return 0;
    }
    w = word(number, at);
    return !memcmp(data + at, &w, size - at);
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int fail(uint64_t count, int result)
{
    printf("failed %llu %s: %s\n", (unsigned long long)count, mn_nccl_result_name(result), warning);
    return 1;
}

static int open_comm(struct mn_plugin *p, int receiving, const char *file, void **comm)
{
    uint8_t handle[MN_HANDLE_SIZE] = {0};
    void *listener = NULL;
    double end = now() + LIMIT;
    int result = 0;
    char *text;
    size_t len;

    if (receiving) {
        result = mn_plugin_listen(p, 0, handle, &listener);
        if (!result && mn_file_write(file, handle, sizeof handle, 1, NULL))
            return ncclSystemError;
    } else {
        while (mn_file_read(file, 4096, &text, &len, NULL) && now() < end)
            usleep(10000);
        if (now() >= end || len != sizeof handle)
            return ncclSystemError;
        memcpy(handle, text, sizeof handle);
        free(text);
    }
    while (!result && !*comm && now() < end) {
        result =
            receiving ? mn_plugin_accept(p, listener, comm) : mn_plugin_connect(p, 0, handle, comm);
        driver_turn(0);
    }
    if (listener)
        mn_plugin_close_listen(p, listener);
    return result ? result : *comm ? ncclSuccess : ncclSystemError;
}

static int post(struct mn_plugin *p, int receiving, void *comm, void *mh, uint8_t *data,
                uint64_t number, void **request)
{
    void *at = data;
    size_t size = MOST;
    int tag = 0;

    if (receiving)
        return mn_plugin_irecv(p, comm, 1, &at, &size, &tag, &mh, request);
    size = size_of(number);
    if (all_sizes)
        fill(data, number, size);
    else {
        memcpy(data, &number, sizeof number);
        memcpy(data + SIZE - sizeof number, &number, sizeof number);
    }
    return mn_plugin_isend(p, comm, data, size, tag, mh, request);
}

/* 1: nothing is to be posted now. With nothing in flight either, waits while the file is there. */
static int is_idle(const char *file, int in_flight, double end)
{
    if (!file || access(file, F_OK))
        return 0;
    if (in_flight)
        return 1;
    puts("idle");
    while (!access(file, F_OK) && now() < end)
        usleep(10000);
    return 0;
}

static int stream(struct mn_plugin *p, int receiving, void *comm, uint64_t messages,
                  const char *idle_file)
{
    static uint8_t area[DEPTH * MOST];
    const char *end_file = all_sizes ? getenv("STREAM_END") : NULL;
    unsigned pace_us = driver_number("STREAM_PACE");
    void *requests[DEPTH], *mh;
    uint64_t posted = 0, done = 0;
    double end = now() + LIMIT;
    int result = mn_plugin_reg_mr(p, comm, area, sizeof area, NCCL_PTR_HOST, &mh);

    while (!result && (!messages || done < messages)) {
        int finished = 0, sizes[MN_HOST_MAX_RECVS] = {0};
        uint64_t before = posted + done;
        if (!is_idle(idle_file, posted > done, end) && posted - done < DEPTH &&
            (!messages || posted < messages)) {
            void **request = &requests[posted % DEPTH];
            if (!receiving && end_file && !messages && !access(end_file, F_OK)) {
                last = posted;
                messages = posted + 1;
            }
            result = post(p, receiving, comm, mh, area + posted % DEPTH * MOST, posted, request);
            posted += !result && *request;
            if (!receiving && pace_us && *request)
                usleep(pace_us);
        }
        if (!result && posted > done)
            result = mn_plugin_test(p, requests[done % DEPTH], &finished, sizes);
        if (!result && finished) {
            const uint8_t *data = area + done % DEPTH * MOST;
            if (receiving && end_file && sizes[0] == LAST) {
                last = done;
                messages = done + 1;
            }
            if (receiving &&
                (sizes[0] != (int)size_of(done) || !is_right(data, done, (size_t)sizes[0]))) {
                mn_strlcpy(warning, "the data is wrong", sizeof warning);
                return fail(done, ncclInternalError);
            }
            done++;
            if (done % 256 == 0)
                printf("%llu\n", (unsigned long long)done);
        }
        driver_turn(posted + done != before);
        if (!result && now() > end)
            result = ncclSystemError;
    }
    if (result)
        return fail(done, result);
    printf("done %llu\n", (unsigned long long)done);
    return 0;
}

int main(int argc, char **argv)
{
    struct mn_plugin *p;
    struct mn_diag diag;
    void *comm = NULL;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 5 && argc != 6)
        return 2;
    const char *sizes = getenv("STREAM_SIZES");
    int receiving = !strcmp(argv[2], "receive");
    all_sizes = sizes && !strcmp(sizes, "all");
    if (mn_plugin_open(argv[1], 0, &p, &diag)) {
        puts(diag.text);
        return 2;
    }
    mn_plugin_set_log(p, on_log, NULL);
    int result = mn_plugin_init(p);
    if (!result)
        result = open_comm(p, receiving, argv[3], &comm);
    if (result)
        return fail(0, result);
    puts("connected");
    const char *idle_file = argc == 6 && !receiving ? argv[5] : NULL;
    int code = stream(p, receiving, comm, strtoull(argv[4], NULL, 10), idle_file);
    if (receiving)
        mn_plugin_close_recv(p, comm);
    else
        mn_plugin_close_send(p, comm);
    return code;
}
