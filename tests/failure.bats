#!/usr/bin/env bats
# What happens under a stream: a killed process on either side, a link that goes silent for good or
# for a while, a slow peer. The bounds given to timeout are generous; nothing here measures time.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    STREAM=$BUILD/tests/stream
    NS=mnf$$
    unset MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    # 4000 messages take 8 s at least: what is done to a stream meets it under way.
    export STREAM_PACE=2000 DRIVER_NAP=1000
    cd "$BATS_TEST_TMPDIR"
    # Two nodes and the cable between them: a bridge, so that the link can go silent with its carrier
    # up on both sides, as a broken transceiver or a hung host does.
    printf "netns add $NS-%s\n" a b w | ip -batch -
    ip -n $NS-w -batch - <<-END
	link add wire type bridge
	link set wire up
	link add to-a type veth peer name mesh0 netns $NS-a
	link add to-b type veth peer name mesh0 netns $NS-b
	link set to-a master wire up
	link set to-b master wire up
	END
    printf '%s\n' 'link set lo up' 'link set mesh0 up' 'addr add 10.66.0.1/30 dev mesh0' | ip -n $NS-a -batch -
    printf '%s\n' 'link set lo up' 'link set mesh0 up' 'addr add 10.66.0.2/30 dev mesh0' | ip -n $NS-b -batch -
    RECEIVER='' SENDER=''
}

teardown()
{
    kill -9 $RECEIVER $SENDER 2>/dev/null || true
    wait
    for end in a b w; do
        ip netns del $NS-$end 2>/dev/null || true
    done
}

# start MESSAGES [LINE]: a receives in the background, b sends; returns when data flows, or when the
# sender has said LINE.
start()
{
    nsenter --net=/run/netns/$NS-a timeout -k 1 110 "$STREAM" "$PLUGIN" receive handle "$1" >received 2>received.log 3>&- &
    RECEIVER=$!
    nsenter --net=/run/netns/$NS-b timeout -k 1 110 "$STREAM" "$PLUGIN" send handle "$1" idle >sent 2>sent.log 3>&- &
    SENDER=$!
    for _ in $(seq 300); do
        heard
        if [ -n "${2-}" ]; then
            [[ $HEARD != *"$2"* ]] || return 0
        else
            [ -z "$COUNT" ] || return 0
        fi
        nap 0.1
    done
    cat received sent
    return 1
}

# The stream program under its timeout.
process_of()
{
    pgrep -P "$1"
}

@test "failure: the sender's process is killed: the receiver gets an error that names peer and link" {
    start 0
    kill -9 "$(process_of $SENDER)"
    wait $RECEIVER || true
    cat received
    grep -q '^failed .* ncclRemoteError: .*link mesh0 (10.66.0.1/30 to 10.66.0.2/30).*peer is gone' received
}

@test "failure: the receiver's process is killed: the sender gets an error that names peer and link" {
    start 0
    kill -9 "$(process_of $RECEIVER)"
    wait $SENDER || true
    cat sent
    grep -q '^failed .* ncclRemoteError: .*link mesh0 (10.66.0.2/30 to 10.66.0.1/30).*peer is gone' sent
}

@test "failure: a link silent for good ends in an error on both sides that names peer and link" {
    export MESHNET_SILENCE=4s
    start 0
    ip -n $NS-w link set to-a nomaster
    wait $RECEIVER || true
    wait $SENDER || true
    cat received sent
    grep -q '^failed .* ncclRemoteError: .*link mesh0 .*link is silent' received
    grep -q '^failed .* ncclRemoteError: .*link mesh0 .*link is silent' sent
}

# outage SECONDS: of the link; with MESHNET_LONG=20 so long, and under the default bound.
outage()
{
    ip -n $NS-w link set to-a nomaster
    sleep "${MESHNET_LONG-$1}"
    ip -n $NS-w link set to-a master wire
}

# survived MESSAGES
survived()
{
    wait $RECEIVER || true
    wait $SENDER || true
    cat received.log sent.log
    grep -q "^done $1\$" received
    grep -q "^done $1\$" sent
}

# told END: of one outage, and of its end.
told()
{
    [ "$(grep -c 'link mesh0 .*: no answer since .*waiting for it' $1.log)" -eq 1 ]
    [ "$(grep -c 'link mesh0 .*: goes on after' $1.log)" -eq 1 ]
}

@test "failure: an outage under load is told and survived, no message is lost or damaged" {
    [ -n "${MESHNET_LONG-}" ] || export MESHNET_SILENCE=15s
    start 4000
    outage 5
    survived 4000
    told received
    told sent
}

@test "failure: an outage of an idle connection is told by who waits, and survived" {
    [ -n "${MESHNET_LONG-}" ] || export MESHNET_SILENCE=12s
    touch idle
    start 512 idle
    for _ in $(seq 300); do
        ! grep -qs connected received || break
        nap 0.1
    done
    outage 7
    rm idle
    survived 512
    told received
}

@test "failure: a stopped receiver is slow, not dead: the stream goes on when it does" {
    export MESHNET_SILENCE=2s
    start 4000
    pid=$(process_of $RECEIVER)
    kill -STOP $pid
    sleep 6
    kill -CONT $pid
    wait $RECEIVER
    wait $SENDER
    grep -q '^done 4000$' received
    grep -q '^done 4000$' sent
}

@test "failure: an address that goes away before the peer connects: both ends' addresses are named" {
    nsenter --net=/run/netns/$NS-a timeout -k 1 110 "$STREAM" "$PLUGIN" receive handle 16 >received 3>&- &
    RECEIVER=$!
    for _ in $(seq 300); do
        [ ! -e handle ] || break
        sleep 0.1
    done
    ip -n $NS-a addr del 10.66.0.1/30 dev mesh0
    MESHNET_CONNECT=4s run nsenter --net=/run/netns/$NS-b timeout -k 1 30 "$STREAM" "$PLUGIN" send handle 16
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"ncclRemoteError: "*"peer 10.66.0.1 port "*" over mesh0: nobody answers"*"The peer's addresses when it listened:"*"  10.66.0.1/30"*"Own addresses:"*"  10.66.0.2/30"* ]]
    [[ "$output" == *"; not even for the address (no answer to ARP)"* ]]
    [[ "$output" != *GID* ]]
}
