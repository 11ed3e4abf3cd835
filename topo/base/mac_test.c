#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/base/mac.h"

static uint8_t key[MN_KEY_SIZE], input[64];

static int fill(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof input; i++)
        input[i] = (uint8_t)i;
    return 0;
}

/* As Python's hashlib.blake2b with that digest_size, this key and the purpose as person. */
static void test_reference(void **state)
{
    static const uint8_t empty[] = {0x31, 0x90, 0x2e, 0x9f, 0xf5, 0x23, 0x18, 0xab,
                                    0x00, 0x9f, 0x98, 0x5d, 0x48, 0x53, 0x18, 0x9b};
    static const uint8_t longer[] = {0x9a, 0xde, 0x20, 0x0e, 0xdf, 0x38, 0x4f, 0xe8,
                                     0x7b, 0xf6, 0x48, 0x9a, 0xf8, 0xd6, 0xcf, 0xb3};
    static const uint8_t of_32[] = {0xfa, 0x95, 0x81, 0xa1, 0xc2, 0xdc, 0x51, 0x91,
                                    0xa7, 0xd9, 0xc9, 0xc4, 0xf1, 0xbb, 0x0a, 0x06,
                                    0x24, 0x2e, 0x51, 0x14, 0xd3, 0xd5, 0x0b, 0x1d,
                                    0xb1, 0xc0, 0x90, 0x7d, 0x3e, 0xb2, 0xdd, 0x6b};
    uint8_t mac[MN_MAC_SIZE], derived[32];

    (void)state;
    assert_true(mn_mac64(key, input, 15) == 0x0465fba5d1facb1e);
    mn_mac128(key, NULL, 0, mac);
    assert_memory_equal(mac, empty, sizeof mac);
    mn_mac128(key, input, sizeof input, mac);
    assert_memory_equal(mac, longer, sizeof mac);
    mn_derive(key, "a purpose", input, sizeof input, derived);
    assert_memory_equal(derived, of_32, sizeof derived);
}

/* Every length, and every bit of key and input, changes the result. */
static void test_every_bit_counts(void **state)
{
    uint8_t seen[sizeof input + 1][MN_MAC_SIZE], mac[MN_MAC_SIZE];

    (void)state;
    for (size_t len = 0; len <= sizeof input; len++) {
        mn_mac128(key, input, len, seen[len]);
        for (size_t i = 0; i < len; i++)
            assert_memory_not_equal(seen[i], seen[len], MN_MAC_SIZE);
    }
    for (size_t bit = 0; bit < 8 * sizeof input; bit++) {
        input[bit / 8] ^= (uint8_t)(1u << bit % 8);
        mn_mac128(key, input, sizeof input, mac);
        assert_memory_not_equal(mac, seen[sizeof input], sizeof mac);
        input[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof key; bit++) {
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
        mn_mac128(key, input, sizeof input, mac);
        assert_memory_not_equal(mac, seen[sizeof input], sizeof mac);
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void test_equal(void **state)
{
    uint8_t a[MN_MAC_SIZE] = {1}, b[MN_MAC_SIZE] = {1};

    (void)state;
    assert_true(mn_mac_equal(a, b, sizeof a));
    assert_true(mn_mac_equal(a, b, 0));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x80;
        assert_false(mn_mac_equal(a, b, sizeof a));
        b[i] ^= 0x80;
    }
}

static void test_key_parse(void **state)
{
    static const char *const wrong[] = {
        "",
        "  ",
        "00112233445566778899aabbccddeef",
        "00112233445566778899aabbccddeeff0",
        "00112233445566778899aabbccddeefg",
        "0011223344556677 8899aabbccddeeff",
        "0x112233445566778899aabbccddeeff00",
        "00112233445566778899aabbccddeeff x",
    };
    static const char *const weak[] = {
        "00000000000000000000000000000000",
        "ffffffffffffffffffffffffffffffff",
        " abababababababababababababababab\n",
    };
    static const uint8_t want[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                   0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    uint8_t got[MN_KEY_SIZE];
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_key_parse(" \n00112233445566778899aAbBcCdDeEfF\n", got, &diag), MN_OK);
    assert_memory_equal(got, want, sizeof want);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(mn_key_parse(wrong[i], got, &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, "32 hexadecimal digits"));
        assert_non_null(strstr(diag.text, MN_KEY_MAKE));
        /* A key never shows in a message. */
        assert_null(strstr(diag.text, "5566"));
    }
    for (size_t i = 0; i < sizeof weak / sizeof *weak; i++) {
        assert_int_equal(mn_key_parse(weak[i], got, &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, "equal bytes"));
        assert_non_null(strstr(diag.text, MN_KEY_MAKE));
        assert_null(strstr(diag.text, "abab"));
    }
    assert_int_equal(mn_key_parse("00000000000000000000000000000001", got, &diag), MN_OK);
    assert_int_equal(mn_key_read("/nonexistent/key", got, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "/nonexistent/key"));
    assert_int_equal(mn_key_read("/dev/null", got, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "/dev/null"));
}

/* As a user who may not read it: without credentials, with its own, with one that is no key. */
static int reads_credential(const char *folder, const char *secret, const char *credential)
{
    uint8_t got[MN_KEY_SIZE];
    char path[128];
    struct mn_diag diag;

    if (!geteuid() && setresuid(65534, 65534, 65534))
        return 1;
    unsetenv("CREDENTIALS_DIRECTORY");
    if (mn_key_read(secret, got, &diag) != MN_ERR_CONFIG || !strstr(diag.text, secret))
        return 2;
    setenv("CREDENTIALS_DIRECTORY", folder, 1);
    if (mn_key_read(secret, got, &diag) || got[15] != 2)
        return 3;
    /* What is not there is not forbidden, and what may be read is taken. */
    snprintf(path, sizeof path, "%s/root/none", folder);
    if (mn_key_read(path, got, &diag) != MN_ERR_CONFIG || !strstr(diag.text, path))
        return 4;
    snprintf(path, sizeof path, "%s/root/open", folder);
    if (mn_key_read(path, got, &diag) || got[15] != 3)
        return 5;
    if (truncate(credential, 3))
        return 6;
    return mn_key_read(secret, got, &diag) == MN_ERR_CONFIG && strstr(diag.text, secret) &&
                   strstr(diag.text, credential)
               ? 0
               : 7;
}

static void put_key(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_key_as_credential(void **state)
{
    static const char *const keys[] = {"key", "open", "none"};
    char folder[] = "/tmp/mac_test.XXXXXX", root[64], path[3][96], credential[3][128];
    int status;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    snprintf(root, sizeof root, "%s/root", folder);
    assert_int_equal(mkdir(root, 0755), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", root, keys[i]);
        snprintf(credential[i], sizeof credential[i], "%s/tmp-%s-root-%s", folder,
                 folder + strlen("/tmp/"), keys[i]);
        put_key(credential[i], "00000000000000000000000000000002", 0666);
    }
    put_key(path[0], "00000000000000000000000000000001", 0);
    put_key(path[1], "00000000000000000000000000000003", 0444);
    pid_t pid = fork();
    if (!pid)
        _exit(reads_credential(folder, path[0], credential[0]));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < 3; i++) {
        unlink(path[i]);
        unlink(credential[i]);
    }
    rmdir(root);
    rmdir(folder);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* What the message says to type gives what is accepted. */
static void test_key_make(void **state)
{
    FILE *pipe = popen(MN_KEY_MAKE, "r");
    uint8_t got[MN_KEY_SIZE];
    char text[100] = "";

    (void)state;
    assert_non_null(pipe);
    assert_true(fread(text, 1, sizeof text - 1, pipe) > 0);
    assert_int_equal(pclose(pipe), 0);
    assert_int_equal(mn_key_parse(text, got, NULL), MN_OK);
}

static void test_random(void **state)
{
    uint8_t a[32] = {0}, b[32] = {0};

    (void)state;
    assert_int_equal(mn_random(a, sizeof a, NULL), MN_OK);
    assert_int_equal(mn_random(b, sizeof b, NULL), MN_OK);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_every_bit_counts),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_key_parse),
        cmocka_unit_test(test_key_as_credential),
        cmocka_unit_test(test_key_make),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
