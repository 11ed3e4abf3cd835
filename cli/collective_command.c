/* How a rank at another host is told what to measure: the command line that has the same meaning
 * there. Each option is one word, "--name=value". */
#include <stdint.h>
#include <stdlib.h>

#include "cli/bench_collective.h"
#include "topo/base/alloc.h"

static void add(struct mn_opt_list *words, char *word)
{
    *(const char **)mn_grow((void **)&words->items, &words->count, sizeof word) = word;
}

static void add_list(struct mn_opt_list *words, const char *option, const struct mn_opt_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        add(words, mn_asprintf("--%s=%s", option, list->items[i]));
}

static void add_number(struct mn_opt_list *words, const char *option, long number)
{
    if (number)
        add(words, mn_asprintf("--%s=%ld", option, number));
}

void mn_collective_words(const struct mn_bench_options *o, struct mn_opt_list *words)
{
    struct mn_repeat_plan repeat = mn_bench_repeat(o);

    *words = (struct mn_opt_list){.count = 0};
    if (o->links)
        add(words, mn_asprintf("%s", "--links"));
    if (o->pairs)
        add(words, mn_asprintf("%s", "--pairs"));
    add_list(words, "collective", &o->collectives);
    add_list(words, "sizes", &o->sizes);
    add_list(words, "type", &o->types);
    add_list(words, "op", &o->ops);
    add_list(words, "algorithm", &o->algorithms);
    add(words, mn_asprintf("--pin=%s", o->pin));
    if (o->engine) {
        add(words, mn_asprintf("--engine=%s", o->engine == MN_ENGINE_RCCL ? "rccl" : "nccl"));
        add_list(words, "networks", &o->networks);
        if (o->library)
            add(words, mn_asprintf("--library=%s", o->library));
        if (o->apart)
            add(words, mn_asprintf("%s", "--apart"));
    }
    add_number(words, "root", o->root);
    add_number(words, "iters", o->iters);
    add_number(words, "warmup", o->warmup);
    add_number(words, "abi", o->abi);
    add_number(words, "device", o->device);
    add(words, mn_asprintf("--memory=%s", mn_memory_names[o->memory]));
    add(words, mn_asprintf("--gpu=%ld", o->gpu));
    add(words, mn_asprintf("--duration=%ums", repeat.duration_ms));
    add(words, mn_asprintf("--max-duration=%ums", repeat.most_ms));
    add(words, mn_asprintf("--precision=%g", repeat.precision));
    add(words, mn_asprintf("--timeout=%ums", o->timeout_ms));
    if (o->predict)
        add(words, mn_asprintf("%s", "--predict"));
    if (o->no_check)
        add(words, mn_asprintf("%s", "--no-check"));
}

void mn_collective_free_words(struct mn_opt_list *words)
{
    for (size_t i = 0; i < words->count; i++)
        free((char *)(uintptr_t)words->items[i]);
    free(words->items);
}
