#include "topo/fabric.h"

/* The part of the wire's bits that is payload in full packets. Ethernet adds 38 bytes (preamble,
 * header, check, gap: IEEE 802.3). TCP over IPv4 with timestamps takes 52 of the MTU (RFC 9293,
 * 7323). RoCEv2 puts IP, UDP, BTH and ICRC, 44 bytes, around a path MTU that is a power of two of
 * at most 4096 (IBTA, annex A17). */
double mn_fabric_payload(int mtu, int rdma)
{
    int path = 4096;

    if (mtu < 576)
        return 1;
    if (!rdma)
        return (mtu - 52) / (mtu + 38.0);
    while (path > 256 && path + 44 + 16 > mtu)
        path /= 2;
    return path / (path + 44 + 38.0);
}
