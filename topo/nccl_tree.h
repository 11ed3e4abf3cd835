/* Who is whose parent in NCCL's two trees over nodes 0 to n - 1, which its all-reduce goes up and
 * down, each with half of the channels. Node numbers are NCCL's: by the first rank of each. Facts:
 * NCCL's src/graph/trees.cc, the same from 2.5 on. */
#ifndef MN_NCCL_TREE_H
#define MN_NCCL_TREE_H

#define MN_NCCL_TREES 2

/* -1: the node is the root. tree: 0 or 1. */
int mn_nccl_tree_parent(int n, int tree, int node);

#endif
