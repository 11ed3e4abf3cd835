#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/mac.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int begin_errno = ENOSYS;

static void begin(void)
{
    uint8_t byte;
    ssize_t n;

    /* Where it cannot have randomness libsodium aborts the process. */
    while ((n = getrandom(&byte, 1, 0)) < 0 && errno == EINTR)
        ;
    if (n != 1)
        begin_errno = errno;
    else if (sodium_init() >= 0)
        begin_errno = 0;
}

/* What a MAC is for goes into it: the two sizes never give each other's values. */
static const uint8_t for64[crypto_generichash_blake2b_PERSONALBYTES] = "meshnet mac 64";
static const uint8_t for128[crypto_generichash_blake2b_PERSONALBYTES] = "meshnet mac 128";

static void blake2b(const uint8_t key[MN_KEY_SIZE], const void *data, size_t len,
                    const uint8_t *purpose, uint8_t mac[MN_MAC_SIZE])
{
    pthread_once(&once, begin);
    (void)crypto_generichash_blake2b_salt_personal(mac, MN_MAC_SIZE, data, len, key, MN_KEY_SIZE,
                                                   NULL, purpose);
}

uint64_t mn_mac64(const uint8_t key[MN_KEY_SIZE], const void *data, size_t len)
{
    uint8_t mac[MN_MAC_SIZE];
    uint64_t value = 0;

    blake2b(key, data, len, for64, mac);
    for (int i = 7; i >= 0; i--)
        value = value << 8 | mac[i];
    return value;
}

void mn_mac128(const uint8_t key[MN_KEY_SIZE], const void *data, size_t len,
               uint8_t mac[MN_MAC_SIZE])
{
    blake2b(key, data, len, for128, mac);
}

void mn_derive(const uint8_t key[MN_KEY_SIZE], const char *purpose, const void *data, size_t len,
               uint8_t derived[32])
{
    uint8_t personal[crypto_generichash_blake2b_PERSONALBYTES] = {0};

    memcpy(personal, purpose, strnlen(purpose, sizeof personal - 1));
    pthread_once(&once, begin);
    (void)crypto_generichash_blake2b_salt_personal(derived, 32, data, len, key, MN_KEY_SIZE, NULL,
                                                   personal);
}

int mn_mac_equal(const void *a, const void *b, size_t len)
{
    return !sodium_memcmp(a, b, len);
}

void mn_wipe(void *secret, size_t len)
{
    sodium_memzero(secret, len);
}

enum mn_err mn_random(void *buf, size_t len, struct mn_diag *diag)
{
    uint8_t *p = buf;

    pthread_once(&once, begin);
    if (begin_errno) {
        errno = begin_errno;
        return mn_fail_errno(diag, "libsodium does not start without getrandom");
    }
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
                       "expected %d hexadecimal digits and nothing else (found: %zu%s); this makes "
                       "them: " MN_KEY_MAKE,
                       2 * MN_KEY_SIZE, digits, *text ? ", then other text" : "");
    if (memcmp(key, key + 1, MN_KEY_SIZE - 1) == 0)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%d equal bytes keep nobody out; this makes better ones: " MN_KEY_MAKE,
                       MN_KEY_SIZE);
    return MN_OK;
}

/* Whether this process may not read that file, but has it as a credential, whose path that is. */
static int has_credential(const char *path, char *credential, size_t size)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");

    if (!folder || *path != '/' || !faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) || errno != EACCES)
        return 0;
    int n = snprintf(credential, size, "%s%s", folder, path);
    if (n < 0 || (size_t)n >= size)
        return 0;
    for (char *at = credential + strlen(folder) + 1; *at; at++)
        *at = *at == '/' ? '-' : *at;
    return !faccessat(AT_FDCWD, credential, R_OK, AT_EACCESS);
}

enum mn_err mn_key_read(const char *path, uint8_t key[MN_KEY_SIZE], struct mn_diag *diag)
{
    struct mn_diag why;
    char credential[512], *text;
    int stands_in = has_credential(path, credential, sizeof credential);
    enum mn_err err = mn_file_read_named(stands_in ? credential : path, 4096, &text, NULL, diag);

    if (err)
        return err;
    err = mn_key_parse(text, key, &why);
    mn_wipe(text, strlen(text));
    free(text);
    if (err && stands_in)
        return mn_fail(diag, err, "%s, for %s, which this user may not read: %s", credential, path,
                       why.text);
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
    mn_wipe(text, sizeof text);
    close(fds[0]);
    close(fds[1]);
    return failed ? mn_fail_errno(diag, "a pipe for the token") : MN_OK;
}
