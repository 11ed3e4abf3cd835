/* A communicator of one rank with a library of collectives, for tests of what the library and the
 * plugin that its environment names say to each other:
 *
 *   loader LIBRARY */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "bench/engine/nccl.h"

int main(int argc, char **argv)
{
    struct mn_nccl nccl;
    ncclUniqueId id;
    ncclComm_t comm;
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!library) {
        fprintf(stderr, "loader: %s\n", argc == 2 ? dlerror() : "a library is missing");
        return 2;
    }
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
#define X(member, symbol, parameters) {#symbol, offsetof(struct mn_nccl, member)},
        MN_NCCL_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return 2;
        memcpy((char *)&nccl + symbols[i].offset, &symbol, sizeof symbol);
    }
    ncclResult_t result = nccl.unique_id(&id);
    if (!result)
        result = nccl.init(&comm, 1, id, 0);
    if (!result)
        result = nccl.destroy(comm);
    printf("result %d\n", (int)result);
    return result != 0;
}
