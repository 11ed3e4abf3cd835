#include "plugin/gpu/library.h"

#include <dlfcn.h>
#include <string.h>

enum mn_err mn_gpu_library_open(const char *const *names, const char *hint, int load,
                                const struct mn_gpu_symbol *symbols, size_t n, void *table,
                                struct mn_diag *diag)
{
    void *library = NULL;
    const char *const *name = names;

    for (; *name && !library; name += !library)
        library = dlopen(*name, RTLD_NOW | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (!library)
        return mn_fail(diag, MN_ERR_NOTFOUND, "%s cannot be loaded: %s", names[0], hint);
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol && !symbols[i].optional) {
            dlclose(library);
            return mn_fail(diag, MN_ERR_UNSUPPORTED,
                           "%s has no %s: it is too old, or not what its name says", *name,
                           symbols[i].name);
        }
        memcpy((char *)table + symbols[i].offset, &symbol, sizeof symbol);
    }
    return MN_OK; /* stays loaded: drivers do not survive being unloaded */
}

enum mn_err mn_gpu_open_once(struct mn_gpu_once *once,
                             enum mn_err (*begin)(int load, struct mn_diag *diag), int load,
                             struct mn_diag *diag)
{
    pthread_mutex_lock(&once->lock);
    enum mn_err err = once->opened ? MN_OK : once->broken.code;
    struct mn_diag why = once->broken;
    if (!once->opened && !err) {
        err = begin(load, &why);
        once->opened = !err;
        if (err && err != MN_ERR_NOTFOUND)
            once->broken = why;
    }
    pthread_mutex_unlock(&once->lock);
    if (err && diag)
        *diag = why;
    return err;
}

enum mn_err mn_gpu_check_number(const char *vendor, int device, int n, struct mn_diag *diag)
{
    return device >= 0 && device < n
               ? MN_OK
               : mn_fail(diag, MN_ERR_CONFIG, "%s: no GPU %d: there %s %d, from 0 on", vendor,
                         device, n == 1 ? "is" : "are", n);
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
