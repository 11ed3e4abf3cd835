#!/usr/bin/env bats
# Nodes without a common cable: a ring of four in namespaces beside a management network. Trees and
# all-to-all need every pair, and NCCL connects them whatever it will use.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnr$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_RANK MESHNET_WORLD "${!NCCL_@}"
    export NO_COLOR=1 MESHNET_TOKEN=00112233445566778899aabbccddeeff
    cd "$BATS_TEST_TMPDIR" || return
    managed 10.9.1 a b c d
    cable a ab 10.2.1.0/31 b ba 10.2.1.1/31
    cable b bc 10.2.2.0/31 c cb 10.2.2.1/31
    cable c cd 10.2.3.0/31 d dc 10.2.3.1/31
    cable d da 10.2.4.0/31 a ax 10.2.4.1/31
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: ab, addresses: [10.2.1.0/31]}
	      - {netdev: ax, addresses: [10.2.4.1/31]}
	      - {netdev: mgmt, addresses: [10.9.1.1/24], role: management}
	  - name: b
	    nics:
	      - {netdev: ba, addresses: [10.2.1.1/31]}
	      - {netdev: bc, addresses: [10.2.2.0/31]}
	      - {netdev: mgmt, addresses: [10.9.1.2/24], role: management}
	  - name: c
	    nics:
	      - {netdev: cb, addresses: [10.2.2.1/31]}
	      - {netdev: cd, addresses: [10.2.3.0/31]}
	      - {netdev: mgmt, addresses: [10.9.1.3/24], role: management}
	  - name: d
	    nics:
	      - {netdev: dc, addresses: [10.2.3.1/31]}
	      - {netdev: da, addresses: [10.2.4.0/31]}
	      - {netdev: mgmt, addresses: [10.9.1.4/24], role: management}
	END
    export MESHNET_CONFIG=$PWD/mesh.yaml
}

teardown()
{
    local node
    for node in a b c d m n0 n1 n2 n3 n4 n5 n6 n7; do
        ip netns del $NS-$node 2>/dev/null || true
    done
}

# route_through [NODE…]: routes to the opposite node through one neighbour, the same one in both
# directions; those nodes forward.
route_through()
{
    local node
    for node in a b c d; do
        on $node sh -c 'for file in /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/*/rp_filter; do
            echo 0 >"$file" || exit; done'
    done
    for node in "$@"; do
        on $node sysctl -qw net.ipv4.ip_forward=1
    done
    printf 'route add %s via %s\n' 10.2.2.1 10.2.1.1 10.2.3.0 10.2.4.0 | ip -n $NS-a -batch -
    printf 'route add %s via %s\n' 10.2.1.0 10.2.2.0 10.2.4.1 10.2.3.1 | ip -n $NS-c -batch -
    printf 'route add %s via %s\n' 10.2.3.1 10.2.2.1 10.2.4.0 10.2.1.0 | ip -n $NS-b -batch -
    printf 'route add %s via %s\n' 10.2.2.0 10.2.3.0 10.2.1.1 10.2.4.1 | ip -n $NS-d -batch -
}

declare -A DEVICES=()

# all_ranks OPTION…: a collective over the four; rank 0's report in report, each one's words in said.N.
all_ranks()
{
    local rank=0 node pids=() failed=0
    for node in a b c d; do
        on $node env FAKEVERBS="shm=$PWD/fabric,${DEVICES[$node]}" MESHNET_NODE=$node RANK=$rank WORLD_SIZE=4 MASTER_ADDR=10.9.1.1 \
            MASTER_PORT=18655 MESHNET_LOG=info timeout -k 1 100 "$MESHNET" bench --duration 20ms \
            --algorithm direct --timeout 30s --json "$@" >report.$rank 2>said.$rank &
        pids+=($!)
        rank=$((rank + 1))
    done
    for rank in 0 1 2 3; do
        wait "${pids[rank]}" || failed=$?
        sed "s/^/$rank: /" said.$rank
    done
    return $failed
}

# bytes NODE NIC: out and in.
bytes()
{
    on "$1" ip -s -j link show "$2" | jq '.[0].stats64 | .rx.bytes + .tx.bytes'
}

right()
{
    jq -e '[.. | objects | select(has("wrong")) | .wrong] | length > 0 and all(. == 0)' report.0
}

@test "far: every collective of a ring runs over the management network without any setting, and it is said once" {
    all_ranks --collective all-reduce,all-to-all,all-gather --sizes 8,64K
    right
    [ "$(grep -c 'has no cable to this node' said.0)" -eq 1 ]
    grep -q 'peer c has no cable to this node: TCP reaches it over the management network (10.9.1.1 to 10.9.1.3)' said.0
    run grep WARN said.0 said.1 said.2 said.3
    [ "$status" -eq 1 ]
}

@test "far: with a device for each NIC neighbours have their cable, whichever device was chosen" {
    MESHNET_DEVICE_MODE=per-link all_ranks --collective all-reduce --sizes 64K --algorithm ring
    right
    run grep -h WARN said.0 said.1 said.2 said.3
    [ "$status" -eq 1 ]
}

@test "far: routes through neighbours are taken before the management network" {
    route_through a b c d
    before=$(bytes a mgmt)
    all_ranks --collective all-to-all --sizes 1M --iters 4
    right
    grep -q 'TCP reaches it along the cables through [bd] (10.2.' said.0
    run grep 'over the management network' said.0 said.1 said.2 said.3
    [ "$status" -eq 1 ]
    # Rank 0's control connections are there; the data of 4 runs would be more than 8 MiB.
    [ $(($(bytes a mgmt) - before)) -lt 4000000 ]
}

@test "far: a way that drops packets is named, and another one taken" {
    route_through a b c d
    for node in a b c d; do
        on $node nft -f - <<-END
		table inet docker {
		  chain forward { type filter hook forward priority 0; policy drop; }
		}
		END
    done
    MESHNET_HANDSHAKE=2s all_ranks --collective all-to-all --sizes 64K
    right
    silent_way 'packets get as far as b, which forwards: its firewall may drop what passes (Docker'
}

# silent_way CAUSE: rank 0 has named that of the way through b, has gone over the management network
# and has warned of nothing.
silent_way()
{
    grep -q "along the cables through b (10.2.1.0 to 10.2.2.1): nobody answers.*; .*$1.*trying the next way" said.0
    grep -q 'TCP reaches it over the management network (10.9.1.1 to 10.9.1.3)' said.0
    run grep WARN said.0
    [ "$status" -eq 1 ]
}

@test "far: a neighbour that does not forward is named, and the management network taken" {
    route_through
    MESHNET_HANDSHAKE=2s all_ranks --collective all-to-all --sizes 64K
    right
    silent_way 'b passes nothing on, or says nothing of it: forwarding is off there (sysctl'
}

@test "far: a strict rp_filter behind the node that forwards is thought of" {
    route_through a b c d
    # What comes from a goes back by the other side: each packet comes in where no route leads.
    ip -n $NS-c route replace 10.2.1.0 via 10.2.3.1
    ip -n $NS-c route replace 10.2.4.1 via 10.2.2.0
    on c sysctl -qw net.ipv4.conf.all.rp_filter=1
    MESHNET_HANDSHAKE=2s all_ranks --collective all-to-all --sizes 64K
    right
    silent_way 'packets get as far as b, which forwards.*(a strict rp_filter)'
}

@test "far: a way that has no way back is not taken" {
    route_through a b c d
    ip -n $NS-c route del 10.2.1.0
    ip -n $NS-c route del 10.2.4.1
    MESHNET_HANDSHAKE=2s all_ranks --collective all-to-all --sizes 64K
    right
    silent_way 'packets get as far as b, which forwards.*or has no route back'
}

@test "far: without a management network a way that drops ends in an error that names the node" {
    route_through a b c d
    sed '/netdev: mgmt/d' mesh.yaml >cables.yaml
    for node in b d; do
        on $node sysctl -qw net.ipv4.ip_forward=0
    done
    export MESHNET_CONFIG=$PWD/cables.yaml
    MESHNET_HANDSHAKE=2s MESHNET_CONNECT=9s run all_ranks --collective all-to-all --sizes 64K
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'along the cables through \([bd]\) .*\1 passes nothing on.*Not connected within 9 s' said.0
    run grep 'over the management network' said.0
    [ "$status" -eq 1 ]
}

@test "far: a cable that has the default route is no way along the cables" {
    route_through
    ip -n $NS-a route flush via 10.2.1.1
    ip -n $NS-a route flush via 10.2.4.0
    ip -n $NS-a route add default via 10.2.1.1
    all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'TCP reaches it over the management network (10.9.1.1 to 10.9.1.3)' said.0
    # Nor is a router beside the nodes of the mesh.
    ip -n $NS-a route del default
    ip -n $NS-a addr add 10.2.9.1/24 dev ab
    ip -n $NS-a route add 10.2.2.0/23 via 10.2.9.2
    all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'TCP reaches it over the management network (10.9.1.1 to 10.9.1.3)' said.0
    run grep 'along the cables' said.0
    [ "$status" -eq 1 ]
}

@test "far: each way can be forced, and the error says that it was" {
    export MESHNET_REACH=management
    route_through a b c d
    all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'TCP reaches it over the management network' said.0
    run grep 'along the cables' said.0
    [ "$status" -eq 1 ]
    export MESHNET_REACH=cables
    all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'TCP reaches it along the cables through' said.0
    run grep 'over the management network' said.0
    [ "$status" -eq 1 ]
    for node in a b c d; do
        ip -n $NS-$node route show | sed -n 's/^\(10.2.[0-9.]* via [0-9.]*\).*/\1/p' | xargs -rn 3 ip -n $NS-$node route del
    done
    run all_ranks --collective all-to-all --sizes 64K
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'no route leads along the cables to one of them, and transport.reach: cables takes no other way' said.0
    sed -i '/netdev: mgmt/d' mesh.yaml
    export MESHNET_REACH=management
    run all_ranks --collective all-to-all --sizes 64K
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'transport.reach: management takes no other way, and the peer has told no management address' said.0
}

@test "far: a management address that changed since the job began is looked for anew" {
    local node rank=0 pids=() i pid failed=
    for node in a b c d; do
        on $node env MESHNET_NODE=$node MESHNET_LOG=info HOLD=$PWD/changed timeout -k 1 100 \
            "$BUILD/tests/nccl_pairs" "$BUILD/lib/libnccl-net-mesh.so" $rank 4 10.9.1.1 18660 \
            >pairs.$node 2>&1 3>&- &
        pids+=($!)
        rank=$((rank + 1))
    done
    for i in $(seq 300); do
        [ "$(grep -h 'channel 1: ring' pairs.? | wc -l)" -lt 4 ] || break
        sleep 0.1
    done
    # The ranks of the test itself meet there: the old one stays where nobody looks for it.
    ip -n $NS-c addr add 10.9.1.3/32 dev lo
    ip -n $NS-c addr del 10.9.1.3/24 dev mgmt
    ip -n $NS-c addr add 10.9.1.77/24 dev mgmt
    touch changed
    for pid in "${pids[@]}"; do
        wait $pid || failed=$?
    done
    cat pairs.?
    [ -z "$failed" ]
    grep -q 'mgmt has lost its address 10.9.1.3; nodes without a cable to this one come to 10.9.1.77 from now on' pairs.c
    grep -q 'over the management network (10.9.1.1 to 10.9.1.77)' pairs.a
}

@test "far: a management address that is gone when a peer comes is an error that says so" {
    local stream=$BUILD/tests/stream plugin=$BUILD/lib/libnccl-net-mesh.so i pid
    on c env MESHNET_NODE=c timeout -k 1 60 "$stream" "$plugin" receive handle 0 >receive 2>&1 3>&- &
    pid=$!
    for i in $(seq 300); do
        [ ! -s handle ] || break
        sleep 0.1
    done
    ip -n $NS-c addr flush dev mgmt
    run on a env MESHNET_NODE=a MESHNET_CONNECT=5s MESHNET_HANDSHAKE=4s timeout -k 1 60 "$stream" "$plugin" send handle 0
    echo "$output"
    kill $pid
    [ "$status" -ne 0 ]
    [[ "$output" == *"over the management network (10.9.1.1 to 10.9.1.3): nobody answers"*"check that the peer still has it"* ]]
}

@test "far: one setting forbids it, and the error says which" {
    sed 's/^nodes/transport: {reach: direct}\nnodes/' mesh.yaml >direct.yaml
    export MESHNET_CONFIG=$PWD/direct.yaml
    run all_ranks --collective all-to-all --sizes 64K
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'no cable to the peer: .*transport.reach: direct' said.0
}

@test "far: neighbours use RDMA, the others TCP, which is no error" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    declare -A DEVICES=([a]=dev=r0:ab:10.2.1.0,dev=r1:ax:10.2.4.1
        [b]=dev=r0:ba:10.2.1.1,dev=r1:bc:10.2.2.0
        [c]=dev=r0:cb:10.2.2.1,dev=r1:cd:10.2.3.0
        [d]=dev=r0:dc:10.2.3.1,dev=r1:da:10.2.4.0)
    all_ranks --collective all-reduce,all-to-all --sizes 8,256K
    right
    grep -q 'peer c has no cable to this node: TCP reaches it' said.0
    grep -q 'sending to peer b by RDMA' said.0
    grep -q 'sending to peer c by TCP' said.0
    run grep WARN said.0 said.1 said.2 said.3
    [ "$status" -eq 1 ]
    # RDMA between neighbours that fails is an error and no reason for TCP.
    DEVICES[b]=dev=r0:bc:10.2.2.0
    run all_ranks --collective all-reduce --sizes 8
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'no RDMA between' said.0 said.1
}

@test "far: a neighbour whose cable has lost its address is an error, not reached in another way" {
    ip -n $NS-a addr del 10.2.1.0/31 dev ab
    run all_ranks --collective all-to-all --sizes 64K
    echo "$output"
    [ "$status" -ne 0 ]
    cat said.0 said.1 | grep -q 'no cable to the peer: .*though link a-b of the mesh file joins them over \(ab\|ba\)'
    run grep 'peer [ab] has no cable' said.0 said.1
    [ "$status" -eq 1 ]
}

@test "far: a neighbour whose cable has lost its address is reached by TCP where that is allowed, with a warning" {
    ip -n $NS-a addr del 10.2.1.0/31 dev ab
    MESHNET_ALLOW_TCP=true all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'peer [ab]: link a-b of the mesh file joins them over \(ab\|ba\), but .*transport.allow_tcp lets TCP carry it over the management network (10.9.1.' said.0 said.1
    [ "$(cat said.0 said.1 | grep -c 'WARN.*link a-b of the mesh file')" -le 2 ]
    run grep 'peer [ab] has no cable' said.0 said.1
    [ "$status" -eq 1 ]
}

@test "far: a route through another network is taken when the ways along the cables are silent" {
    sed '/netdev: mgmt/d' mesh.yaml >cables.yaml
    export MESHNET_CONFIG=$PWD/cables.yaml NCCL_SOCKET_IFNAME==nothing
    route_through
    ip -n $NS-a route replace 10.2.3.0 via 10.9.1.3
    ip -n $NS-c route replace 10.2.4.1 via 10.9.1.1
    ip -n $NS-b route replace 10.2.3.1 via 10.9.1.4
    ip -n $NS-d route replace 10.2.2.0 via 10.9.1.2
    MESHNET_HANDSHAKE=2s all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'along the cables through b .*trying the next way' said.0
    grep -q 'TCP reaches it over the routing table through 10.9.1.3' said.0
}

@test "far: cables with addresses of both families leave room for the management address" {
    n=0
    for ends in "a ab b ba" "b bc c cb" "c cd d dc" "d da a ax"; do
        read -r x nic y peer <<<"$ends"
        n=$((n + 1))
        ip -n $NS-$x addr add fd02:$n::0/127 dev $nic nodad
        ip -n $NS-$y addr add fd02:$n::1/127 dev $peer nodad
        sed -i -E "/netdev: $nic,/s#/31\]#/31, \"fd02:$n::0/127\"]#; /netdev: $peer,/s#/31\]#/31, \"fd02:$n::1/127\"]#" mesh.yaml
    done
    all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'peer c has no cable to this node: TCP reaches it over the management network' said.0
}

@test "far: ways along cables with IPv6 addresses alone are looked at and taken in the same manner" {
    local n=0 ends x nic y peer
    for ends in "a ab b ba" "b bc c cb" "c cd d dc" "d da a ax"; do
        read -r x nic y peer <<<"$ends"
        n=$((n + 1))
        ip -n $NS-$x addr flush dev $nic
        ip -n $NS-$y addr flush dev $peer
        ip -n $NS-$x addr add fd02:$n::0/127 dev $nic nodad
        ip -n $NS-$y addr add fd02:$n::1/127 dev $peer nodad
        sed -i -E "s#10.2.$n.([01])/31#'fd02:$n::\\1/127'#" mesh.yaml
    done
    ip -n $NS-a route add fd02:2::1 via fd02:1::1
    ip -n $NS-c route add fd02:1::0 via fd02:2::0
    on b sysctl -qw net.ipv6.conf.all.forwarding=0
    MESHNET_HANDSHAKE=2s all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'along the cables through b (fd02:1:: to fd02:2::1): .*b passes nothing on.*net.ipv6.conf.all.forwarding.*trying the next way' said.0
    grep -q 'TCP reaches it over the management network' said.0
    on b sysctl -qw net.ipv6.conf.all.forwarding=1
    all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'TCP reaches it along the cables through b (fd02:1:: to fd02:2::1)' said.0
    # As routing daemons set it: by the neighbour's link-local address.
    ip -n $NS-a addr add fe80::a/64 dev ab nodad
    ip -n $NS-b addr add fe80::b/64 dev ba nodad
    ip -n $NS-a route replace fd02:2::1 via fe80::b dev ab
    all_ranks --collective all-to-all --sizes 64K
    right
    grep -q 'TCP reaches it along the cables through b (fd02:1:: to fd02:2::1)' said.0
}

# shapes SHAPE…: these, and by hand (FAR_SHAPES=all) all from 3 to 8.
shapes()
{
    if [ "${FAR_SHAPES-}" = all ]; then
        echo {ring,line,star}:{3..8}
    else
        echo "$@"
    fi
}

@test "far: rings, lines and stars connect as NCCL connects them, over TCP" {
    for shape in $(shapes ring:3 ring:4 ring:6 line:4 line:5 star:4); do
        echo "$shape"
        shape_of "${shape%:*}" "${shape#*:}"
        like_nccl "${shape#*:}"
        no_shape "${shape#*:}"
    done
}

@test "far: rings, lines and stars connect as NCCL connects them, neighbours over RDMA" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    for shape in $(shapes ring:4 ring:8 line:7 star:5); do
        echo "$shape"
        shape_of "${shape%:*}" "${shape#*:}"
        like_nccl "${shape#*:}"
        no_shape "${shape#*:}"
    done
}
