#include "plugin/gpu/library.h"

#include <dlfcn.h>
#include <string.h>

enum mn_err mn_gpu_library_open(const char *const *names, int load,
                                const struct mn_gpu_symbol *symbols, size_t n, void *table,
                                struct mn_diag *diag)
{
    void *library = NULL;
    const char *const *name = names;

    for (; *name && !library; name += !library)
        library = dlopen(*name, RTLD_NOW | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (!library)
        return mn_fail(diag, MN_ERR_NOTFOUND, "%s cannot be loaded: is the GPU's driver installed?",
                       names[0]);
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol && !symbols[i].optional) {
            dlclose(library);
            return mn_fail(diag, MN_ERR_UNSUPPORTED,
                           "%s has no %s: the driver is too old, or not what its name says", *name,
                           symbols[i].name);
        }
        memcpy((char *)table + symbols[i].offset, &symbol, sizeof symbol);
    }
    return MN_OK; /* stays loaded: drivers do not survive being unloaded */
}

enum mn_err mn_gpu_explain(const char *vendor, const char *doing, int code, const char *name,
                           const struct mn_gpu_advice *advice, struct mn_diag *diag)
{
    while (advice->text && advice->code != code)
        advice++;
    return mn_fail(diag, advice->text ? advice->err : MN_ERR_SYS, "%s: %s: %s (%d)%s%s", vendor,
                   doing, name ? name : "unknown error", code, advice->text ? ": " : "",
                   advice->text ? advice->text : "");
}
