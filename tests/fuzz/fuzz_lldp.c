/* Any bytes as LLDP: refused with a reason, or texts that a terminal can show. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/lldp.h"
#include "topo/base/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, size_t room)
{
    char copy[64];

    if (room > sizeof copy || strnlen(text, room) == room)
        abort();
    memcpy(copy, text, strlen(text) + 1);
    if (strcmp(mn_clean(copy), text) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mn_diag diag = {.text = ""};
    struct mn_lldp lldp;

    if (mn_lldp_parse(data, size, &lldp, &diag)) {
        if (!diag.text[0])
            abort();
        return 0;
    }
    check(lldp.chassis, sizeof lldp.chassis);
    check(lldp.port, sizeof lldp.port);
    check(lldp.system, sizeof lldp.system);
    check(lldp.described, sizeof lldp.described);
    return 0;
}
