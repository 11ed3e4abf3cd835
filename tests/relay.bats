#!/usr/bin/env bats
# Nodes without a common cable over meshnet relayd: rings and lines in namespaces beside a management
# network, over TCP and over RDMA; and what happens when a relay, a cable or an end goes in
# mid-transfer. RELAY_SHAPES=all: more shapes; RELAY_SECONDS=N: traffic for so long around each fault.

load helper
load namespaces
load relay

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnrl$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_RANK MESHNET_WORLD "${!NCCL_@}"
    export NO_COLOR=1 MESHNET_TOKEN=00112233445566778899aabbccddeeff
    cd "$BATS_TEST_TMPDIR" || return
    managed 10.9.2
    relay_key
    NODES=0
}

teardown()
{
    local i
    traffic_kill
    relays_end
    for ((i = 0; i < NODES; i++)); do
        ip -n $NS-m link del pn$i 2>/dev/null || true
        ip netns del $NS-n$i 2>/dev/null || true
    done
    ip netns del $NS-m 2>/dev/null || true
    [ -z "${BATS_TEST_COMPLETED-}" ] || return 0
    tail -n 20 relayd.* 2>/dev/null || true
}

# relayed_shape SHAPE NODES: with a relayd on each.
relayed_shape()
{
    local i nodes=()
    NODES=$2
    shape_of $1 $2
    for ((i = 0; i < $2; i++)); do
        nodes+=(n$i)
    done
    relayd "${nodes[@]}"
}

# end_shape NODES: for another one.
end_shape()
{
    relays_end
    no_shape $1
    NODES=0
}

# Seconds of traffic around a fault.
LONG=${RELAY_SECONDS:-3}

shapes()
{
    if [ "${RELAY_SHAPES-}" = all ]; then
        echo ring:4 ring:5 ring:6 ring:8 line:3 line:4 line:6 line:8 star:5
    else
        echo "$@"
    fi
}

# pairs_over_relays SHAPE…: every pair on two channels, as NCCL connects them. All that share no cable
# go over relays, and every relay has had something to pass on.
pairs_over_relays()
{
    local shape n i total
    # Of what is in the tests else, a ring of eight has too little: the rest would go over management.
    export MESHNET_RELAY_BUFFERS=128M
    for shape; do
        echo "$shape"
        n=${shape#*:}
        relayed_shape ${shape%:*} $n
        MESHNET_LOG=info like_nccl $n
        no grep 'TCP reaches it\|over the management network' pairs.*
        total=0
        for ((i = 0; i < n; i++)); do
            relay_state n$i | jq -c .counts
            total=$((total + $(relayed n$i)))
        done
        [ $total -gt $((2 * 49152 * n)) ]
        end_shape $n
    done
}

@test "relay: every pair of rings and lines connects over relays as NCCL connects them, over TCP" {
    pairs_over_relays $(shapes ring:4 line:4 ring:8)
}

@test "relay: every pair of rings and lines connects over relays as NCCL connects them, over RDMA" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    pairs_over_relays $(shapes ring:4 line:4)
}

@test "relay: hops over RDMA and over TCP carry one flow" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs MESHNET_ALLOW_TCP=true TCP_NODES=n3
    relayed_shape line 4
    traffic mixed n0 n3 flows=2 seed=5 messages=60
    traffic_ended mixed 60
    traffic back n3 n0 flows=2 seed=6 messages=60
    traffic_ended back 60
    [ "$(relayed n1)" -gt 10000000 ]
    relay_state n2 | jq -e '[.trunks[].transport] | unique == ["RDMA"]'
}

# collectives OPTION…: over a rank on each node; rank 0's report in report.
collectives()
{
    local rank pids=() failed=0
    for ((rank = 0; rank < NODES; rank++)); do
        (of_node n$rank env RANK=$rank WORLD_SIZE=$NODES MASTER_ADDR=10.9.2.1 MASTER_PORT=18655 MESHNET_LOG=info \
            timeout -k 1 100 "$MESHNET" bench --duration 20ms --algorithm direct --timeout 30s --json "$@") \
            >report.$rank 2>said.$rank &
        pids+=($!)
    done
    for ((rank = 0; rank < NODES; rank++)); do
        wait "${pids[rank]}" || failed=$?
        sed "s/^/$rank: /" said.$rank
    done
    cp report.0 report
    return $failed
}

right()
{
    jq -e '[.. | objects | select(has("wrong")) | .wrong] | length > 0 and all(. == 0)' report
}

@test "relay: every collective of a ring of four is right over TCP" {
    relayed_shape ring 4
    collectives --collective all --sizes 8,64K,1M
    right
    no grep 'TCP reaches it\|WARN' said.?
    [ $(($(relayed n1) + $(relayed n3))) -gt 20000000 ]
}

@test "relay: every collective of a line of four and of a ring of eight is right over TCP" {
    local shape
    export MESHNET_RELAY_BUFFERS=128M # of eight ranks each has five others beyond a relay
    for shape in line:4 ring:8; do
        relayed_shape ${shape%:*} ${shape#*:}
        collectives --collective all --sizes 8,64K
        right
        no grep 'TCP reaches it\|WARN' said.?
        [ "$(relayed n1)" -gt 500000 ]
        end_shape ${shape#*:}
    done
}

@test "relay: all-to-all goes over relays, and what is on the management network is the ranks' own talk" {
    relayed_shape ring 4
    local before=$(bytes_of n0 mgmt) passed
    collectives --collective all-to-all --sizes 1M --iters 20
    right
    passed=$(($(relayed n1) + $(relayed n3)))
    echo "over relays $passed, management $(($(bytes_of n0 mgmt) - before))"
    [ $passed -gt 10000000 ]
    [ $(($(bytes_of n0 mgmt) - before)) -lt 4000000 ]
}

@test "relay: every collective of a ring of four is right over RDMA" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    relayed_shape ring 4
    collectives --collective all --sizes 8,256K
    right
    no grep 'by TCP\|WARN' said.?
    [ $(($(relayed n1) + $(relayed n3))) -gt 1000000 ]
}

@test "relay: what goes over it is on the cables, on both ways of a ring, and not on the management network" {
    relayed_shape ring 4
    local before=$(bytes_of n0 mgmt) left=$(bytes_of n0 l0a) other=$(bytes_of n0 l3b) sent
    traffic far n0 n2 seed=1 messages=300 size=1048576
    traffic_ended far 60
    sent=$((300 * 1048576))
    left=$(($(bytes_of n0 l0a) - left)) other=$(($(bytes_of n0 l3b) - other))
    echo "sent $sent: $left by n1, $other by n3"
    [ $((left + other)) -ge $sent ]
    [ $left -gt $((sent / 5)) ]
    [ $other -gt $((sent / 5)) ]
    [ $(($(bytes_of n0 mgmt) - before)) -lt 1000000 ]
    [ "$(relayed n1)" -gt $((sent / 5)) ]
    [ "$(relayed n3)" -gt $((sent / 5)) ]
}

# closed WAY FILE: bytes that went through it, as the end says that wrote the file.
closed()
{
    sed -n "s/.*closed after.*[ :]\([0-9]*\) bytes ([0-9]* %) in [0-9]* pieces through $1\(,.*\|\)$/\1/p" "$2"
}

@test "relay: each end says at its close what went by which way, and relays count the same" {
    local sent end through
    relayed_shape ring 4
    MESHNET_LOG=info traffic far n0 n2 seed=3 seconds=8 size=1048576
    traffic_moves far 20000000
    relay_state n1 >state
    cat state
    jq -e '.flows | length == 1 and (.[0] | .from == "n0" and .to == "n2" and .through == "n1" and
        .state == "open" and .bytes > 0 and .pieces > 0 and .credits == 0)' state
    traffic_ended far 60
    sent=$(sed -n 's/^flow 0: .*, \([0-9]*\) bytes$/\1/p' far.take)
    for end in send take; do
        grep 'closed after' far.$end
        # And the word that it was the last message.
        [ $(($(closed n1 far.$end) + $(closed n3 far.$end) - sent)) -lt 65536 ]
        [ $(($(closed n1 far.$end) + $(closed n3 far.$end))) -ge $sent ]
    done
    for through in n1 n3; do
        [ "$(closed $through far.send)" -gt $((sent / 5)) ]
        [ "$(closed $through far.send)" -eq "$(closed $through far.take)" ]
        [ "$(relayed $through)" -eq "$(closed $through far.take)" ]
    done
}

# slow NODE NIC MBITS: what it sends there.
slow()
{
    tc -n $NS-$1 qdisc add dev $2 root tbf rate ${3}mbit burst 64k latency 50ms
}

@test "relay: of two ways whose cables are of different speeds each carries its part" {
    local fast slow
    relayed_shape ring 4
    slow n0 l0a 90
    slow n0 l3b 30
    MESHNET_LOG=info traffic far n0 n2 seed=6 messages=40 size=1048576
    traffic_ended far 100
    grep 'closed after' far.take
    fast=$(closed n1 far.take) slow=$(closed n3 far.take)
    # Three times as much, by what each takes: their speeds are in no file.
    [ $((fast * 10)) -gt $((slow * 13)) ]
    [ $((fast * 10)) -lt $((slow * 60)) ]
}

@test "relay: a way of three hops shows what each flow has waiting and at the next relay" {
    relayed_shape line 4
    traffic far n0 n3 flows=2 seed=4 seconds=600
    traffic_moves far 20000000
    relay_state n1 | jq -e '.flows | length == 2 and all(.through == "n1, n2" and .since_s >= 0)'
    relay_state n1 | jq -e '[.trunks[] | select(.kind == "bulk" and .bytes > 0) | .way] == ["out"]'
    (of_node n1 "$MESHNET" relayd --status) >table
    cat table
    grep -Eq '^id +way +from +to +through .* bytes +pieces +waiting +oldest ms +credits' table
}

# ticks NODE: processor time of its relayd, in hundredths of a second.
ticks()
{
    sed 's/.*) //' /proc/${RELAYD[$1]}/stat | awk '{ print $12 + $13 }'
}

@test "relay: with flows in which nothing goes it sleeps" {
    local before passed
    relayed_shape line 4
    traffic idle n0 n3 flows=2 seed=4 seconds=600
    traffic_moves idle 20000000
    # It may have asked for receives and more: those wait.
    kill -STOP ${SENDS[idle]}
    sleep 2
    before=$(ticks n1) passed=$(relayed n1)
    [ $before -gt 5 ]
    sleep 4
    [ "$(relayed n1)" -eq $passed ]
    echo "n1 used $before, then $(($(ticks n1) - before)) in 4 s"
    # Spinning it would have 400, on a processor that others want, too, 100 and more.
    [ $(($(ticks n1) - before)) -lt 20 ]
    relay_state n1 | jq -e '.flows | length == 2 and all(.state == "open")'
    kill -CONT ${SENDS[idle]}
    traffic_moves idle 20000000
}

@test "relay: nobody runs it: nodes reach each other as before, and when it is forced the error says so" {
    NODES=4
    shape_of ring 4
    collectives --collective all-to-all --sizes 64K
    right
    grep -q 'TCP reaches it over the management network' said.0
    no grep WARN said.?
    export MESHNET_REACH=relay MESHNET_CONNECT=4s
    run collectives --collective all-to-all --sizes 64K
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'relay n[13] .*meshnet relayd does not run there' said.?
}

# goes_on NAME: traffic that began before a fault comes through, all of it right.
goes_on()
{
    traffic_moves $1 20000000
}

# broken_and_mended BREAK MEND: both of them commands, done to the relay on n1 of a ring while traffic
# goes between n0 and n2 in both directions: it goes on over n3, and after MEND over n1 again.
broken_and_mended()
{
    export MESHNET_RELAY_SILENCE=2s
    relayed_shape ring 4
    narrow 4
    traffic there n0 n2 flows=2 seed=11 seconds=600
    traffic back n2 n0 flows=1 seed=12 seconds=600
    goes_on there
    goes_on back
    until_so 60 eval '[ "$(relayed n1)" -gt 0 ]'
    $1
    goes_on there
    goes_on back
    sleep $LONG
    $2
    until_so 60 again_over n1
    goes_on there
    goes_on back
}

# again_over NODE: a flow's way there is open, and carries.
again_over()
{
    local before
    before=$(relayed $1) && sleep 1 && [ $(($(relayed $1) - before)) -gt 1000000 ]
}

@test "relay: killed in mid-transfer, the other way is taken, and the same one again when it is back" {
    broken_and_mended "relayd_ends n1 KILL" "relayd n1"
}

signal_n1()
{
    kill -$1 ${RELAYD[n1]}
}

@test "relay: stopped in mid-transfer, the other way is taken, and the same one again when it goes on" {
    broken_and_mended "signal_n1 STOP" "signal_n1 CONT"
}

cables_of_n1()
{
    ip -n $NS-n1 link set l0b $1
    ip -n $NS-n1 link set l1a $1
}

@test "relay: its node's cables pulled in mid-transfer, the other way is taken, and the same one again when they are back" {
    broken_and_mended "cables_of_n1 down" "cables_of_n1 up"
}

cable_of_sender()
{
    ip -n $NS-n0 link set l0a $1
}

@test "relay: only the cable between the sender and its relay pulled, the other way is taken, and the same one again" {
    broken_and_mended "cable_of_sender down" "cable_of_sender up"
}

# Its flows are attached on the other side meanwhile.
@test "relay: started while one of its cables is out, the way over it is open as soon as it is back" {
    relayed_shape line 3
    narrow 3
    traffic there n0 n2 flows=2 seed=15 seconds=600
    goes_on there
    relayd_ends n1 KILL
    ip -n $NS-n1 link set l1a down
    relayd n1
    until_so 60 eval '[ "$(relay_state n1 | jq .counts.flows)" -gt 0 ]'
    ip -n $NS-n1 link set l1a up
    goes_on there
}

@test "relay: no way is left: an error in time that names the relay, and no wrong byte" {
    export MESHNET_RELAY_SILENCE=2s MESHNET_SILENCE=4s
    relayed_shape line 3
    narrow 3
    traffic there n0 n2 flows=2 seed=21 seconds=600
    goes_on there
    relayd_ends n1 KILL
    # "run" would wait for processes that are not its own.
    local rc=0
    traffic_ended there 90 || rc=$?
    [ $rc -eq 1 ]
    no grep '^wrong' there.send there.take
    grep -q '^failed.*n1' there.send
    grep -q '^failed.*n1' there.take
}

@test "relay: an end that is killed is an error at the other, which names it" {
    export MESHNET_RELAY_SILENCE=2s MESHNET_SILENCE=4s
    relayed_shape ring 4
    narrow 4
    traffic there n0 n2 seed=31 seconds=600
    traffic beside n0 n2 seed=32 seconds=600
    goes_on there
    kill -KILL ${TAKES[there]}
    traffic_ended there 90 || true
    grep -q '^failed.*n2' there.send
    goes_on beside
}

@test "relay: a receiver that is stopped holds up nobody else, and goes on when it is back" {
    export MESHNET_RELAY_SILENCE=2s
    relayed_shape line 4
    # Four flows of one process: together they could hold all buffers of a trunk.
    traffic held n0 n3 flows=4 seed=41 seconds=600
    traffic beside n0 n3 seed=42 seconds=600
    goes_on held
    kill -STOP ${TAKES[held]}
    sleep $LONG
    goes_on beside
    kill -CONT ${TAKES[held]}
    goes_on held
    goes_on beside
}

@test "relay: eight flows cross in both directions of a ring, all of them checked" {
    relayed_shape ring 4
    local from name
    for from in 0 1 2 3; do
        for name in x y; do
            traffic $name$from n$from n$(((from + 2) % 4)) seed=$from seconds=$LONG
        done
    done
    for from in 0 1 2 3; do
        traffic_ended x$from 60
        traffic_ended y$from 60
    done
}

@test "relay: random traffic and faults from a seed: nothing is wrong, hangs or leaks" {
    MESHNET_BUILD=$BUILD run env -u BATS_TEST_TMPDIR "$BATS_TEST_DIRNAME/../ci/soak" --relay --rounds 1 --seed 5
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *" 0 failed"* ]]
}
