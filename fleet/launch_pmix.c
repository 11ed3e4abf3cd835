#include "fleet/launch_pmix.h"

#include <stdlib.h>

int mn_pmix_offered(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

#ifdef MESHNET_PMIX

#include <dlfcn.h>
#include <pmix.h>
#include <string.h>

#include "fleet/group.h"
#include "topo/base/alloc.h"

#define KEY "meshnet.rank0"

/* The functions used, by the library's own declarations. */
static struct {
    void *library;
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence) *fence;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Error_string) *error_string;
    pmix_proc_t self;
    int begun;
} pmix;

static const struct {
    const char *name;
    void **at;
} functions[] = {
    {"PMIx_Init", (void **)&pmix.init},
    {"PMIx_Finalize", (void **)&pmix.finalize},
    {"PMIx_Put", (void **)&pmix.put},
    {"PMIx_Commit", (void **)&pmix.commit},
    {"PMIx_Fence", (void **)&pmix.fence},
    {"PMIx_Get", (void **)&pmix.get},
    {"PMIx_Error_string", (void **)&pmix.error_string},
};

static enum mn_err open_library(struct mn_diag *diag)
{
    pmix.library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!pmix.library)
        return mn_fail(diag, MN_ERR_UNSUPPORTED, "the launcher speaks PMIx, this host does not: %s",
                       dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!(*functions[i].at = dlsym(pmix.library, functions[i].name)))
            return mn_fail(diag, MN_ERR_UNSUPPORTED, "libpmix.so.2 has no %s", functions[i].name);
    return MN_OK;
}

static enum mn_err failed(const char *call, pmix_status_t status, struct mn_diag *diag)
{
    return mn_fail(diag, status == PMIX_ERR_TIMEOUT ? MN_ERR_TIMEOUT : MN_ERR_FAILED, "%s: %s",
                   call, pmix.error_string(status));
}

enum mn_err mn_pmix_begin(int *rank, int *nranks, struct mn_diag *diag)
{
    enum mn_err err = open_library(diag);
    pmix_value_t *size = NULL;

    if (err)
        return err;
    pmix_status_t status = pmix.init(&pmix.self, NULL, 0);
    if (status != PMIX_SUCCESS)
        return failed("PMIx_Init", status, diag);
    pmix.begun = 1;
    pmix_proc_t all = pmix.self;
    all.rank = PMIX_RANK_WILDCARD;
    status = pmix.get(&all, PMIX_JOB_SIZE, NULL, 0, &size);
    if (status != PMIX_SUCCESS)
        return failed("PMIx_Get of the number of ranks", status, diag);
    uint32_t n = size->type == PMIX_UINT32 ? size->data.uint32 : 0;
    free(size);
    if (n < 1 || n > MN_GROUP_RANKS || pmix.self.rank >= n)
        return mn_fail(diag, MN_ERR_CONFIG, "PMIx: rank %u of %u; expected up to %d",
                       pmix.self.rank, n, MN_GROUP_RANKS);
    *rank = (int)pmix.self.rank;
    *nranks = (int)n;
    return MN_OK;
}

static enum mn_err publish(char *line, struct mn_diag *diag)
{
    pmix_value_t value = {.type = PMIX_STRING, .data.string = line};
    pmix_status_t status = pmix.put(PMIX_GLOBAL, KEY, &value);

    if (status == PMIX_SUCCESS)
        status = pmix.commit();
    return status == PMIX_SUCCESS ? MN_OK : failed("PMIx_Put", status, diag);
}

static enum mn_err look_up(char *line, size_t size, struct mn_diag *diag)
{
    pmix_proc_t zero = pmix.self;
    pmix_value_t *value = NULL;

    zero.rank = 0;
    pmix_status_t status = pmix.get(&zero, KEY, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return failed("PMIx_Get of rank 0's address", status, diag);
    int fits = value->type == PMIX_STRING && mn_strlcpy(line, value->data.string, size);
    if (value->type == PMIX_STRING)
        free(value->data.string);
    free(value);
    return fits ? MN_OK : mn_fail(diag, MN_ERR_PROTO, "PMIx: rank 0's address is no line of text");
}

enum mn_err mn_pmix_share(char *line, size_t size, unsigned timeout_ms, struct mn_diag *diag)
{
    pmix_info_t info[2] = {{.value = {.type = PMIX_BOOL, .data.flag = true}},
                           {.value = {.type = PMIX_INT,
                                      .data.integer = (int)timeout_ms / 1000 + 1}}};
    enum mn_err err = pmix.self.rank ? MN_OK : publish(line, diag);

    mn_strlcpy(info[0].key, PMIX_COLLECT_DATA, sizeof info[0].key);
    mn_strlcpy(info[1].key, PMIX_TIMEOUT, sizeof info[1].key);
    if (err)
        return err;
    pmix_status_t status = pmix.fence(NULL, 0, info, 2);
    if (status != PMIX_SUCCESS)
        return failed("PMIx_Fence", status, diag);
    return pmix.self.rank ? look_up(line, size, diag) : MN_OK;
}

void mn_pmix_end(void)
{
    if (pmix.begun)
        (void)pmix.finalize(NULL, 0);
    pmix.begun = 0;
}

#else

enum mn_err mn_pmix_begin(int *rank, int *nranks, struct mn_diag *diag)
{
    *rank = *nranks = 0;
    return mn_fail(diag, MN_ERR_UNSUPPORTED,
                   "the launcher speaks PMIx, this meshnet was built without its headers "
                   "(libpmix-dev)");
}

enum mn_err mn_pmix_share(char *line, size_t size, unsigned timeout_ms, struct mn_diag *diag)
{
    (void)line, (void)size, (void)timeout_ms;
    return mn_fail(diag, MN_ERR_UNSUPPORTED, "built without PMIx");
}

void mn_pmix_end(void)
{
}

#endif
