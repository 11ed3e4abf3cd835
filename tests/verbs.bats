#!/usr/bin/env bats
# The verbs transport between two processes in namespaces with two cables, on the double of
# libibverbs: what is chosen, what is refused, what is said. Real soft-RoCE is in tests/lab.

load helper
load valid

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    STREAM=$BUILD/tests/stream
    NS=mnv$$
    unset MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
    ip netns add $NS-a
    ip netns add $NS-b
    for cable in 0 1; do
        ip link add mesh$cable netns $NS-a type veth peer name mesh$cable netns $NS-b
        for end in a b; do
            ip -n $NS-$end link set lo up
            ip -n $NS-$end link set mesh$cable up
        done
        ip -n $NS-a addr add 10.66.$cable.1/30 dev mesh$cable
        ip -n $NS-b addr add 10.66.$cable.2/30 dev mesh$cable
    done
    new_fabric
    RECEIVER='' SENDER='' TOKEN=00112233445566778899aabbccddeeff
}

teardown()
{
    local process
    for process in $RECEIVER $SENDER; do # timeout, and what it runs
        kill -9 $(pgrep -P "$process") "$process" 2>/dev/null || true
    done
    wait
    for end in a b w; do
        ip netns del $NS-$end 2>/dev/null || true
    done
    rm -f ${FABRIC:+"$FABRIC"}
}

# double ADDRESS0 ADDRESS1 END: what FAKEVERBS is for the end with those two addresses, of one fabric.
double()
{
    local files="stats=$PWD/stats.$3,pulled=$PWD/pulled,muted=$PWD/muted"
    echo "shm=$FABRIC,dev=rocep1s0f0:mesh0:$1,dev=roceP2p1s0f0:mesh1:$2,$files${UNTOLD:+,untold=$UNTOLD}"
}

# receive MESSAGES [VARIABLE…]: a receives in the background with RDMA.
receive()
{
    local messages=$1
    shift
    nsenter --net=/run/netns/$NS-a env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" \
        FAKEVERBS="$(double 10.66.0.1 10.66.1.1 a)" "$@" timeout -k 1 110 \
        "$STREAM" "$PLUGIN" receive handle "$messages" >received 2>received.log 3>&- &
    RECEIVER=$!
}

# on END COMMAND…
on()
{
    nsenter --net=/run/netns/$NS-"$1" "${@:2}"
}

# send MESSAGES SENDING [VARIABLE…]: b sends; SENDING tells whether it has a device too (rdma, none).
send()
{
    local messages=$1 sending=$2
    local library=LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    shift 2
    [ "$sending" = rdma ] || library=NOTHING=
    nsenter --net=/run/netns/$NS-b env "$library" FAKEVERBS="$(double 10.66.0.2 10.66.1.2 b)" "$@" \
        timeout -k 1 110 "$STREAM" "$PLUGIN" send handle "$messages" idle >sent 2>sent.log 3>&- &
    SENDER=$!
}

# start MESSAGES SENDING [VARIABLE…]: a receives, b sends.
start()
{
    receive "$1" "${@:3}"
    send "$@"
}

# finish: both ends say done.
finish()
{
    wait $SENDER || true
    wait $RECEIVER || true
    cat sent received
    grep -q '^done ' sent && grep -q '^done ' received
}

until_data_flows()
{
    for _ in $(seq 300); do
        grep -q '^256$' received && return
        sleep 0.1
    done
    cat sent received
    return 1
}

@test "verbs: both cables carry one connection, without TCP" {
    start 1024 rdma
    finish
    grep -q '^done 1024' received
    run ! grep TCP sent received
    # 256 MiB in all, written by the sender's devices and by nothing else.
    cat stats.b
    [ "$(awk '$1 == "bytes" { print $2 }' stats.b)" -ge $((1024 * 262144)) ]
}

# eces END: with which options queue pairs were made ready, as "OPTIONS=COUNT".
eces()
{
    awk '/^ece\./ { print substr($1, 5) "=" $2 }' stats.$1 | xargs
}

@test "verbs: enhanced connection establishment is what both ends have; without it nothing is missing" {
    receive 64 FAKEVERBS="$(double 10.66.0.1 10.66.1.1 a),ece=7"
    sends()
    {
        nsenter --net=/run/netns/$NS-b env LD_LIBRARY_PATH="$BUILD/tests/$1" \
            FAKEVERBS="$(double 10.66.0.2 10.66.1.2 b)$2" timeout -k 1 110 \
            "$STREAM" "$PLUGIN" send handle 64 >sent 2>sent.log 3>&- &
        SENDER=$!
        finish
    }
    sends fakeverbs ,ece=13
    cat stats.a stats.b
    [ "$(eces a) $(eces b)" = "5=2 5=2" ] # one queue pair a cable
    for other in fakeverbs fakeverbs-old; do
        rm -f "$FABRIC" handle
        receive 64 FAKEVERBS="$(double 10.66.0.1 10.66.1.1 a),ece=7"
        sends $other ''
        [ "$(eces a) $(eces b)" = "0=2 0=2" ]
    done
    rm -f "$FABRIC" handle
    receive 64
    sends fakeverbs ,ece=7
    [ "$(eces a) $(eces b)" = "0=2 0=2" ]
}

@test "verbs: TCP does not take the place of RDMA unasked; the sender is told why" {
    start 16 none
    wait $SENDER || true
    cat sent sent.log
    grep -q '^failed .* has no RDMA device on mesh.*MESHNET_ALLOW_TCP=true' sent
    grep -q '^  rocep1s0f0 port 1 gid 3  10.66.0.1 RoCE v2  mesh0' sent
}

@test "verbs: TCP instead of RDMA that the peer does not have is no warning where it is allowed" {
    start 16 none MESHNET_ALLOW_TCP=true
    finish
    cat sent.log
    # Of what the plugin says only warnings are in there. That the receiver, who has all, ends first
    # may be one.
    no grep -v "peer is gone: its process ended" sent.log
}

@test "verbs: the sender's process is killed: the receiver names the peer" {
    start 0 rdma
    until_data_flows
    kill -9 "$(pgrep -P $SENDER)"
    wait $RECEIVER || true
    cat received
    grep -q '^failed .* ncclRemoteError: .*receive from peer .*, link mesh1 (roceP2p1s0f0 port 1, 10.66.1.1/30 to 10.66.1.2/30).*: peer is gone' received
}

# told END TEXT: once for each of the two links, and nothing else.
told()
{
    cat "$1.log"
    [ "$(grep -c "link mesh0 .*: $2" "$1.log") $(grep -c "link mesh1 .*: $2" "$1.log")" = "1 1" ]
}

# MESHNET_LONG=20: with the default bounds, and cables out for 20 s.
short()
{
    [ -n "${MESHNET_LONG-}" ] || echo MESHNET_RDMA_SILENCE="$1"
}

@test "verbs: cables that are pulled under load are waited for; both ends say so, and that they go on" {
    start 4096 rdma $(short 10s) MESHNET_FAILOVER=off
    until_data_flows
    touch pulled
    sleep "${MESHNET_LONG-5.5}"
    rm pulled
    finish
    told received 'the port is down since'
    told received 'goes on after'
    told sent 'the port is down since'
    told sent 'goes on after'
}

# until_said TEXT: by both ends.
until_said()
{
    for _ in $(seq 300); do
        ! grep -q "$1" received.log || ! grep -q "$1" sent.log || return 0
        sleep 0.1
    done
    cat received.log sent.log
    return 1
}

# flows_on: 1024 messages more are received, within 30 s.
flows_on()
{
    local before
    before=$(tail -n 1 received)
    for _ in $(seq 300); do
        [ "$(tail -n 1 received)" -lt $((before + 1024)) ] || return 0
        sleep 0.1
    done
    cat sent received
    return 1
}

# gone END: mesh0 has gone and come back once, as both ends say once each.
gone()
{
    cat "$1.log"
    [ "$(grep -c 'link mesh0 .*: is given up: ' "$1.log")" -eq 1 ]
    grep 'link mesh0 .*: is back after ' "$1.log" | grep -oE 'still for [0-9]+ ms, and [0-9]+ bytes'
    [ "$(grep -c 'link mesh0 .*: is back after ' "$1.log")" -eq 1 ]
    run ! grep -E 'link mesh1 .*(given up|goes on|since)' "$1.log"
}

@test "verbs: one cable of two is pulled under load: all goes on over the other, until it is back" {
    # The control connection's cable, too.
    start 0 rdma MESHNET_RDMA_SILENCE=60s
    until_data_flows
    # At once: an empty file pulls both.
    echo rocep1s0f0 >pulling
    mv pulling pulled
    ip -n $NS-a link set mesh0 down
    until_said 'is given up'
    flows_on # long before anything else would end the wait
    ip -n $NS-a link set mesh0 up
    rm pulled
    until_said 'is back after'
    gone received
    gone sent
    kill -9 "$(pgrep -P $SENDER)"
    wait $RECEIVER || true
    grep -q '^failed .*: peer is gone' received
}

@test "verbs: of two cables that are pulled at once the device tells of one: the other's carrier is seen" {
    UNTOLD=roceP2p1s0f0
    start 0 rdma MESHNET_RDMA_SILENCE=60s
    until_data_flows
    for cable in 1 0; do
        ip -n $NS-a link set mesh$cable down
    done
    touch pulled
    until_said 'mesh1 has no carrier'
    # It is the port, and not that nobody answers.
    until_said 'mesh1.*the port is down'
    for cable in 1 0; do
        ip -n $NS-a link set mesh$cable up
    done
    rm pulled
    # Of this, too, its device tells nothing.
    until_said 'mesh1.*goes on after'
    flows_on
}

# rank NUMBER END ADDRESS0 ADDRESS1: one of two that sum up in rounds, what it says in rank.NUMBER.
rank()
{
    nsenter --net=/run/netns/$NS-$2 env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" MESHNET_RDMA_SILENCE=20s \
        FAKEVERBS="$(double $3 $4 $2)" timeout -k 1 200 \
        "$BUILD/tests/rounds" "$PLUGIN" $1 2 ring end >rank.$1 2>log.$1 3>&- &
}

# until_logged WORDS COUNT: so often, by rank 0.
until_logged()
{
    for _ in $(seq 600); do
        [ "$(grep -c "$1" log.0)" -lt $2 ] || return 0
        sleep 0.1
    done
    cat log.0
    return 1
}

@test "verbs: ranks that wait for each other's messages go on when either cable is pulled, time and again" {
    mkdir ring
    rank 0 a 10.66.0.1 10.66.1.1
    RECEIVER=$!
    rank 1 b 10.66.0.2 10.66.1.2
    SENDER=$!
    rounds_pass 50 rank.0 rank.1
    local device times=0
    for device in rocep1s0f0 roceP2p1s0f0 rocep1s0f0 roceP2p1s0f0; do
        times=$((times + 1))
        echo $device >pulling
        mv pulling pulled
        until_logged 'is given up' $((2 * times)) # it sends, and receives
        rounds_pass 50 rank.0 rank.1
        rm pulled
        until_logged 'is back after' $((2 * times))
        rounds_pass 50 rank.0 rank.1
    done
    touch end
    wait $SENDER
    wait $RECEIVER
    no grep '^wrong' rank.?
}

@test "verbs: silent links, their ports up, are told and waited for; for too long is an error" {
    start 0 rdma $(short 10s) MESHNET_FAILOVER=off
    until_data_flows
    touch muted
    until_said 'mesh0.*no answer'
    until_said 'mesh1.*no answer'
    sleep "${MESHNET_LONG-0}"
    rm muted
    for end in received sent; do
        for _ in $(seq 150); do
            ! grep -q 'mesh0.*goes on' $end.log || ! grep -q 'mesh1.*goes on' $end.log || break
            sleep 0.1
        done
        told $end 'no answer, though the port is up, since'
        told $end 'goes on after'
    done
    touch muted
    wait $SENDER || true
    wait $RECEIVER || true
    cat sent received
    grep -q '^failed .* ncclRemoteError: .*send to peer .*, link mesh[01] (roce.* port 1, .*no answer on the link' sent
    grep -q '^failed .* ncclRemoteError: .*receive from peer .*, link mesh[01] (roce.* port 1, .*no answer on the link' received
}

@test "verbs: an idle connection outlives a silent control connection" {
    touch idle
    start 512 rdma MESHNET_RDMA_SILENCE=8s
    for _ in $(seq 300); do
        ! grep -q idle sent || break
        sleep 0.1
    done
    ip -n $NS-a link set mesh0 down
    ip -n $NS-a link set mesh1 down
    sleep "${MESHNET_LONG-10}"
    ip -n $NS-a link set mesh0 up
    ip -n $NS-a link set mesh1 up
    rm idle
    finish
    cat received.log sent.log
    no grep -v 'the control connection was opened again' received.log sent.log
}

# Nothing but the receiver's announcements is on its way; one is lost with the cable by which the sender
# could be asked for it.
@test "verbs: a sender that makes no call opens the control connection anew: its receiver does not give up" {
    touch idle
    echo rocep1s0f0 >muted
    start 512 rdma MESHNET_RDMA_SILENCE=3s
    for _ in $(seq 300); do
        ! grep -q idle sent || break
        sleep 0.1
    done
    ip -n $NS-b link set mesh0 down
    for _ in $(seq 200); do
        ! grep -q 'was opened again' received.log || break
        sleep 0.1
    done
    grep 'link mesh0 .*: is given up: no answer' received.log
    grep 'was opened again' received.log
    sleep 4
    rm muted idle
    finish
    cat received.log sent.log
}

# cut END TIMES: the kernel resets the control connection there, the other end is told; returns when
# both have it again, TIMES in all.
cut()
{
    [ -n "$(on $1 ss -Htn state established)" ]
    [ -n "$(on $1 ss -HtnK state established)" ] || skip "this kernel destroys no sockets (ss -K)"
    for _ in $(seq 300); do
        [ "$(grep -c 'control connection was opened again' sent.log)" -lt "$2" ] ||
            [ "$(grep -c 'control connection was opened again' received.log)" -lt "$2" ] || return 0
        sleep 0.1
    done
    cat sent.log received.log
    return 1
}

@test "verbs: a control connection that is cut is opened again, over whichever cable is there" {
    start 0 rdma
    until_data_flows
    cut a 1
    cut b 2
    ip -n $NS-a link set mesh0 down
    cut b 3
    on a ss -Htn state established | grep -F 10.66.1.
    ip -n $NS-a link set mesh0 up
    ip -n $NS-b link set mesh1 down
    cut a 4
    on a ss -Htn state established | grep -F 10.66.0.
    cat sent.log
    # The fourth time nothing told the sender but the silence of the cable.
    [ "$(grep -c 'link mesh0 .*link mesh1 .*control connection is lost .*; it is being opened again' sent.log)" -eq 3 ]
    run ! grep 'no answer' sent.log received.log
    # Without it nobody knew more than that the link does not answer.
    kill -9 "$(pgrep -P $SENDER)"
    wait $RECEIVER || true
    cat received
    grep -q "^failed .* ncclRemoteError: .*receive from peer .*: peer is gone: its process ended" received
}

@test "verbs: the receiver's process is killed: the sender names the peer" {
    start 0 rdma
    until_data_flows
    kill -9 "$(pgrep -P $RECEIVER)"
    wait $SENDER || true
    cat sent
    grep -q '^failed .* ncclRemoteError: .*send to peer .*, link mesh0 (rocep1s0f0 port 1, 10.66.0.2/30 to 10.66.0.1/30).*: peer is gone' sent
}

@test "verbs: addresses that go away before the peer connects: the GIDs of both ends are shown" {
    receive 16
    for _ in $(seq 300); do
        [ ! -s handle ] || break
        sleep 0.1
    done
    ip -n $NS-a addr del 10.66.0.1/30 dev mesh0
    ip -n $NS-a addr del 10.66.1.1/30 dev mesh1
    run nsenter --net=/run/netns/$NS-b env MESHNET_CONNECT=4s LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" \
        FAKEVERBS="$(double 10.66.0.2 10.66.1.2 b)" timeout -k 1 30 "$STREAM" "$PLUGIN" send handle 16
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"nobody answers"*"The peer's GIDs when it listened:"*"  10.66.0.1/30 gid 3"*"10.66.1.1/30 gid 3"*"Own GIDs now:"*"rocep1s0f0 port 1 gid 3  10.66.0.2 RoCE v2  mesh0"* ]]
}

# serve_raw VARIABLE…: b serves in the background; returns when it listens.
serve_raw()
{
    echo $TOKEN >token
    start_server serve.out serve.out nsenter --net=/run/netns/$NS-b env "$@" \
        timeout -k 1 100 "$MESHNET" serve --listen 10.66.0.2 --token-file token
    RECEIVER=$SERVER
}

# raw SETTINGS OPTION…: a measures with b by verbs alone; SETTINGS go to the doubles of both.
raw()
{
    local more=$1 library=LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    shift
    [ -n "$RECEIVER" ] ||
        serve_raw "$library" FAKEVERBS="$(double 10.66.0.2 10.66.1.2 b),leaks=1$more"
    run --separate-stderr nsenter --net=/run/netns/$NS-a env "$library" MESHNET_TOKEN=$TOKEN \
        FAKEVERBS="$(double 10.66.0.1 10.66.1.1 a),leaks=1$more" timeout -k 1 90 "$MESHNET" bench \
        --peer 10.66.0.2 --raw-verbs "$@"
    echo "$stderr"
    cat serve.out
}

@test "verbs: bench puts writes, sends and reads by verbs alone beside the plugin" {
    raw '' --sizes 8,4K,20K --iters 40 --json
    [ "$status" -eq 0 ]
    echo "$output" >report
    [ "$(jq -c '[.raw_verbs[] | select(.size == 4096) | .path]' report)" = \
        '["plugin","RC write","RC send","RC read","UC write","UC send","UD send"]' ]
    # A datagram has one packet.
    [ "$(jq -c '[.raw_verbs[] | select(.size == 20480) | .path]' report)" = \
        '["plugin","RC write","RC send","RC read","UC write","UC send"]' ]
    jq -e '.raw_verbs | all(.messages_per_s > 0 and .p50_us > 0 and .p50_us <= .p99_us)' report
    jq -e '[.raw_verbs[] | select(.size == 20480)] | all(.gbps > 0)' report
    jq -e '[.raw_verbs[] | select(.path[:2] == "RC") | .lost_messages] | add == 0' report
    [ "$(jq -r .raw_device_here report)" = 'rocep1s0f0 port 1 gid 3 (mesh0, 10.66.0.1)' ]
    [ "$(jq -r .raw_device_peer report)" = 'rocep1s0f0 port 1 gid 3 (mesh0, 10.66.0.2)' ]
    jq -e '.results == null and .latency == null' report # not asked for
    ! python3 -c 'import jsonschema' 2>/dev/null || valid report
    kill "$(pgrep -P $RECEIVER)"
    wait $RECEIVER || true
    no grep -q fakeverbs: serve.out # nothing was left
}

@test "verbs: what unreliable queue pairs lose is counted, from here and to here" {
    raw ,lose=7 --sizes 4K --iters 8 --direction in --no-check --json
    [ "$status" -eq 0 ]
    jq -e '.raw_verbs | length == 7 and all(.direction == "in")' <<<"$output"
    jq -e '[.raw_verbs[] | select(.path[:1] == "U")] | length == 3 and all(.lost_messages > 0)' <<<"$output"
    jq -e '[.raw_verbs[] | select(.path[:2] == "RC")] | length == 3 and all(.lost_messages == 0)' <<<"$output"
}

@test "verbs: a peer that dies while verbs alone are measured is named" {
    serve_raw "LD_LIBRARY_PATH=$BUILD/tests/fakeverbs" FAKEVERBS="$(double 10.66.0.2 10.66.1.2 b)"
    (
        sleep 3
        kill -9 "$(pgrep -P $RECEIVER)"
    ) 3>&- &
    SECONDS=0
    raw ,strict=0 --sizes 4K --duration 60s # as NCCL, bench deregisters before it closes
    [ "$status" -eq 1 ]
    [ $SECONDS -lt 40 ]
    [[ "$stderr" == *"10.66.0.2"* ]]
}

@test "verbs: without RDMA at both ends bench --raw-verbs says what is missing" {
    serve_raw NOTHING=
    run --separate-stderr nsenter --net=/run/netns/$NS-a env MESHNET_TOKEN=$TOKEN \
        timeout -k 1 50 "$MESHNET" bench --peer 10.66.0.2 --raw-verbs --sizes 8
    echo "$stderr"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"--raw-verbs needs an RDMA device at both ends"*"mesh0 here: this host has no RDMA device"* ]]
    run --separate-stderr "$MESHNET" bench --peer 10.66.0.2 --raw-verbs --direction both
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--raw-verbs goes out or in"* ]]
}

# routed: b's first cable ends at a router, behind which is a; and the mesh file that says so.
routed()
{
    ip netns add $NS-w
    ip -n $NS-b link set mesh0 netns $NS-w
    ip -n $NS-w addr add 10.66.0.2/30 dev mesh0
    ip link add far netns $NS-w type veth peer name mesh0 netns $NS-b
    ip -n $NS-w addr add 10.67.0.1/30 dev far
    ip -n $NS-b addr add 10.67.0.2/30 dev mesh0
    ip -n $NS-w link set mesh0 up
    ip -n $NS-w link set far up
    ip -n $NS-b link set mesh0 up
    ip -n $NS-a link set mesh1 down
    ip netns exec $NS-w sysctl -qw net.ipv4.ip_forward=1
    ip -n $NS-a route add 10.67.0.0/30 via 10.66.0.2
    ip -n $NS-b route add 10.66.0.0/30 via 10.67.0.1
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics: [{netdev: mesh0, addresses: [10.66.0.1/30]}]
	  - name: b
	    nics: [{netdev: mesh0, addresses: [10.67.0.2/30]}]
	routes:
	  - {ends: [a/mesh0, b/mesh0], via: w}
	END
    export MESHNET_CONFIG=$PWD/mesh.yaml
}

@test "verbs: over a router that the mesh file names, RDMA and TCP" {
    local kind
    routed
    for kind in verbs tcp; do
        rm -f "$FABRIC" handle
        nsenter --net=/run/netns/$NS-a env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" MESHNET_NODE=a \
            MESHNET_TRANSPORT=$kind FAKEVERBS="$(double 10.66.0.1 10.66.1.1 a)" timeout -k 1 110 \
            "$STREAM" "$PLUGIN" receive handle 64 >received 2>received.log 3>&- &
        RECEIVER=$!
        nsenter --net=/run/netns/$NS-b env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" MESHNET_NODE=b \
            MESHNET_TRANSPORT=$kind FAKEVERBS="$(double 10.67.0.2 10.66.1.2 b)" timeout -k 1 110 \
            "$STREAM" "$PLUGIN" send handle 64 idle >sent 2>sent.log 3>&- &
        SENDER=$!
        finish
        grep -q '^done 64' received
        bytes=$(awk '$1 == "bytes" { print $2 }' stats.b)
        [ "$kind" = tcp ] || [ "$bytes" -ge $((64 * 262144)) ]
    done
    # Without that line of the file there is no way.
    sed -i '/^routes/,$d' mesh.yaml
    rm -f handle
    receive 64 MESHNET_NODE=a
    MESHNET_NODE=b MESHNET_CONNECT=4s MESHNET_ALLOW_TCP=false run nsenter --net=/run/netns/$NS-b \
        timeout -k 1 60 "$STREAM" "$PLUGIN" send handle 64
    [ "$status" -ne 0 ]
    [[ "$output" == *"share no subnet"* ]]
}

@test "verbs: inline data goes by the least that a queue pair of the link takes" {
    # All but every second or third of them take none, and the double refuses what is too long.
    for every in 1 2 3; do
        run env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" NCCL_SOCKET_IFNAME=lo \
            FAKEVERBS="inline_every=$every" MESHNET_QPS_PER_LINK=2 timeout 100 "$MESHNET" verify-plugin \
            --rule transfer.sizes --rule connect.many "$PLUGIN"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"2 rules: 2 passed"* ]]
    done
}
