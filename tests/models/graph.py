#!/usr/bin/env python3
"""Ways for relay.pml:  graph.py ring|random|shared NUMBER [BITS]

ring: of so many nodes; a flow from each of them the long way round, over three relays where there are
so many, so that the trunks in one direction wait for each other when there is one class. random: a
connected graph of five to eight nodes and ways without a node twice, from that seed; thrown again
until they could wait in a circle. shared: so many flows over the same two trunks. Nodes of a way: S R1 ... Rk D; its trunks: R1 R2, R2 R3, ...
BITS (19): flows are left out that would give all together more places for a piece than that.
"""
import sys

FLOWS = 6


class Dice:
    """The same numbers everywhere, whatever version of whatever language."""

    def __init__(self, seed):
        self.state = seed * 2654435761 % 2**32

    def __call__(self, below):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return (self.state >> 8) % below


def ring(nodes, _):
    length = min(nodes, 5)
    return [[(first + i) % nodes for i in range(length)] for first in range(nodes)]


def shared(flows, _):
    return [[10 + f, 0, 1, 2, 20 + f] for f in range(flows)]


def trunks_of(way):
    return list(zip(way[1:-1], way[2:-1]))


def circle(ways):
    """Whether trunks could wait for each other, if a trunk had one class."""
    after = {}
    for over in map(trunks_of, ways):
        for one, other in zip(over, over[1:]):
            after.setdefault(one, set()).add(other)
    while after:
        # Who waits for nobody that waits is no part of one.
        free = [one for one, others in after.items() if not others & after.keys()]
        if not free:
            return True
        for one in free:
            del after[one]
    return False


def graph(dice):
    nodes = 5 + dice(4)
    joined = {node: set() for node in range(nodes)}
    cables = [(node, dice(node)) for node in range(1, nodes)]
    cables += [(dice(nodes), dice(nodes)) for _ in range(2 + dice(nodes))]
    for a, b in cables:
        if a != b:
            joined[a].add(b)
            joined[b].add(a)
    return joined


def ways_of(dice, joined, bits):
    ways = []
    for _ in range(100):
        way = [dice(len(joined))]
        while len(way) < 6:
            further = sorted(joined[way[-1]] - set(way))
            if not further or (len(way) > 4 and dice(2)):
                break
            way.append(further[dice(len(further))])
        # What is no more than S R D has no trunk, and shares no buffer.
        if len(way) > 3 and way not in ways and len(ways) < FLOWS and len(way) - 2 <= bits:
            ways.append(way)
            bits -= len(way) - 2
    return ways


def random(seed, bits):
    dice = Dice(seed)
    ways = []
    while not circle(ways):
        ways = ways_of(dice, graph(dice), bits)
    return ways


def main():
    number, bits = int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 19
    ways = {"ring": ring, "random": random, "shared": shared}[sys.argv[1]](number, bits)
    trunks = sorted({trunk for way in ways for trunk in trunks_of(way)})
    for way in ways:
        print("/*", *way, "*/")
    print("#define FLOWS", len(ways))
    print("#define HOPS", max(1, *(len(way) - 3 for way in ways)))
    print("#define TRUNKS", max(1, len(trunks)))
    print("inline lay_out()\n{\n    skip", end="")
    for f, way in enumerate(ways):
        print(f";\n    length[{f}] = {len(way) - 3}", end="")
        for h, trunk in enumerate(trunks_of(way)):
            print(f";\n    way[{f} * HOPS + {h}] = {trunks.index(trunk)}", end="")
    print("\n}")


main()
