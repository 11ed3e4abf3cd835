#!/usr/bin/env bats
# Three nodes, each cabled to both others: discover, verify-plugin and bench over RDMA, GIDs that
# move, processes and machines that die.

load helper
load traffic

MESH=$TOP/configs/triangle.yaml

setup_file()
{
    local node
    lab_up "$MESH"
    mkdir "$BATS_FILE_TMPDIR/own"
    for node in spark-a spark-b spark-c; do
        on $node "$MESHNET discover -o /root/own.yaml >/dev/null && cat /root/own.yaml" \
            >"$BATS_FILE_TMPDIR/own/$node.yaml"
        serve_on $node "$MESH"
    done
}

teardown_file()
{
    lab_down
}

setup()
{
    FOUND=$BATS_FILE_TMPDIR/mesh.yaml
}

# What two mesh files must have in common, whatever they call their NICs and links.
wiring()
{
    "$MESHNET" discover --check "$1" --json | jq -S '
        (.nics | map({key: "\(.node)/\(.nic)", value: "\(.node)/\(.netdev)"}) | from_entries) as $netdev |
        {nodes: [.nodes[].node] | sort,
         nics: [.nics[] | {node, netdev, device, port, addresses, mtu}] | sort,
         links: [.links[] | {subnet, ends: ([$netdev[.a], $netdev[.b]] | sort)}] | sort}'
}

@test "discover on each node finds what the lab was wired from" {
    "$MESHNET" discover -o "$FOUND" --merge "$BATS_FILE_TMPDIR"/own/*.yaml
    diff <(wiring "$MESH") <(wiring "$FOUND")
    ! grep -q mgmt "$FOUND"
    [ "$(grep -c 'gid: {index: 1, address: ' "$FOUND")" -eq 6 ]
}

@test "verify-plugin passes on an RDMA device, and RDMA carried it" {
    local before after
    before=$(rdma_packets spark-a)
    LAB_TIMEOUT=300 run on spark-a "MESHNET_CONFIG=$MESH $MESHNET verify-plugin"
    echo "$output"
    [ "$status" -eq 0 ]
    after=$(rdma_packets spark-a)
    # What the rules move fills that many packets of 4096 bytes; nothing else does.
    [ $((after - before)) -gt 4000 ]
}

@test "bench: every pair over RDMA, over its own link only, the third node stays out of it" {
    local a b c nic_a nic_b before
    while read -r a b c nic_a nic_b; do
        before=$(rdma_packets $c)
        bench_on $a $b "$MESH" --sizes 64,64K,1M --iters 8 --direction both
        [ "$status" -eq 0 ]
        carried_by_rdma $nic_a $nic_b
        [ $(($(rdma_packets $c) - before)) -lt 20 ]
    done <<END
spark-a spark-b spark-c enp1s0f0np0 enp1s0f0np0
spark-a spark-c spark-b enp1s0f1np1 enp1s0f0np0
spark-b spark-c spark-a enp1s0f1np1 enp1s0f1np1
END
}
