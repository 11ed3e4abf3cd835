#!/usr/bin/env bats
# meshnet discover --neighbors: nodes in namespaces, cabled, without an address.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnn$$
    NODES=()
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN
    export NO_COLOR=1
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD XDG_CONFIG_HOME=$PWD/none
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	MESHNET_NODE=\$2 exec nsenter --net=/run/netns/$NS-\$2 sh -c "\$3"
	END
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
}

teardown()
{
    local node
    for node in "${NODES[@]}"; do
        ip netns del "$NS-$node" 2>/dev/null || true
    done
}

# nodes NAME…: IPv6 addresses are there at once.
nodes()
{
    local node
    for node; do
        ip netns add "$NS-$node"
        NODES+=("$node")
        on "$node" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad'
        ip -n "$NS-$node" link set lo up
    done
}

# wire NODE NIC NODE NIC [MTU MTU]
wire()
{
    ip link add "$2" netns "$NS-$1" mtu "${5:-9000}" type veth \
        peer name "$4" netns "$NS-$3" mtu "${6:-${5:-9000}}"
    ip -n "$NS-$1" link set "$2" up
    ip -n "$NS-$3" link set "$4" up
}

# bridge NODE NIC…: a node that is nothing but a bridge of these.
bridge()
{
    local node=$1 nic
    shift
    ip -n "$NS-$node" link add bridge0 type bridge
    for nic; do
        ip -n "$NS-$node" link set "$nic" master bridge0
    done
    ip -n "$NS-$node" link set bridge0 mtu "${BRIDGE_MTU:-9000}" up
}

# no_ipv6 NODE NIC
no_ipv6()
{
    on "$1" sh -c "echo 1 >/proc/sys/net/ipv6/conf/$2/disable_ipv6"
}

neighbors()
{
    run --separate-stderr timeout -k 1 100 "$MESHNET" discover --neighbors "$@"
    echo "$output"
    echo "$stderr"
}

# neighbors_at NODE OPTION…: of that node alone.
neighbors_at()
{
    local node=$1
    shift
    run --separate-stderr on "$node" env MESHNET_NODE="$node" timeout -k 1 100 \
        "$MESHNET" discover --neighbors "$@"
    echo "$output"
    echo "$stderr"
}

# cables: of the JSON in $output, "a/nic b/nic mtu mtu by state", sorted.
cables()
{
    jq -r '.cables[] | [.a + "/" + .a_netdev, .b + "/" + .b_netdev, .mtu_out, .mtu_back, .by, .state]
        | join(" ")' <<<"$output" | sort
}

@test "neighbors: a pair is found over IPv6, and its mesh file is one of bare cables" {
    nodes a b
    wire a e0 b e1
    neighbors --hosts a,b --json -o mesh.yaml
    [ "$status" -eq 0 ]
    [ "$(cables)" = "a/e0 b/e1 9000 9000 ipv6 up" ]
    [ "$(jq -r .shape <<<"$output")" = pair ]
    [ "$(jq -r .written <<<"$output")" = mesh.yaml ]
    run "$MESHNET" discover --check mesh.yaml --json
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.links[0] | .a, .b, .subnet]' <<<"$output")" = '["a/e0","b/e1",null]' ]
    # No address came and none went.
    [ -z "$(ip -n $NS-a -4 -o addr show dev e0)" ]
}

@test "neighbors: a ring of four is a ring" {
    nodes a b c d
    wire a right b left
    wire b right c left
    wire c right d left
    wire d right a left
    neighbors --hosts a,b,c,d --save-survey survey.json -o mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"4 nodes, 4 cables: ring"* ]]
    neighbors --survey survey.json --json
    [ "$status" -eq 0 ]
    [ "$(cables)" = "a/left d/right 9000 9000 ipv6 up
a/right b/left 9000 9000 ipv6 up
b/right c/left 9000 9000 ipv6 up
c/right d/left 9000 9000 ipv6 up" ]
    # What is there is not overwritten, and nothing is probed for it.
    neighbors --hosts a,b,c,d -o mesh.yaml
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"mesh.yaml exists"*--merge* ]]
}
