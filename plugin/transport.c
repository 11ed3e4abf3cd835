#include "plugin/transport.h"

const struct mn_transport *const mn_transports[] = {
    &mn_transport_tcp,
    NULL,
};
