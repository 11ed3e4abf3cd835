#!/usr/bin/env bats
# Two cables a pair, under a stream of messages of all sizes whose every byte is compared: one is
# pulled, goes silent with its carrier up, flaps, comes back, and the other goes meanwhile. Nothing
# here measures time; what the plugin says of it is in its log, which a failing test shows.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    STREAM=$BUILD/tests/stream
    NS=mno$$
    unset MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    export MESHNET_TRANSPORT=tcp STREAM_SIZES=all STREAM_END=end
    cd "$BATS_TEST_TMPDIR"
    # A bridge in the middle of each cable: a port taken out of it is silence, with carriers up.
    printf "netns add $NS-%s\n" a b w | ip -batch -
    for link in 0 1; do
        echo "link add wire$link type bridge"
        echo "link set wire$link up"
        for end in a b; do
            echo "link add $end$link type veth peer name mesh$link netns $NS-$end"
            echo "link set $end$link master wire$link up"
        done
    done | ip -n $NS-w -batch -
    ends=([1]=a [2]=b)
    for end in 1 2; do
        ip -n $NS-${ends[end]} -batch - <<-END
	link set lo up
	link set mesh0 up
	link set mesh1 up
	addr add 10.66.0.$end/30 dev mesh0
	addr add 10.66.1.$end/30 dev mesh1
	END
    done
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

# start [IDLE]: a receives, b sends, while that file is not there; returns when data flows.
start()
{
    nsenter --net=/run/netns/$NS-a timeout -k 1 200 "$STREAM" "$PLUGIN" receive handle 0 >received 2>received.log 3>&- &
    RECEIVER=$!
    nsenter --net=/run/netns/$NS-b timeout -k 1 200 "$STREAM" "$PLUGIN" send handle 0 "$@" >sent 2>sent.log 3>&- &
    SENDER=$!
    flows 256
}

# flows COUNT: until so many messages have been received.
flows()
{
    for _ in {1..600}; do
        heard
        [ "${COUNT:-0}" -lt "$1" ] || return 0
        [[ $HEARD != *$'\nfailed'* ]] || break
        nap 0.1
    done
    tail -n 3 received sent
    cat received.log sent.log
    return 1
}

# more: some more messages come.
more()
{
    heard
    flows $((COUNT + ${1-512}))
}

# pull LINK, plug LINK: the carrier goes at both ends, as with a cable.
pull()
{
    printf "link set %s$1 down\n" a b | ip -n $NS-w -batch -
}

plug()
{
    printf "link set %s$1 up\n" a b | ip -n $NS-w -batch -
}

# mute LINK, unmute LINK: nothing passes, the carriers stay.
mute()
{
    ip -n $NS-w link set a"$1" nomaster
}

unmute()
{
    ip -n $NS-w link set a"$1" master wire"$1"
}

# says WHO TEXT [COUNT]: in its log, so often at least.
says()
{
    for _ in {1..400}; do
        [ "$(grep -c "$2" "$1.log")" -lt "${3-1}" ] || return 0
        nap 0.1
    done
    cat received.log sent.log
    return 1
}

# The stream is ended, and all of it has arrived.
survived()
{
    touch end
    wait $RECEIVER || true
    wait $SENDER || true
    cat received.log sent.log
    tail -n 1 received sent
    [ "$(tail -n 1 received)" = "$(tail -n 1 sent)" ]
    grep -q '^done' received
}

@test "failover: a cable is pulled under load: the stream goes on over the other, and both when it is back" {
    export STREAM_INFO=1
    start
    pull 1
    says sent 'link mesh1 .*out: its carrier is lost; .* ms, [0-9]* bytes'
    says received 'link mesh1 .*out: '
    more
    plug 1
    says sent 'link mesh1 .*is back after'
    says received 'link mesh1 .*is back after'
    more
    survived
    [ "$(grep -c 'out: ' sent.log)" -eq 1 ]
    [ "$(grep -c 'is back' sent.log)" -eq 1 ]
    grep 'link mesh1 .*went 1 times, came back 1 times; [0-9]* ms of standing still for it; [0-9]* bytes' sent.log
    run ! grep 'link mesh0 .*went ' sent.log
}

@test "failover: ranks that wait for each other's messages, small ones too, go on when either cable is pulled" {
    mkdir ring
    nsenter --net=/run/netns/$NS-a timeout -k 1 200 $BUILD/tests/rounds "$PLUGIN" 0 2 ring end >received 2>received.log 3>&- &
    RECEIVER=$!
    nsenter --net=/run/netns/$NS-b timeout -k 1 200 $BUILD/tests/rounds "$PLUGIN" 1 2 ring end >sent 2>sent.log 3>&- &
    SENDER=$!
    rounds_pass 50 received sent
    for cable in 0 1 0 1; do
        pull $cable
        rounds_pass 50 received sent
        plug $cable
        says sent "link mesh$cable .*is back after" $((1 + back[cable]++))
        rounds_pass 50 received sent
    done
    survived
}

@test "failover: who sends his last word and closes waits until it has come, over another cable if need be" {
    start idle
    touch idle
    for _ in $(seq 300); do
        heard
        [[ $HEARD != *$'\nidle\n'* ]] || break
        nap 0.1
    done
    mute 0
    touch end
    rm idle
    survived
    grep 'link mesh0 .*out: \(no answer for\|the receiver hears nothing\)' sent.log
}

@test "failover: the first cable, which the connection was made over, may be the one that goes" {
    start
    pull 0
    says sent 'link mesh0 .*out: its carrier is lost'
    more
    plug 0
    says sent 'link mesh0 .*is back after'
    pull 1
    says sent 'link mesh1 .*out: its carrier is lost'
    more
    plug 1
    says sent 'link mesh1 .*is back after'
    survived
}

@test "failover: a cable that carries nothing any more, with its carrier up, is given up" {
    start
    mute 0
    says sent 'link mesh0 .*out: \(no answer for\|the receiver hears nothing\)'
    more
    unmute 0
    says sent 'link mesh0 .*is back after'
    mute 1
    says sent 'link mesh1 .*out: \(no answer for\|the receiver hears nothing\)'
    more
    unmute 1
    says sent 'link mesh1 .*is back after'
    survived
}

@test "failover: what goes out is lost, what comes in is not: it is given up all the same" {
    start
    lossy a mesh1 100
    says sent 'link mesh1 .*out: \(no answer for\|the receiver hears nothing\)'
    more
    tc -n $NS-a qdisc del dev mesh1 root 2>/dev/null || on a nft delete table netdev lossy
    says sent 'link mesh1 .*is back after'
    survived
}

@test "failover: a cable that flaps ten times costs no message, and is used seldom" {
    start
    for _ in $(seq 10); do
        pull 1
        sleep 0.2
        plug 1
        sleep 0.2
    done
    more
    says sent 'link mesh1 .*is back after'
    survived
    [ "$(grep -c 'mesh1 .*out: ' sent.log)" -le 10 ]
}

@test "failover: the second cable goes during recovery from the first: both are waited for, both return" {
    start
    mute 0
    sleep 2
    mute 1
    sleep 1
    unmute 1
    says sent 'link mesh0 .*out: '
    more
    unmute 0
    says sent 'link mesh0 .*is back after'
    more
    survived
}

@test "failover: both cables go for a while and return: it is waited for" {
    start
    pull 0
    pull 1
    sleep 3
    plug 1
    more
    plug 0
    more
    survived
}

@test "failover: both cables go for good: an error at both ends that names peer and link" {
    export MESHNET_SILENCE=4s
    start
    mute 0
    sleep 1
    mute 1
    wait $RECEIVER || true
    wait $SENDER || true
    tail -n 1 received sent
    grep -q '^failed .* ncclRemoteError: .*link mesh. .*link is silent' received
    grep -q '^failed .* ncclRemoteError: .*link mesh. .*link is silent' sent
}

@test "failover: with transport.failover off a cable that goes is waited for" {
    export MESHNET_FAILOVER=false
    start
    mute 1
    says received 'link mesh1 .*no answer since .*waiting for it'
    unmute 1
    more
    survived
    no grep -q 'out: ' sent.log
}

@test "failover: a receiver that is stopped is slow: no link is given up for it" {
    start
    receiver=$(pgrep -P $RECEIVER)
    kill -STOP "$receiver"
    sleep 5
    kill -CONT "$receiver"
    more
    survived
    no grep -q 'out: ' sent.log received.log
}

@test "failover: the peer's end is told as such while one cable is out" {
    start
    pull 1
    says sent 'link mesh1 .*out: '
    kill -9 "$(pgrep -P $RECEIVER)"
    wait $SENDER || true
    tail -n 1 sent
    grep -q '^failed .* ncclRemoteError: .*peer is gone' sent
}
