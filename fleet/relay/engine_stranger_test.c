/* Strangers at a relay's doors while flows pass through it: nobody of them is let in, what passes
 * arrives whole, and nothing of them is left. */
#include "fleet/relay/engine_stream.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "fleet/relay/engine.h"
#include "plugin/bytes.h"
#include "plugin/relay/line_impl.h"

#define RELAY 1
#define HELD  300 /* sockets that a stranger has open at a time */

#define OTHER_USER 4000000001

static struct kit_end s, d;
static uint32_t user = OTHER_USER;
static int *holds; /* NULL: who has tried leaves at once */
static atomic_int over, came, let_in;

static int dial_door(int end)
{
    struct sockaddr_storage ss;
    struct mn_addr addr;
    char text[32];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval bound = {.tv_sec = 5};

    kit_address(end ? RELAY - 1 : RELAY, end, text);
    if (fd < 0 || mn_addr_parse(text, &addr, NULL))
        return -1;
    socklen_t len = mn_addr_sockaddr(&addr, (uint16_t)configs[RELAY].settings.relay_port, 0, &ss);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
    if (!connect(fd, (struct sockaddr *)&ss, len))
        return fd;
    close(fd);
    return -1;
}

static int dial_local(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    snprintf(at.sun_path, sizeof at.sun_path, "%s", relays[RELAY].socket);
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof at))
        return fd;
    close(fd);
    return -1;
}

static void put(int fd, const void *bytes, size_t len)
{
    (void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

static int get(int fd, uint8_t *bytes, size_t len)
{
    return recv(fd, bytes, len, MSG_WAITALL) == (ssize_t)len;
}

static void first_message(uint8_t first[MN_LINE_FIRST])
{
    struct mn_bytes b = {first, first + MN_LINE_FIRST, 0};

    memset(first, 0, MN_LINE_FIRST);
    mn_put(&b, MN_LINE_MAGIC, 4);
    mn_put(&b, MN_RELAY_VERSION, 2);
    mn_put(&b, 0, 2);
}

/* What proves that who comes as n0 has the key, to one who said that. */
static void third_message(const uint8_t key[MN_KEY_SIZE], const uint8_t first[MN_LINE_FIRST],
                          const uint8_t second[MN_LINE_SECOND], uint8_t third[MN_LINE_THIRD])
{
    struct mn_line_hello hello = {.relay_node = RELAY,
                                  .kind = MN_LINE_PROCESS,
                                  .uid = user,
                                  .pid = 1};
    struct mn_line_signed made;
    struct mn_bytes b = {third, third + MN_LINE_THIRD, 0};

    memcpy(hello.random[0], second + 8, 16);
    memcpy(hello.random[1], first + 8, 16);
    mn_line_sign(key, &hello, &made);
    mn_put(&b, hello.kind, 1);
    mn_put(&b, hello.node, 4);
    mn_put(&b, hello.uid, 4);
    mn_put(&b, hello.pid, 4);
    mn_put_raw(&b, made.proof, MN_MAC_SIZE);
}

/* 1: the relay has let in who says that third message, or made with that key. */
static int tries(const uint8_t *third, const uint8_t *key, uint8_t said[MN_LINE_THIRD])
{
    uint8_t first[MN_LINE_FIRST], second[MN_LINE_SECOND], mine[MN_LINE_THIRD], reply = 0xff;
    int fd = dial_door(0);

    if (fd < 0)
        return 0;
    first_message(first);
    put(fd, first, sizeof first);
    int in = 0;
    if (get(fd, second, sizeof second)) {
        if (key)
            third_message(key, first, second, mine);
        put(fd, key ? mine : third, MN_LINE_THIRD);
        in = get(fd, &reply, 1) && reply == MN_LINE_LET_IN;
        if (said && key)
            memcpy(said, mine, sizeof mine);
    }
    if (holds)
        *holds = fd;
    else
        close(fd);
    return in;
}

/* --- all kinds of them at once ---------------------------------------------------------------- */

static int a_stranger(unsigned kind)
{
    static const uint8_t wrong[MN_KEY_SIZE] = {1, 2, 3};
    uint8_t first[MN_LINE_FIRST], garbage[4096];
    int fd = kind < 6 ? dial_door((int)kind & 1) : dial_local();

    if (fd < 0)
        return -1;
    first_message(first);
    memset(garbage, (int)kind * 37 + 1, sizeof garbage);
    switch (kind) {
    case 2:
        put(fd, first, 11); /* half of a greeting */
        break;
    case 3:
        put(fd, garbage, sizeof garbage);
        break;
    case 4:
        put(fd, first, sizeof first); /* and no proof */
        break;
    case 5:
        if (tries(NULL, wrong, NULL))
            atomic_fetch_add(&let_in, 1);
        break;
    case 7:
        put(fd, "sig", 3);
        break;
    case 8:
        put(fd, "state", 5); /* whose answer nobody reads */
        break;
    case 9:
        put(fd, garbage, sizeof garbage);
        break;
    default:
        break; /* silent */
    }
    return fd;
}

static void *strangers(void *arg)
{
    int held[HELD];
    unsigned n = 0;

    (void)arg;
    for (; !atomic_load(&over); n++) {
        if (n >= HELD && held[n % HELD] >= 0)
            close(held[n % HELD]);
        held[n % HELD] = a_stranger(n % 10);
        atomic_fetch_add(&came, held[n % HELD] >= 0);
    }
    for (unsigned i = 0; i < HELD && i < n; i++)
        if (held[i] >= 0)
            close(held[i]);
    return NULL;
}

static void carry(unsigned flow)
{
    stream_both(&s, &d, flow, 200);
}

static int lines_of(int node)
{
    cJSON *state = kit_state(node);
    int n = cJSON_GetArraySize(cJSON_GetObjectItem(state, "lines"));

    cJSON_Delete(state);
    return n;
}

static void strangers_harm_nobody(void **state)
{
    pthread_t thread;

    (void)state;
    atomic_store(&over, 0);
    kit_start(RELAY);
    kit_attach(&s, &d, 0, 2, 1);
    assert_int_equal(pthread_create(&thread, NULL, strangers, NULL), 0);
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    do {
        carry(1);
        assert_true(mn_now_ms() < end);
    } while (atomic_load(&came) < 20 * HELD);
    /* Who has the key comes in beside them, by cable and by the local socket. */
    struct kit_end other_s, other_d;
    kit_attach(&other_s, &other_d, 0, 2, 2);
    kit_leave(&other_s);
    kit_leave(&other_d);
    kit_until_figure(RELAY, "counts", "flows", 2);
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&let_in), 0);
    carry(1);
    /* Ours alone, once the others have been given up. */
    end = mn_now_ms() + PATIENCE_MS;
    while (lines_of(RELAY) != 2) {
        assert_true(mn_now_ms() < end);
        nanosleep(&(struct timespec){0, 200000000}, NULL);
    }
    kit_leave(&s);
    kit_leave(&d);
    kit_stop(RELAY);
}

/* --- one by one ------------------------------------------------------------------------------- */

static void only_the_key_lets_in(void **state)
{
    uint8_t wrong[MN_KEY_SIZE], said[MN_LINE_THIRD], other[MN_LINE_THIRD];

    (void)state;
    kit_start(RELAY);
    memcpy(wrong, configs[RELAY].cluster_key, sizeof wrong);
    wrong[15] ^= 1;
    assert_false(tries(NULL, wrong, NULL));
    assert_true(tries(NULL, configs[RELAY].cluster_key, said));
    /* What was good a moment ago, to another random number of the relay's. */
    assert_false(tries(said, NULL, NULL));
    /* Signed by the right key, as somebody else. */
    memcpy(other, said, sizeof other);
    other[1] ^= 2;
    assert_false(tries(other, NULL, NULL));
    kit_stop(RELAY);
}

static void one_user_has_not_all_lines(void **state)
{
    static struct kit_end many[MN_QUOTA_USER_LINES];
    const uint8_t *key = configs[RELAY].cluster_key;
    struct rlimit files;
    int fds[2];

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < 3 * MN_QUOTA_USER_LINES)
        skip();
    kit_start(RELAY);
    for (int i = 0; i < MN_QUOTA_USER_LINES; i++)
        kit_dial(&many[i], 0, RELAY);
    assert_int_equal(kit_figure(RELAY, "counts", "refused"), 0);
    user = getuid();
    holds = &fds[0];
    assert_true(tries(NULL, key, NULL));
    kit_until_figure(RELAY, "counts", "refused", 1);
    user = OTHER_USER;
    holds = &fds[1];
    assert_true(tries(NULL, key, NULL));
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; lines_of(RELAY) != MN_QUOTA_USER_LINES + 1;
         nanosleep(&(struct timespec){0, 50000000}, NULL))
        assert_true(mn_now_ms() < end);
    assert_int_equal(kit_figure(RELAY, "counts", "refused"), 1);
    holds = NULL;
    close(fds[0]);
    close(fds[1]);
    for (int i = 0; i < MN_QUOTA_USER_LINES; i++)
        kit_leave(&many[i]);
    kit_stop(RELAY);
}

static int open_kit(void **state)
{
    (void)state;
    kit_open(18527);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    kit_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_key_lets_in),
        cmocka_unit_test(one_user_has_not_all_lines),
        cmocka_unit_test(strangers_harm_nobody),
    };
    return cmocka_run_group_tests(tests, open_kit, close_kit);
}
