#!/usr/bin/env bats
# Nodes without a common cable: a ring of four in namespaces beside a management network. Trees and
# all-to-all need every pair, and NCCL connects them whatever it will use.

load helper
load namespaces

setup()
{
    local i=0 node
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnr$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_RANK MESHNET_WORLD "${!NCCL_@}"
    export NO_COLOR=1 MESHNET_TOKEN=00112233445566778899aabbccddeeff
    cd "$BATS_TEST_TMPDIR" || return
    ip netns add $NS-m
    ip -n $NS-m link add br0 type bridge
    ip -n $NS-m link set br0 up
    for node in a b c d; do
        i=$((i + 1))
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
        ip link add mgmt netns $NS-$node type veth peer name p$node netns $NS-m
        ip -n $NS-m link set p$node master br0 up
        ip -n $NS-$node addr add 10.9.1.$i/24 dev mgmt
        ip -n $NS-$node link set mgmt up
    done
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

# Routes to the opposite node through one neighbour, the same one in both directions.
route_through()
{
    local node
    for node in "$@"; do
        on $node sysctl -qw net.ipv4.ip_forward=1
    done
    for node in a b c d; do
        on $node sysctl -qw net.ipv4.conf.all.rp_filter=0
    done
    ip -n $NS-a route add 10.2.2.1 via 10.2.1.1
    ip -n $NS-a route add 10.2.3.0 via 10.2.4.0
    ip -n $NS-c route add 10.2.1.0 via 10.2.2.0
    ip -n $NS-c route add 10.2.4.1 via 10.2.3.1
    ip -n $NS-b route add 10.2.3.1 via 10.2.2.1
    ip -n $NS-b route add 10.2.4.0 via 10.2.1.0
    ip -n $NS-d route add 10.2.2.0 via 10.2.3.0
    ip -n $NS-d route add 10.2.1.1 via 10.2.4.1
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

@test "far: routes through neighbours are taken before the management network" {
    route_through a b c d
    before=$(bytes a mgmt)
    all_ranks --collective all-to-all --sizes 1M --iters 4
    right
    grep -q 'TCP reaches it along the cables, through neighbours that forward (10.2.' said.0
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
    grep -q 'along the cables.*nobody answers; a node on the way may not forward' said.0
    grep -q 'TCP reaches it over the management network' said.0
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

# shape_of ring|line|star RANKS: namespaces n0, n1, … with a management network and such cables, the
# mesh file in shape.yaml.
shape_of()
{
    local shape=$1 n=$2 i from to
    declare -A nics=()
    for ((i = 0; i < n; i++)); do
        ip netns add $NS-n$i
        ip -n $NS-n$i link set lo up
        ip link add mgmt netns $NS-n$i type veth peer name q$i netns $NS-m
        ip -n $NS-m link set q$i master br0 up
        ip -n $NS-n$i addr add 10.9.2.$((i + 1))/24 dev mgmt
        ip -n $NS-n$i link set mgmt up
        nics[$i]="      - {netdev: mgmt, addresses: [10.9.2.$((i + 1))/24], role: management}"$'\n'
    done
    for ((i = 0; i < n; i++)); do
        case $shape in
            ring) from=$i to=$(((i + 1) % n)) ;;
            line) from=$i to=$((i + 1)) ;;
            star) from=0 to=$((i + 1)) ;;
        esac
        [ $to -lt $n ] || continue
        cable n$from l${i}a 10.3.$i.0/31 n$to l${i}b 10.3.$i.1/31
        nics[$from]+="      - {netdev: l${i}a, addresses: [10.3.$i.0/31]}"$'\n'
        nics[$to]+="      - {netdev: l${i}b, addresses: [10.3.$i.1/31]}"$'\n'
    done
    printf 'version: 1\nnodes:\n' >shape.yaml
    for ((i = 0; i < n; i++)); do
        printf '  - name: n%s\n    nics:\n%s' "$i" "${nics[$i]}" >>shape.yaml
    done
}

# like_nccl RANKS: a rank in each, which connects as NCCL does.
like_nccl()
{
    local n=$1 i pids=() failed=0 devices
    for ((i = 0; i < n; i++)); do
        devices=$(ip -n $NS-n$i -j addr show | jq -r '[.[] | select(.ifname | startswith("l") and . != "lo") |
            "dev=r\(.ifname):\(.ifname):\(.addr_info[0].local)"] | join(",")')
        on n$i env MESHNET_NODE=n$i MESHNET_CONFIG="$PWD/shape.yaml" \
            FAKEVERBS="shm=$PWD/fabric,$devices" timeout -k 1 120 "$BUILD/tests/nccl_pairs" \
            "$BUILD/lib/libnccl-net-mesh.so" $i $n 10.9.2.1 18660 >pairs.$i 2>&1 &
        pids+=($!)
    done
    for ((i = 0; i < n; i++)); do
        wait "${pids[i]}" || failed=$?
        cat pairs.$i
        [ "$(grep -c '^rank' pairs.$i)" -eq 10 ] || failed=1
    done
    rm -f fabric*
    for ((i = 0; i < n; i++)); do
        ip -n $NS-m link del q$i
        ip netns del $NS-n$i
    done
    return $failed
}

@test "far: rings, lines and stars connect as NCCL connects them, over TCP" {
    for shape in ring:3 ring:4 ring:6 line:4 line:5 star:4; do
        echo "$shape"
        shape_of "${shape%:*}" "${shape#*:}"
        like_nccl "${shape#*:}"
    done
}

@test "far: rings, lines and stars connect as NCCL connects them, neighbours over RDMA" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    for shape in ring:4 ring:8 line:7 star:5; do
        echo "$shape"
        shape_of "${shape%:*}" "${shape#*:}"
        like_nccl "${shape#*:}"
    done
}
