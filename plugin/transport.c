#include "plugin/transport.h"

const struct mn_transport *const mn_transports[] = {
    &mn_transport_verbs,
    &mn_transport_tcp,
    &mn_transport_relay,
    NULL,
};

const struct mn_transport *mn_transport_of(enum mn_transport_kind kind)
{
    for (int i = 0;; i++)
        if (!mn_transports[i] || mn_transports[i]->kind == kind)
            return mn_transports[i];
}
