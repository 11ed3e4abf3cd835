/* The tables of raw.c against the facts: no field of the properties and no function is left out,
 * and what a call is given arrives in every version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "bench/check/raw.h"
#include "topo/base/alloc.h"

static const char *const optional[] = {"name",          "regMrDmaBuf", "getDeviceMr",
                                       "irecvConsumed", "makeVDevice", "setNetAttr"};

static int is_optional(const char *slot)
{
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (!strcmp(optional[i], slot))
            return 1;
    return 0;
}

static const struct mn_raw_field *find(const struct mn_raw_field *rows, size_t n, size_t offset)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].offset == offset)
            return &rows[i];
    return NULL;
}

static const cJSON *members_of(const cJSON *structs, const char *kind, int version, int *size)
{
    char name[64];

    snprintf(name, sizeof name, "%s_v%d_t", kind, version);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(structs, name);
    assert_non_null(type);
    *size = cJSON_GetObjectItemCaseSensitive(type, "sizeof")->valueint;
    return cJSON_GetObjectItemCaseSensitive(type, "members");
}

/* vProps is watched at its first two members only: the rest may stay as it was. */
static void check_fields(const cJSON *structs, const struct mn_raw_version *v)
{
    const cJSON *fact;
    int size, n = 0;

    cJSON_ArrayForEach(fact, members_of(structs, "ncclNetProperties", v->version, &size))
    {
        size_t offset = (size_t)cJSON_GetArrayItem(fact, 0)->valueint;
        const struct mn_raw_field *field = find(v->fields, v->n_fields, offset);
        int vprops = !strcmp(fact->string, "vProps");
        if (!field)
            fail_msg("v%d: %s is in no row", v->version, fact->string);
        if (vprops)
            assert_non_null(find(v->fields, v->n_fields, offset + sizeof(int)));
        else if (strcmp(field->name, fact->string) != 0 ||
                 (int)field->size != cJSON_GetArrayItem(fact, 1)->valueint)
            fail_msg("v%d: %s is in the row of %s", v->version, fact->string, field->name);
        n += 1 + vprops;
    }
    assert_int_equal(n, v->n_fields);
    assert_int_equal(size, v->props_size);
    assert_true(v->props_size <= MN_RAW_PROPS_MAX);
}

static void check_slots(const cJSON *structs, const struct mn_raw_version *v)
{
    const cJSON *fact;
    int size, n = 0;

    cJSON_ArrayForEach(fact, members_of(structs, "ncclNet", v->version, &size))
    {
        size_t offset = (size_t)cJSON_GetArrayItem(fact, 0)->valueint;
        const struct mn_raw_field *slot = find(v->slots, v->n_slots, offset);
        if (is_optional(fact->string) ? slot != NULL : !slot || strcmp(slot->name, fact->string))
            fail_msg("v%d: %s: %s", v->version, fact->string, slot ? slot->name : "in no row");
        n += slot != NULL;
    }
    assert_int_equal(n, v->n_slots);
    assert_int_equal(size, v->vtable_size);
}

static void test_tables(void **state)
{
    struct mn_diag diag;
    char *text = NULL;
    size_t len = 0;
    int version = MN_HOST_NEWEST;

    (void)state;
    assert_int_equal(mn_file_read(SOURCE_DIR "/tests/fixtures/nccl-abi.json", 1 << 20, &text, &len,
                                  &diag),
                     MN_OK);
    cJSON *root = cJSON_ParseWithLength(text, len);
    const cJSON *structs = cJSON_GetObjectItemCaseSensitive(root, "structs");
    assert_non_null(structs);
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++, version--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", version);
        assert_int_equal(v->version, version);
        assert_string_equal(v->symbol, symbol);
        check_fields(structs, v);
        check_slots(structs, v);
    }
    assert_int_equal(version, MN_HOST_OLDEST - 1);
    cJSON_Delete(root);
    free(text);
}

/* Properties whose every field differs, read back through each version's layout. */
static void test_properties(void **state)
{
    (void)state;
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++) {
        _Alignas(16) unsigned char bytes[MN_RAW_PROPS_MAX] = {0};
        struct mn_raw raw = {.version = v};
        struct mn_raw_props props;
        int n = v->version;
        for (size_t i = 0; i < v->n_fields; i++)
            memset(bytes + v->fields[i].offset, (int)(i + 1), v->fields[i].size);
        mn_raw_read_props(&raw, bytes, &props);
        struct {
            const char *field;
            uint64_t value;
            size_t size;
            int since;
            uint64_t otherwise;
        } rows[] = {
            {"name", (uintptr_t)props.name, 8, 4, 0},
            {"pciPath", (uintptr_t)props.pci_path, 8, 4, 0},
            {"guid", props.guid, 8, 4, 0},
            {"ptrSupport", (uint32_t)props.ptr_support, 4, 4, 0},
            {"speed", (uint32_t)props.speed, 4, 4, 0},
            {"port", (uint32_t)props.port, 4, 4, 0},
            {"maxComms", (uint32_t)props.max_comms, 4, 4, 0},
            {"maxRecvs", (uint32_t)props.max_recvs, 4, 5, 1},
            {"netDeviceType", (uint32_t)props.device_type, 4, 7, 0},
            {"netDeviceVersion", (uint32_t)props.device_version, 4, 7, 0},
            {"vProps.ndevs", (uint32_t)props.n_devs, 4, 9, 1},
            {"vProps.devs[0]", (uint32_t)props.devs0, 4, 9, 0},
            {"maxP2pBytes", props.max_p2p_bytes, 8, 9, 1 << 30},
            {"maxCollBytes", props.max_coll_bytes, 8, 9, 512 << 20},
        };
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            uint64_t expected = rows[r].otherwise;
            for (size_t i = 0; i < v->n_fields && n >= rows[r].since; i++)
                if (!strcmp(v->fields[i].name, rows[r].field)) {
                    expected = 0;
                    memset(&expected, (int)(i + 1), rows[r].size);
                }
            if (rows[r].value != expected)
                fail_msg("v%d: %s is %#llx", n, rows[r].field, (unsigned long long)rows[r].value);
        }
        assert_int_equal(props.has_v9, n >= 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
