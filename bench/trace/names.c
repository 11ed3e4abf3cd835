#include "bench/trace/format.h"

const struct mn_trace_name mn_trace_names[MN_TRACE_N_OPS] = {
#define X(op, name, a, b, c) [MN_TRACE_##op] = {name, {a, b, c}},
    MN_TRACE_OPS(X)
#undef X
};
