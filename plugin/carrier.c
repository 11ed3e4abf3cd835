#include "plugin/carrier.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include "topo/base/alloc.h"

int mn_has_carrier(int fd, const char *netdev)
{
    struct ethtool_value link = {.cmd = ETHTOOL_GLINK};
    struct ifreq request = {.ifr_flags = 0};

    mn_strlcpy(request.ifr_name, netdev, sizeof request.ifr_name);
    if (ioctl(fd, SIOCGIFFLAGS, &request))
        return -1;
    if (!(request.ifr_flags & IFF_UP))
        return 0;
    request.ifr_data = (void *)&link;
    return ioctl(fd, SIOCETHTOOL, &request) ? -1 : link.data != 0;
}
