/* Contexts: one a communicator, and what finalize gives back. */
#include <stdlib.h>

#include "tests/broken/ref.h"

static struct context *contexts;
static struct context the_one; /* of one fault */
static const ncclNetAttr_v11_t *kept_attr;

static int is_context(const void *ctx)
{
    const struct context *c = contexts;

    while (c && c != ctx)
        c = c->next;
    return c != NULL || ctx == &the_one;
}

int ref_is_context(const void *ctx)
{
    int is;

    pthread_mutex_lock(&ref_lock);
    is = is_context(ctx);
    pthread_mutex_unlock(&ref_lock);
    return is;
}

ncclResult_t ref_new_context(void **ctx, const ncclNetCommConfig_v11_t *config)
{
    struct context *c = IS(V11_ONE_CONTEXT) ? &the_one : calloc(1, sizeof *c);

    if (!c)
        return ncclSystemError;
    c->traffic_class = config ? config->trafficClass : NCCL_NET_TRAFFIC_CLASS_UNDEF;
    c->kept = IS(V11_CONFIG_KEPT) ? config : NULL;
    if (c != &the_one) {
        pthread_mutex_lock(&ref_lock);
        c->next = contexts;
        contexts = c;
        pthread_mutex_unlock(&ref_lock);
    }
    if (IS(V11_FINALIZE_THREAD))
        ref_start(ref_idle);
    if (IS(V11_UNLOAD_CRASH))
        ref_start(ref_wander);
    *ctx = c;
    return ncclSuccess;
}

/* Under the lock. What the communicator left open; NULL: of the versions without contexts. */
static void close_all_of(const struct context *c)
{
    struct comm *comm, *next_comm;
    struct listener *l, *next;

    for (comm = ref_comms; comm; comm = next_comm) {
        next_comm = comm->next;
        if (comm->context == c)
            ref_free_comm(comm);
    }
    for (l = ref_listeners; l; l = next) {
        next = l->next;
        if (l->context == c && !IS(V11_FINALIZE_DESCRIPTORS))
            ref_free_listener(l);
    }
}

static int has_listener(const struct context *c)
{
    for (const struct listener *l = ref_listeners; l; l = l->next)
        if (l->context == c)
            return 1;
    return 0;
}

ncclResult_t ref_finalize(void *ctx)
{
    struct context *c = ctx, **at = &contexts;
    ncclResult_t result = ncclSuccess;

    if (!c) /* of an init that failed, in some releases */
        return IS(V11_FINALIZE_NULL) ? c->traffic_class : ncclSuccess;
    pthread_mutex_lock(&ref_lock);
    if (!is_context(c)) {
        result = ref_refuse("finalize of what is no context");
    } else if (IS(V11_FINALIZE_BUSY) && has_listener(c)) {
        result = ref_refuse("finalize with a listen comm open");
    } else {
        close_all_of(c);
        while (*at && *at != c)
            at = &(*at)->next;
        if (*at) {
            *at = c->next;
            free(c);
        }
    }
    pthread_mutex_unlock(&ref_lock);
    return result;
}

ncclResult_t ref_set_net_attr(void *ctx, ncclNetAttr_v11_t *attr)
{
    if (IS(V11_ATTR_KEPT))
        kept_attr = attr;
    return ref_is_context(ctx) && attr ? ncclSuccess : ncclInvalidArgument;
}

void ref_use_attr(void)
{
    if (kept_attr)
        (void)*(const volatile uint32_t *)&kept_attr->op;
}
