/* Whether a cable is in, as the driver says it now. */
#ifndef MN_CARRIER_H
#define MN_CARRIER_H

/* fd: any socket. 0: the netdev is down, has no carrier, or is gone; 1 also when it cannot be
 * asked. The flags of a netdev and what the kernel tells of them follow up to a second later, where
 * another netdev has lost its carrier just before (linkwatch, net/core/link_watch.c). May wait for
 * the lock of the kernel's network configuration. */
int mn_has_carrier(int fd, const char *netdev);

#endif
