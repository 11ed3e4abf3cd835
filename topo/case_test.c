/* Ports as they are called on the case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "topo/case.h"

static void ports_have_the_names_of_the_case(void **state)
{
    static const struct {
        const char *model, *netdev, *pci, *phys_port, *label;
    } rows[] = {
        {"NVIDIA_DGX_Spark", "enp1s0f0np0", "0000:01:00.0", "b03d6d00030a6630/p0", "left"},
        {"NVIDIA_DGX_Spark", "enP2p1s0f0np0", "0002:01:00.0", "b03d6d00030a6630/p0", "left"},
        {"NVIDIA DGX Spark", "enp1s0f1np1", "0000:01:00.1", "b03d6d00030a6630/p1", "right"},
        {"nvidia dgx spark", "enP2p1s0f1np1", "0002:01:00.1", "", "right"},
        {"NVIDIA_DGX_Spark", "enP7s7", "0007:01:00.0", "", ""},
        {"NVIDIA_DGX_Spark", "wlP9s9", "0009:01:00.0", "", ""},
        {"GX10", "enp1s0f1np1", "0000:01:00.1", "b0/p1", "port 1"},
        {"", "enp65s0f0np0", "0000:41:00.0", "", "port 0"},
        {"", "enp65s0f1", "0000:41:00.1", "", "port 1"},
        {"", "cable", "0000:41:00.1", "", "port 1"},
        {"", "cable", "0000:41:00.0", "", ""},
        {"", "cable", "0000:41:00.0", "04:fd/p2", "port 2"},
        {"", "thunderbolt0", "", "", ""},
        {"", "eth0", "", "", ""},
        {"", "enp1s0", "", "", ""},
        {"", "enp", "", "", ""},
        {"", "", "", "", ""},
        {"", "enp1s0f99999999999", "", "x/p99999999999", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char label[32];

        mn_case_label(rows[i].model, rows[i].netdev, rows[i].pci, rows[i].phys_port, label,
                      sizeof label);
        if (strcmp(label, rows[i].label) != 0)
            fail_msg("%s %s %s %s: \"%s\", expected \"%s\"", rows[i].model, rows[i].netdev,
                     rows[i].pci, rows[i].phys_port, label, rows[i].label);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ports_have_the_names_of_the_case)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
