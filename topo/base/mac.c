#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/mac.h"

static uint64_t load64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static void store64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void rounds(uint64_t v[4], int n)
{
    while (n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotl(v[1], 13) ^ v[0];
        v[3] = rotl(v[3], 16) ^ v[2];
        v[0] = rotl(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotl(v[1], 17) ^ v[2];
        v[3] = rotl(v[3], 21) ^ v[0];
        v[2] = rotl(v[2], 32);
    }
}

/* out2 NULL: the 64-bit variant. */
static uint64_t siphash(const uint8_t key[MN_KEY_SIZE], const uint8_t *data, size_t len,
                        uint64_t *out2)
{
    uint64_t k0 = load64(key), k1 = load64(key + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                     k1 ^ 0x7465646279746573};
    uint8_t last[8] = {0};
    size_t whole = len / 8;

    if (out2)
        v[1] ^= 0xee;
    for (size_t i = 0; i <= whole; i++) {
        uint64_t m;
        if (i == whole) {
            if (len % 8)
                memcpy(last, data + 8 * whole, len % 8);
            last[7] = (uint8_t)len;
            m = load64(last);
        } else {
            m = load64(data + 8 * i);
        }
        v[3] ^= m;
        rounds(v, 2);
        v[0] ^= m;
    }
    v[2] ^= out2 ? 0xee : 0xff;
    rounds(v, 4);
    uint64_t out = v[0] ^ v[1] ^ v[2] ^ v[3];
    if (out2) {
        v[1] ^= 0xdd;
        rounds(v, 4);
        *out2 = v[0] ^ v[1] ^ v[2] ^ v[3];
    }
    return out;
}

uint64_t mn_mac64(const uint8_t key[MN_KEY_SIZE], const void *data, size_t len)
{
    return siphash(key, data, len, NULL);
}

void mn_mac128(const uint8_t key[MN_KEY_SIZE], const void *data, size_t len,
               uint8_t mac[MN_MAC_SIZE])
{
    uint64_t high, low = siphash(key, data, len, &high);

    store64(mac, low);
    store64(mac + 8, high);
}

int mn_mac_equal(const void *a, const void *b, size_t len)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t differ = 0;

    for (size_t i = 0; i < len; i++)
        differ |= x[i] ^ y[i];
    return !differ;
}

enum mn_err mn_random(void *buf, size_t len, struct mn_diag *diag)
{
    uint8_t *p = buf;

    while (len) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return mn_fail_errno(diag, "getrandom");
        p += n;
        len -= (size_t)n;
    }
    return MN_OK;
}

enum mn_err mn_key_parse(const char *text, uint8_t key[MN_KEY_SIZE], struct mn_diag *diag)
{
    size_t digits = 0;

    while (isspace((unsigned char)*text))
        text++;
    memset(key, 0, MN_KEY_SIZE);
    for (; isxdigit((unsigned char)*text) && digits < 2 * MN_KEY_SIZE; text++, digits++) {
        int c = tolower((unsigned char)*text);
        int value = c <= '9' ? c - '0' : c - 'a' + 10;
        key[digits / 2] = (uint8_t)(key[digits / 2] << 4 | value);
    }
    while (isspace((unsigned char)*text))
        text++;
    if (digits != 2 * MN_KEY_SIZE || *text)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "a key is %d hexadecimal digits and nothing else (openssl rand -hex %d "
                       "makes one)",
                       2 * MN_KEY_SIZE, MN_KEY_SIZE);
    return MN_OK;
}

enum mn_err mn_key_read(const char *path, uint8_t key[MN_KEY_SIZE], struct mn_diag *diag)
{
    struct mn_diag why;
    char *text;
    enum mn_err err = mn_file_read(path, 4096, &text, NULL, diag);

    if (err)
        return err;
    err = mn_key_parse(text, key, &why);
    memset(text, 0, strlen(text));
    free(text);
    return err ? mn_fail(diag, err, "%s: %s", path, why.text) : MN_OK;
}

enum mn_err mn_key_to_stdin(const uint8_t key[MN_KEY_SIZE], struct mn_diag *diag)
{
    char text[2 * MN_KEY_SIZE + 1];
    int fds[2];

    for (int i = 0; i < MN_KEY_SIZE; i++)
        snprintf(text + (size_t)2 * i, 3, "%02x", key[i]);
    if (pipe2(fds, O_CLOEXEC))
        return mn_fail_errno(diag, "a pipe for the token");
    int failed =
        write(fds[1], text, sizeof text - 1) != sizeof text - 1 || dup2(fds[0], STDIN_FILENO) < 0;
    close(fds[0]);
    close(fds[1]);
    return failed ? mn_fail_errno(diag, "a pipe for the token") : MN_OK;
}
