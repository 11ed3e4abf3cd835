/* Apart from the rest of the tuner: connections ask it, too. */
#include <stdatomic.h>

#include "plugin/tuner/tuning_impl.h"

static atomic_int acts;

void mn_tuning_has_acted(void)
{
    atomic_store(&acts, 1);
}

int mn_tuning_acts(void)
{
    return atomic_load(&acts);
}
