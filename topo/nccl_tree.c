#include "topo/nccl_tree.h"

/* The lowest bit of a number is its height above the leaves: odd numbers are leaves, 0 is the root.
 */
static int parent(int n, int node)
{
    if (!node)
        return -1;
    int low = node & -node, up = (node - low) | (low << 1);
    return up < n ? up : node - low;
}

/* Leaves of one tree are inner nodes of the other: for that the second is mirrored, or, where a
 * mirror would leave leaves leaves, moved on by one. */
int mn_nccl_tree_parent(int n, int tree, int node)
{
    if (!tree)
        return parent(n, node);
    int moved = n % 2, as = moved ? (node + n - 1) % n : n - 1 - node, up = parent(n, as);
    if (up < 0)
        return -1;
    return moved ? (up + 1) % n : n - 1 - up;
}
