#!/usr/bin/env bats
# transport.detour: neighbours with one cable go on over meshnet relayd on a third node while it is
# out, and over it again when it is back; or use both. Triangles in namespaces, over TCP and over
# RDMA.

load helper
load namespaces
load relay

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mndt$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_RANK MESHNET_WORLD "${!NCCL_@}"
    export NO_COLOR=1 MESHNET_TOKEN=00112233445566778899aabbccddeeff
    cd "$BATS_TEST_TMPDIR" || return
    managed 10.9.2
    relay_key
    export MESHNET_DETOUR=spare MESHNET_RELAY_SILENCE=2s
    shape_of ring 3
    NODES=3
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

# pull down|up: of n0 and n1, at one end of it.
pull()
{
    ip -n $NS-n0 link set l0a $1
}

# silence NODE NIC: nothing of what comes there arrives, and no carrier goes. heard NODE NIC: it does.
silence()
{
    tc -n $NS-$1 qdisc add dev $2 root netem loss 100% 2>/dev/null || on $1 nft -f - <<-END
	table netdev silent {
	  chain in {
	    type filter hook ingress device "$2" priority 0;
	    drop
	  }
	}
	END
}

heard()
{
    tc -n $NS-$1 qdisc del dev $2 root netem 2>/dev/null || (on $1 nft delete table netdev silent)
}

goes_on()
{
    traffic_moves $1 20000000
}

# goes_over NODE NIC BYTES: so much more goes through a NIC within a second.
goes_over()
{
    local before
    before=$(bytes_of $1 $2) && sleep 1 && [ $(($(bytes_of $1 $2) - before)) -gt $3 ]
}

# direct_again: what moves does not go over the third node.
direct_again()
{
    local before
    before=$(relayed n2) && traffic_moves there 10000000 && [ $(($(relayed n2) - before)) -lt 3000000 ]
}

goes_on_and_returns()
{
    narrow 3
    relayd n0 n1 n2
    traffic there n0 n1 flows=2 seed=11 seconds=600
    traffic back n1 n0 flows=1 seed=12 seconds=600
    goes_on there
    goes_on back
    until_so 30 direct_again
    local round
    for round in 1 2; do
        $1
        goes_on there
        goes_on back
        [ "$(relayed n2)" -gt 20000000 ]
        $2
        until_so 30 direct_again
        goes_on there
        goes_on back
    done
    no grep '^wrong\|^failed' there.send there.take back.send back.take
    grep -q 'the way through their own cable is gone' there.send
    grep -q 'the way through their own cable is back' there.send
}

@test "detour: the cable between two neighbours pulled, twice: they go on over the third node, and return, over TCP" {
    goes_on_and_returns "pull down" "pull up"
}

@test "detour: the cable between two neighbours pulled, twice: they go on over the third node, and return, over RDMA" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    goes_on_and_returns "pull down" "pull up"
}

silent_cable()
{
    silence n0 l0a
    silence n1 l0b
}

heard_cable()
{
    heard n0 l0a
    heard n1 l0b
}

@test "detour: a cable that loses everything in silence, twice: they go on over the third node, and return" {
    goes_on_and_returns silent_cable heard_cable
}

@test "detour: an all-reduce of three goes on, and is right, while a cable is out and back" {
    relayd n0 n1 n2
    local rank pids=() before
    for rank in 0 1 2; do
        (of_node n$rank env RANK=$rank WORLD_SIZE=3 MASTER_ADDR=10.9.2.1 MASTER_PORT=18656 MESHNET_LOG=info \
            timeout -k 1 150 "$MESHNET" bench --collective all-reduce --sizes 1M --duration 16s --max-duration 16s --timeout 30s --json) \
            >report.$rank 2>said.$rank 3>&- &
        pids+=($!)
    done
    until_so 30 goes_over n0 l0a 10000000
    before=$(relayed n2)
    pull down
    until_so 30 eval "[ \$((\$(relayed n2) - before)) -gt 10000000 ]"
    pull up
    until_so 30 goes_over n0 l0a 10000000
    for rank in 0 1 2; do
        wait "${pids[rank]}" || { cat said.$rank && false; }
    done
    jq -e '[.. | objects | select(has("wrong")) | .wrong] | length > 0 and all(. == 0)' report.0
    grep -h 'their own cable is back' said.0
}

@test "detour: no relayd runs: a cable that is out is waited for, as without; for too long it is an error that names it" {
    export MESHNET_SILENCE=4s
    traffic there n0 n1 seed=21 seconds=600
    goes_on there
    pull down
    sleep 1
    pull up
    goes_on there
    pull down
    local rc=0
    traffic_ended there 60 || rc=$?
    [ $rc -eq 1 ]
    no grep '^wrong' there.send there.take
    grep -q '^failed.*n1.*their own cable.*no carrier' there.send
    grep -q '^failed.*n0.*their own cable' there.take
}

@test "detour: the third node's relay dies while the cable is out: an error in time, and no wrong byte" {
    export MESHNET_SILENCE=4s
    relayd n0 n1 n2
    traffic there n0 n1 seed=22 seconds=600
    goes_on there
    pull down
    goes_on there
    relayd_ends n2 KILL
    local rc=0
    traffic_ended there 60 || rc=$?
    [ $rc -eq 1 ]
    no grep '^wrong' there.send there.take
    grep -q '^failed.*no way is left' there.send
    grep -q '^failed.*no way is left' there.take
}

@test "detour: the third node's relay dies and is back: the cable carries on" {
    relayd n0 n1 n2
    traffic there n0 n1 flows=2 seed=23 seconds=600
    goes_on there
    relayd_ends n2 KILL
    goes_on there
    relayd n2
    goes_on there
    pull down
    goes_on there
}

@test "detour: an end that is killed is an error at the other in time, with no relayd too; one that is stopped is waited for" {
    export MESHNET_SILENCE=8s
    traffic there n0 n1 seed=24 seconds=600
    traffic beside n0 n1 seed=25 seconds=600
    goes_on there
    kill -STOP ${TAKES[beside]}
    kill -KILL ${TAKES[there]}
    traffic_ended there 30 || true
    grep -q '^failed.*n1' there.send
    sleep 4
    kill -CONT ${TAKES[beside]}
    goes_on beside
    no grep 'their own cable is gone' beside.send
}

@test "detour: on: what the cable has no room for goes over the third node as well; off and spare leave it as good as idle" {
    relayd n0 n1 n2
    local how before
    for how in off spare; do
        MESHNET_DETOUR=$how traffic $how n0 n1 seed=26 messages=100 size=2097152
        traffic_ended $how 60
    done
    # Of 400 MB; some goes there before the cable's way is open at both ends.
    [ "$(relayed n2)" -lt 20000000 ]
    before=$(relayed n2)
    MESHNET_DETOUR=on traffic on n0 n1 seed=26 messages=100 size=2097152
    traffic_ended on 60
    [ $(($(relayed n2) - before)) -gt 30000000 ]
}
