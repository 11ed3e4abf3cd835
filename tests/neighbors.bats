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
    printf "netns del $NS-%s\n" "${NODES[@]}" | ip -force -batch - 2>/dev/null || true
}

# nodes NAME…: IPv6 addresses are there at once.
nodes()
{
    local node
    for node; do
        ip netns add "$NS-$node"
        NODES+=("$node")
        on "$node" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; exec ip link set lo up'
    done
}

# wire NODE NIC NODE NIC [MTU MTU]
wire()
{
    ip -n "$NS-$1" -batch - <<-END && ip -n "$NS-$3" link set "$4" up
	link add $2 mtu ${5:-9000} type veth peer name $4 netns $NS-$3 mtu ${6:-${5:-9000}}
	link set $2 up
	END
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

@test "neighbors: cables beside each other are told apart, and a node may have one to itself" {
    nodes a b
    wire a e0 b e0
    wire a e1 b e1
    wire a loop0 a loop1
    neighbors --hosts a,b --json
    [ "$(jq -c '[.cables[] | [.a_netdev, .b_netdev]] | sort' <<<"$output")" = '[["e0","e0"],["e1","e1"]]' ]
}

@test "neighbors: where IPv6 is off, at one end or both, it goes by raw Ethernet, and that is said" {
    nodes a b c
    wire a e0 b e0
    wire b e1 c e1
    no_ipv6 a e0
    no_ipv6 b e1
    no_ipv6 c e1
    neighbors --hosts a,b,c --json
    [ "$status" -eq 0 ]
    [ "$(cables)" = "a/e0 b/e0 9000 9000 raw up
b/e1 c/e1 9000 9000 raw up" ]
    [ "$(jq -r '.nics[] | select(.node == "c") | [.ipv6, .raw, .why] | join(" ")' <<<"$output")" = \
        "false true IPv6 is off there" ]
}

@test "neighbors: the MTU that passes is found in each direction" {
    nodes a b c d
    wire a e0 b e0 9000 1500
    # A bridge lets less through than both ends could take.
    nodes bridge
    wire c e0 bridge p0
    wire d e0 bridge p1
    BRIDGE_MTU=4200
    ip -n $NS-bridge link set p1 mtu 4200
    bridge bridge p0 p1
    neighbors --hosts a,b,c,d --json --wait 3s
    [ "$(cables)" = "a/e0 b/e0 1500 1500 ipv6 MTU unlike
c/e0 d/e0 4200 4200 ipv6 less passes than the MTU" ]
    jq -e '.findings | any(.id | test("mtu"))' <<<"$output"
}

@test "neighbors: three at one bridge have no cables" {
    nodes a b c bridge
    wire a e0 bridge p0
    wire b e0 bridge p1
    wire c e0 bridge p2
    bridge bridge p0 p1 p2
    neighbors --hosts a,b,c --json --save-survey survey.json
    [ "$(jq -c .cables <<<"$output")" = "[]" ]
    [ "$(jq -r .shape <<<"$output")" = switch ]
    [ "$(jq '.seen | length' survey.json)" -eq 6 ]
}

@test "neighbors: without --hosts, those who have the key hear each other; others are strangers" {
    nodes a b c bridge
    wire a e0 bridge p0
    wire b e0 bridge p1
    wire c e0 bridge p2
    bridge bridge p0 p1 p2
    echo 00112233445566778899aabbccddeeff >key
    echo 00112233445566778899aabbccddeefe >other
    local node
    for node in b c; do
        nsenter --net=/run/netns/$NS-$node env MESHNET_NODE=$node timeout 60 "$MESHNET" discover \
            --neighbors --key-file "$([ $node = b ] && echo key || echo other)" --wait 6s \
            >$node.out 2>&1 3>&- &
    done
    neighbors_at a --key-file key --wait 4s --json --save-survey survey.json
    wait
    [ "$(jq -c '[.seen[] | [.at, .from, .mtu]] | sort' survey.json)" = \
        '[["a/e0","b/e0",9000],["b/e0","a/e0",9000]]' ]
    # Who is heard beside the other end stands at a switch.
    [ "$(jq -r .shape <<<"$output")" = switch ]
    [ "$(jq -c '[.strangers[] | [.at, .by]] | sort' <<<"$output")" = '[["a/e0","ipv6"],["a/e0","raw"]]' ]
    [ "$(jq -r '.strangers[0].mac' <<<"$output")" = "$(ip -n $NS-c -j link show e0 | jq -r '.[0].address')" ]
    grep -q "Strangers" c.out
    ! grep -q "^b-\|a-b" c.out || return 1
}

@test "neighbors: a host without rights takes part by IPv6, and says what it lacks" {
    nodes a b
    wire a e0 b e0
    wire a e1 b e1
    no_ipv6 a e1
    no_ipv6 b e1
    sed -i 's/exec/exec setpriv --reuid=65534 --clear-groups/;s/setpriv \(.*\) nsenter \([^ ]*\)/nsenter \2 setpriv \1/' ssh
    chmod 755 . ssh
    neighbors --hosts a,b --json --wait 2s
    [ "$(cables)" = "a/e0 b/e0 9000 9000 ipv6 up" ]
    [ "$(jq -r '.nics[] | select(.netdev == "e1" and .node == "a") | [.ipv6, .raw, .why] | join(" ")' \
        <<<"$output")" = "false false no raw Ethernet, no LLDP: CAP_NET_RAW is needed; IPv6 is off there" ]
}

# lldp NODE NIC BYTES…: sends them there as LLDP, again and again; returns when it has begun to.
lldp()
{
    local node=$1 nic=$2 i
    shift 2
    rm -f sent
    # No function, whose shell would be killed in its place.
    nsenter --net=/run/netns/$NS-"$node" python3 - "$nic" "$@" 3>&- <<-'END' &
	import socket, sys, time
	s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
	s.bind((sys.argv[1], 0))
	for _ in range(300):
	    for text in sys.argv[2:]:
	        s.send(bytes.fromhex('0180c200000e' '02000000aa01' '88cc' + text))
	    open('sent', 'w').close()
	    time.sleep(0.1)
	END
    SENDER=$!
    for ((i = 0; i < 200; i++)); do
        [ ! -e sent ] || return 0
        sleep 0.1
    done
    return 1
}

@test "neighbors: LLDP of a switch is shown, what is none is passed over" {
    nodes a switch
    wire a e0 switch p0
    # A chassis that claims more bytes than there are, before one that is right.
    lldp switch p0 '02ff04' \
        0207040200000000aa04050765313762060200780a05746f722d310000
    neighbors_at a --wait 2s --json
    kill "$SENDER"
    wait "$SENDER" || true
    [ "$status" -eq 0 ]
    [ "$(jq -c '.strangers' <<<"$output")" = \
        '[{"at":"a/e0","by":"lldp","mac":"02:00:00:00:aa:01","system":"tor-1","port":"e17b"}]' ]
}

@test "neighbors: LLDP of a NIC's own firmware leaves a cable one, that of a bridge does not" {
    nodes a b
    wire a e0 b e0
    # No name, one sender: MAC 02:00:00:00:aa:01 of chassis 02:00:00:00:aa:00.
    lldp b e0 02070402000000aa00040703'02000000aa01'060200780000
    neighbors --hosts a,b --wait 2s --json
    kill "$SENDER"
    wait "$SENDER" || true
    [ "$(cables)" = "a/e0 b/e0 9000 9000 ipv6 up" ]
    [ "$(jq -r '[.strangers[].mac] | unique | .[]' <<<"$output")" = 02:00:00:00:aa:01 ]
    [ "$(jq -c '[.findings[].id]' <<<"$output")" = '[]' ]
    # The same with a bridge among its capabilities, and in use.
    lldp b e0 02070402000000aa00040703'02000000aa01'060200780e04000400040000
    neighbors --hosts a,b --wait 2s --json
    kill "$SENDER"
    wait "$SENDER" || true
    [ "$(jq -c '[.findings[].id]' <<<"$output")" = '["switch-between"]' ]
    [ "$(jq .n_cables <<<"$output")" -eq 0 ]
}

@test "neighbors: with --lldp it is sent; nodes of the run are no strangers by it" {
    nodes a b
    wire a e0 b e0
    neighbors --hosts a,b --lldp --wait 2s --json
    [ "$(cables)" = "a/e0 b/e0 9000 9000 ipv6 up" ]
    [ "$(jq -c .strangers <<<"$output")" = "[]" ]
    nsenter --net=/run/netns/$NS-b env MESHNET_NODE=b timeout 60 "$MESHNET" discover --neighbors \
        --lldp --wait 6s >b.out 2>&1 3>&- &
    neighbors_at a --wait 4s --json
    wait
    [ "$(jq -r '.strangers[] | select(.by == "lldp") | .system + " " + .port' <<<"$output")" = "b e0" ]
}

@test "neighbors: NICs that are switched off are said, brought up by --up and put back" {
    nodes a b
    wire a e0 b e0
    ip -n $NS-a link set e0 down
    ip -n $NS-b link set e0 down
    neighbors --hosts a,b --wait 500ms
    [[ "$output" == *"a/e0: not probed: switched off; --up brings it up"* ]]
    [[ "$output" == *"0 cables"* ]]
    neighbors --hosts a,b --up --json --save-survey survey.json
    [ "$(cables)" = "a/e0 b/e0 9000 9000 ipv6 up" ]
    # Up, with a carrier, for the probe alone.
    [ "$(jq -c '[.nodes[].nics[] | [.admin_up, .carrier]]' survey.json)" = '[[false,true],[false,true]]' ]
    for node in a b; do
        [[ "$(ip -n $NS-$node link show e0)" == *"state DOWN"* ]]
    done
}

# has_come_up NODE NIC: within 20 s.
has_come_up()
{
    for _ in $(seq 200); do
        [[ "$(ip -n "$NS-$1" link show "$2")" != *"state UP"* ]] || return 0
        sleep 0.1
    done
    return 1
}

# nobody_left NODE…: no process of ours is there after 20 s.
nobody_left()
{
    for _ in $(seq 200); do
        [ -n "$(for node; do ip netns pids $NS-$node; done)" ] || return 0
        sleep 0.1
    done
    return 1
}

@test "neighbors: Ctrl-C ends all nodes, and NICs are put back" {
    nodes a b
    wire a e0 b e0
    ip -n $NS-a link set e0 down
    ip -n $NS-b link set e0 down
    env --default-signal=INT setsid "$MESHNET" discover --neighbors --hosts a,b --up --wait 60s \
        -o mesh.yaml >out 2>&1 3>&- &
    local pid=$!
    has_come_up a e0
    has_come_up b e0
    kill -INT -- -$pid
    status=0
    wait $pid || status=$?
    cat out
    [ "$status" -eq 1 ]
    grep -q interrupted out
    nobody_left a b
    for node in a b; do
        [[ "$(ip -n $NS-$node link show e0)" == *"state DOWN"* ]]
    done
    [ ! -e mesh.yaml ]
}

@test "neighbors: killed, the one who leads leaves nobody behind" {
    nodes a b
    wire a e0 b e0
    ip -n $NS-a link set e0 down
    setsid "$MESHNET" discover --neighbors --hosts a,b --up --wait 60s >out 2>&1 3>&- &
    local pid=$!
    has_come_up a e0
    kill -KILL $pid
    wait $pid || true
    nobody_left a b
    [[ "$(ip -n $NS-a link show e0)" == *"state DOWN"* ]]
}

@test "neighbors: a host that is not reached is an error; what others found is shown" {
    nodes a b c
    wire a e0 b e0
    wire b e1 c e1
    sed -i '3i [ $2 != c ] || { echo "c: no route to host" >&2; exit 255; }' ssh
    neighbors --hosts a,b,c -o mesh.yaml --json
    [ "$status" -eq 1 ]
    [ "$(cables)" = "a/e0 b/e0 9000 9000 ipv6 up" ]
    [ "$(jq -r '.failed[].host' <<<"$output")" = c ]
    [[ "$stderr" == *"no route to host"* ]]
    [ ! -e mesh.yaml ]
    neighbors --hosts a,b,c -o mesh.yaml --partial
    [ "$status" -eq 1 ]
    [[ "$output" == *"Wrote mesh.yaml: 2 nodes, 1 link"* ]]
}

@test "neighbors: two hosts of one name are refused" {
    nodes a b
    sed -i 's/MESHNET_NODE=$2/MESHNET_NODE=same/' ssh
    neighbors --hosts a,b
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"a and b both call themselves same"* ]]
}

@test "neighbors: the NIC with the default route is left alone unless it is taken" {
    nodes a b
    wire a e0 b e0
    wire a office b office
    for node in a b; do
        ip -n $NS-$node addr add 10.9.0.$([ $node = a ] && echo 1 || echo 2)/24 dev office
        ip -n $NS-$node route add default via 10.9.0.9
    done
    neighbors --hosts a,b --json --wait 1s
    [ "$(cables)" = "a/e0 b/e0 9000 9000 ipv6 up" ]
    jq -e '.nics[] | select(.node == "a" and .netdev == "office") | (.raw or .ipv6 | not) and
        (.why | contains("the default route"))' <<<"$output"
    neighbors --hosts a,b --json --take a/office,b/office --skip e0 --wait 1s
    [ "$(cables)" = "a/office b/office 9000 9000 ipv6 up" ]
    neighbors_at a --take nic7
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--take nic7: a has no such NIC"* ]]
}

@test "neighbors: nor is the NIC probed below a VLAN or macvlan with the default route" {
    nodes a b
    wire a e0 b e0
    wire a e1 b e1
    ip -n "$NS-a" link add link e1 name e1.7 type vlan id 7 2>/dev/null ||
        ip -n "$NS-a" link add link e1 name e1.7 type macvlan
    ip -n "$NS-a" addr add 192.0.2.1/24 dev e1.7
    ip -n "$NS-a" link set e1.7 up
    ip -n "$NS-a" route add default via 192.0.2.254
    neighbors --hosts a,b --json
    [ "$(cables)" = "a/e0 b/e0 9000 9000 ipv6 up" ]
    [ "$(jq -r '.nics[] | select(.node == "a" and .netdev == "e1") | .why' <<<"$output")" = \
        "the default route leads through e1.7; --take e1 probes it" ]
    neighbors --hosts a,b --json --take a/e1
    [ "$(jq .n_cables <<<"$output")" -eq 2 ]
}

@test "neighbors: names, settings and addresses of the file stay when it is merged into" {
    nodes a b c
    wire a e0 b e0
    wire b e1 c e1
    neighbors --hosts a,b -o mesh.yaml
    [ "$status" -eq 0 ]
    sed -i 's/name: a-b/name: blue/; $a transport: {silence: 30s}' mesh.yaml
    cat mesh.yaml
    neighbors --hosts a,b,c -o mesh.yaml --merge
    [ "$status" -eq 0 ]
    [[ "$output" == *"Wrote mesh.yaml: 3 nodes, 2 links, line"* ]]
    grep -q "silence: 30s" mesh.yaml
    run "$MESHNET" discover --check mesh.yaml --json
    [ "$(jq -c '[.links[].link]' <<<"$output")" = '["blue","b-c"]' ]
}

@test "neighbors: a survey that is none is refused with the reason" {
    echo '{"version": 1, "nodes": [{"name": "a", "nics": []}], "seen": [{"at": "a/e0"}]}' >bad.json
    neighbors --survey bad.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"bad.json: "* ]]
    echo nonsense >bad.json
    neighbors --survey bad.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"no JSON"* ]]
    for options in "--survey x --hosts a" "--survey x --up" "--key-file k --hosts a" "--merge" \
        "--check x" "--format csv" "operand"; do
        neighbors $options
        [ "$status" -eq 2 ]
    done
}

@test "neighbors: from a wrongly cabled ring the plug to move is named, and where to" {
    run --separate-stderr "$MESHNET" discover --neighbors \
        --survey "$BATS_TEST_DIRNAME/fixtures/survey/spark-ring-4-wrong-plug.json"
    [ "$status" -eq 1 ]
    [[ $output == *"1. spark-a left (enp1s0f0np0) - spark-c right (enp1s0f1np1): move the end at spark-c right (enp1s0f1np1) to spark-d left (enp1s0f0np0)"* ]]
    run --separate-stderr "$MESHNET" discover --neighbors --strict \
        --survey "$BATS_TEST_DIRNAME/fixtures/survey/spark-ring-4.json"
    [ "$status" -eq 0 ]
    [[ $output == *"No findings."* ]]
    # Each thing is said once.
    run --separate-stderr "$MESHNET" discover --neighbors --json \
        --survey "$BATS_TEST_DIRNAME/fixtures/survey/spark-ring-4-wrong-plug.json"
    jq -e '[.. | objects | select(has("where") and has("seen")) | [.id, .where]] | length > 0 and
        length == (unique | length)' <<<"$output"
}

@test "neighbors: a node that is not in the mesh file in force is said to be new, not crossed" {
    local five="$BATS_TEST_DIRNAME/fixtures/survey/spark-ring-4-and-a-bare-node.json"
    run "$MESHNET" discover --neighbors -o mesh.yaml \
        --survey "$BATS_TEST_DIRNAME/fixtures/survey/spark-ring-4.json"
    # Nobody says what is meant: a plug of the ring could belong into the fifth.
    run --separate-stderr "$MESHNET" discover --neighbors --survey "$five" --json
    [ "$status" -eq 1 ]
    [ "$(jq -r '.findings[0].id' <<<"$output")" = cable-crossed ]
    [ "$(jq -r .compared_with <<<"$output")" = null ]
    export MESHNET_CONFIG=$PWD/mesh.yaml
    run --separate-stderr "$MESHNET" discover --neighbors --survey "$five" --json
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.findings[] | [.id, .where]]' <<<"$output")" = '[["file-node-bare","spark-e"]]' ]
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == *"--hosts spark-e,… --merge -o FILE"* ]]
    [ "$(jq -r .compared_with <<<"$output")" = "$MESHNET_CONFIG" ]
    # A file of other nodes says nothing of these.
    jq 'del(.nodes[].nics[].mac)' "$BATS_TEST_DIRNAME/fixtures/survey/cx-pair.json" >other.json
    run --separate-stderr "$MESHNET" discover --neighbors --survey other.json --json
    [ "$(jq -c '[.findings[].id]' <<<"$output")" = '[]' ]
    [ "$(jq -r .compared_with <<<"$output")" = null ]
    # Nor does it where another is made.
    run --separate-stderr "$MESHNET" discover --neighbors --survey "$five" -o five.yaml --json
    [ "$(jq -r '.findings[0].id' <<<"$output")" = cable-crossed ]
}

@test "neighbors: what is asked of --hosts is set against the mesh file in force" {
    nodes a b c
    wire a e0 b e0
    neighbors --hosts a,b -o mesh.yaml
    [ "$status" -eq 0 ]
    wire b e1 c e0
    export MESHNET_CONFIG=$PWD/mesh.yaml
    neighbors --hosts a,b,c --json
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.findings[] | [.id, .where]]' <<<"$output")" = '[["file-node-new","c"]]' ]
    # One host's own view lacks the others.
    neighbors_at a --json
    [ "$(jq -r .compared_with <<<"$output")" = null ]
}

@test "neighbors: what a survey did not see stays in the file that it is merged into, and is said" {
    local all="$BATS_TEST_DIRNAME/fixtures/survey/spark-ring-4-both-heard-numbered.json"
    run --separate-stderr "$MESHNET" discover --neighbors --survey "$all" -o mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"4 nodes, 4 cables (8 halves): ring"* ]]
    jq '.nodes |= .[:2] | .seen |= map(select((.at + .from) | test("spark-[cd]") | not)) |
        del(.seen[].mtu)' "$all" >two.json
    run --separate-stderr "$MESHNET" discover --neighbors --survey two.json -o mesh.yaml --merge --json
    echo "$output"
    [ "$(jq -r '[.cables[] | select(.state == "up")] | length' <<<"$output")" -eq 2 ]
    [ "$(jq -c '[.findings[]? | select(.id == "file-unseen") | .where]' <<<"$output")" = \
        '["spark-c","spark-d"]' ]
    run "$MESHNET" discover --check mesh.yaml --json
    [ "$(jq '.links | length' <<<"$output")" -eq 8 ]
    [ "$(grep -c 10.0. mesh.yaml)" -ge 16 ]
}

@test "neighbors: a survey of too many nodes is refused with their number" {
    jq '.nodes[0] as $n | .nodes = [range(4097) | . as $i | $n | .name = "n\($i)"] | .seen = []' \
        "$BATS_TEST_DIRNAME/fixtures/survey/spark-pair.json" >many.json
    neighbors --survey many.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"nodes has 4097; expected at most 4096"* ]]
}
