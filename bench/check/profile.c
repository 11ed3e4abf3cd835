#include "bench/check/profile.h"

#include <stdio.h>
#include <string.h>

#define OPTIONAL MN_DIALECT_OPTIONAL_RECV
#define RCCL_NEW                                                                                   \
    (MN_DIALECT_SMALL_SLOT | MN_DIALECT_OPTIONAL_RECV | MN_DIALECT_OPTIONAL_SEND |                 \
     MN_DIALECT_DMABUF_ANYWAY)

const struct mn_check_profile mn_check_profiles[] = {
    {"nccl", 208, 211, 4, 4, 0, 0, 0, "NCCL 2.8 to 2.11"},
    {"nccl", 212, 212, 5, 4, 0, 0, 0, "NCCL 2.12"},
    {"nccl", 213, 218, 6, 4, 0, 0, 0, "NCCL 2.13 to 2.18"},
    {"nccl", 219, 219, 7, 5, 0, 0, 0, "NCCL 2.19"},
    {"nccl", 220, 220, 8, 5, 0, 0, 0, "NCCL 2.20"},
    {"nccl", 221, 221, 8, 5, 2, 2, 0, "NCCL 2.21"},
    {"nccl", 222, 223, 8, 5, 3, 2, MN_DIALECT_UNLOADS, "NCCL 2.22 and 2.23"},
    {"nccl", 224, 225, 9, 5, 4, 2, MN_DIALECT_UNLOADS | MN_DIALECT_MERGES_ONE | OPTIONAL,
     "NCCL 2.24 and 2.25"},
    {"nccl", 226, 226, 10, 6, 4, 2, MN_DIALECT_MERGES_ONE | OPTIONAL, "NCCL 2.26"},
    {"nccl", 227, 227, 10, 6, 4, 2, OPTIONAL, "NCCL 2.27"},
    {"nccl", 228, 229, 11, 6, 5, 2, MN_DIALECT_UNLOADS | MN_DIALECT_FINALIZE_FAILED | OPTIONAL,
     "NCCL 2.28 and 2.29"},
    {"nccl", 230, 230, 12, 6, 6, 2, MN_DIALECT_UNLOADS | OPTIONAL, "NCCL 2.30"},
    {"rccl", 405, 502, 4, 4, 0, 0, 0, "RCCL of ROCm 4.5 to 5.2"},
    {"rccl", 503, 503, 5, 4, 0, 0, 0, "RCCL of ROCm 5.3"},
    {"rccl", 504, 601, 6, 4, 0, 0, 0, "RCCL of ROCm 5.4 to 6.1"},
    {"rccl", 602, 604, 8, 5, 3, 2, MN_DIALECT_DMABUF_ANYWAY, "RCCL of ROCm 6.2 to 6.4"},
    {"rccl", 700, 799, 10, 6, 4, 2, RCCL_NEW, "RCCL of ROCm 7"},
    {"rccl", 228, 228, 11, 6, 5, 2, RCCL_NEW | MN_DIALECT_UNLOADS | MN_DIALECT_FINALIZE_FAILED,
     "RCCL on the base of NCCL 2.28"},
    {"rccl", 229, 230, 12, 6, 6, 2, RCCL_NEW | MN_DIALECT_UNLOADS,
     "RCCL on the base of NCCL 2.29 or newer"},
    {.library = NULL},
};

static enum mn_err unknown(const char *name, struct mn_diag *diag)
{
    char names[512] = "";

    for (const struct mn_check_profile *p = mn_check_profiles; p->library; p++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s-%d.%d", used ? ", " : "", p->library,
                 p->first / 100, p->first % 100);
    }
    return mn_fail(diag, MN_ERR_USAGE,
                   "no profile \"%s\"; each of these stands for the releases up to the next: %s",
                   name, names);
}

enum mn_err mn_check_profile_find(const char *name, const struct mn_check_profile **profile,
                                  struct mn_diag *diag)
{
    char library[8];
    unsigned major = 0, minor = 0;
    int length = 0;

    if (sscanf(name, "%7[a-z]-%2u%n", library, &major, &length) == 2 && name[length] == '.') {
        int more = 0;
        if (sscanf(name + length, ".%2u%n", &minor, &more) == 1)
            length += more;
    }
    for (const struct mn_check_profile *p = mn_check_profiles; length && p->library; p++)
        if (!name[length] && strcmp(library, p->library) == 0 &&
            (int)(major * 100 + minor) >= p->first && (int)(major * 100 + minor) <= p->last) {
            *profile = p;
            return MN_OK;
        }
    return unknown(name, diag);
}
