/* Whether a cable is in, as the driver says it now. */
#ifndef MN_CARRIER_H
#define MN_CARRIER_H

/* fd: any socket. 1; 0: the netdev is down or has no carrier; -1: nobody can say, errno says why:
 * there is none of this name here, or its driver does not tell. The flags of a netdev and what the
 * kernel tells of them follow up to a second later, where another netdev has lost its carrier just
 * before (linkwatch, net/core/link_watch.c). May wait for the lock of the kernel's network
 * configuration. */
int mn_has_carrier(int fd, const char *netdev);

#endif
