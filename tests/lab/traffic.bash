# Traffic between the nodes of a lab, for the tests that load this after helper.

TOKEN=00112233445566778899aabbccddeeff
# Several emulated machines on a busy host take their time to set up queue pairs.
SLOW=MESHNET_HANDSHAKE=30s
# Drivers that leave the others of them something: what turns for nothing makes all of them slow.
DRIVERS='DRIVER_NAP=1000 STREAM_PACE=10000'
# The stream that is meant, where there are several.
STREAM=stream

# serve_on NODE FILE OPTION…: meshnet serve there with that mesh file, until the lab ends; returns
# when it listens.
serve_on()
{
    local node=$1 file=$2
    shift 2
    on "$node" "(umask 077; echo $TOKEN >/root/token)
        rm -f /root/serve.out
        $SLOW MESHNET_CONFIG=$file setsid $MESHNET serve --listen 0.0.0.0 \
            --token-file /root/token $* >/root/serve.out 2>&1 &
        for i in {1..300}; do
            ! grep -q listening /root/serve.out || exit 0
            sleep 0.1
        done
        cat /root/serve.out
        exit 1"
}

# ring_up: the machines of $MESH, which is a ring of four, and a serve on each; lab_down ends it.
ring_up()
{
    local node
    lab_up "$MESH"
    for node in spark-a spark-b spark-c spark-d; do
        serve_on $node "$MESH"
    done
}

# managed FILE: it with the lab's management network, for all its nodes.
managed()
{
    awk '/^  - name: / { n++ } { print }
        /^    nics:/ { printf "      - {netdev: mgmt, addresses: [10.255.0.%d/24], role: management}\n", n }' "$1"
}

# collectives_at FILE VARIABLES OPTION…: bench --collective on a rank of each of the four nodes, rank 0 at
# spark-a; what that reports is in $output, what it says in $stderr. Fails when a rank does, or an element
# is wrong.
collectives_at()
{
    local file=$1 set="$SLOW MESHNET_LOG=info MESHNET_CONFIG=$1 MESHNET_TOKEN=$TOKEN $2" node jobs=() rank=1 job
    set+=" WORLD_SIZE=4 MASTER_ADDR=10.255.0.1 MASTER_PORT=18600"
    shift 2
    for node in spark-b spark-c spark-d; do
        start_on $node "$set RANK=$rank $MESHNET bench --timeout 60s $* >/root/rank 2>&1"
        jobs+=("$JOB")
        rank=$((rank + 1))
    done
    run --separate-stderr on spark-a "$set RANK=0 $MESHNET bench --json --timeout 60s $*"
    echo "$stderr"
    [ "$status" -eq 0 ] || on spark-c cat /root/rank
    for job in "${jobs[@]}"; do
        wait $job || status=1
    done
    [ "$status" -eq 0 ] &&
        jq -e '[.. | objects | select(has("wrong")) | .wrong] | length > 0 and all(. == 0)' <<<"$output"
}

# opposite_keeps_rules NODE PEER FILE: verify-plugin between the two.
opposite_keeps_rules()
{
    local -x LAB_TIMEOUT=500 # a little more than the judge takes at most
    serve_on "$2" "$3" --port 18517
    run --separate-stderr on "$1" "(umask 077; echo $TOKEN >/root/token)
        $SLOW MESHNET_CONFIG=$3 $MESHNET verify-plugin --peer $2 --port 18517 --rule connect \
            --rule close --rule transfer.sizes --timeout 90s --total 8m --token-file /root/token \
            --json $PLUGIN"
    echo "$stderr"
    echo "$output" | tail -40
    [ "$status" -eq 0 ]
}

# bench_at NODE FILE OPTION…: into $output and $status, and into the file report.
bench_at()
{
    local node=$1 file=$2
    shift 2
    run --separate-stderr on "$node" "echo $TOKEN >/root/token; chmod 600 /root/token
        $SLOW MESHNET_CONFIG=$file $MESHNET bench --token-file /root/token --json $*"
    echo "$output" >"$BATS_TEST_TMPDIR/report"
    echo "$stderr"
}

# bench_on NODE PEER FILE OPTION…: the same, with the serve of a peer.
bench_on()
{
    bench_at "$1" "$3" --peer "$2" "${@:4}"
}

# carried_by_rdma HERE PEER: that the last report has right data, moved by these NICs of the two ends
# over RDMA, and nothing but a few packets of control over their other RDMA devices.
carried_by_rdma()
{
    jq -e --arg here "$1" --arg peer "$2" '
        def only($netdevs): .transport == "RDMA" and .carried_by == $netdevs and
            all(.nics[] | select(.device and (.netdev as $n | $netdevs | contains($n) | not));
                .rdma_tx + .rdma_rx < 20);
        .checked_messages > 0 and .wrong_messages == 0 and
        (.counters_here | only($here)) and (.counters_peer | only($peer))' \
        "$BATS_TEST_TMPDIR/report" || { cat "$BATS_TEST_TMPDIR/report"; return 1; }
}

# rdma_packets NODE: that its RDMA devices sent or received since it booted.
rdma_packets()
{
    on "$1" 'cat /sys/class/infiniband/*/ports/1/hw_counters/{sent,rcvd}_pkts' |
        awk '{ sum += $1 } END { print sum + 0 }'
}

# stream_start RECEIVER SENDER FILE [VARIABLE…]: 256 KiB messages without end, and a pause while the
# sender's node has a file /root/idle; their output is in /root/$STREAM on either node. Returns when
# they are connected.
stream_start()
{
    local stream=$BUILD/tests/stream handle more=${*:4}
    on "$1" "rm -f /root/$STREAM.handle /root/$STREAM
        $SLOW $DRIVERS $more MESHNET_CONFIG=$3 setsid $stream $PLUGIN receive /root/$STREAM.handle 0 >/root/$STREAM 2>&1 &
        for i in {1..300}; do
            [ ! -s /root/$STREAM.handle ] || exit 0
            sleep 0.1
        done
        cat /root/$STREAM
        exit 1"
    handle=$(on "$1" base64 -w 0 /root/$STREAM.handle)
    on "$2" "rm -f /root/$STREAM
        echo $handle | base64 -d >/root/$STREAM.handle
        $SLOW $DRIVERS $more MESHNET_CONFIG=$3 setsid $stream $PLUGIN send /root/$STREAM.handle 0 /root/idle >/root/$STREAM 2>&1 &
        for i in {1..300}; do
            ! grep -qs connected /root/$STREAM || exit 0
            sleep 0.1
        done
        cat /root/$STREAM
        exit 1"
}

# stream_says NODE PATTERN SECONDS: waits until the stream there has said so.
stream_says()
{
    on "$1" "for ((i = 0; i < $3 * 10; i++)); do
            ! grep -qE '$2' /root/$STREAM || exit 0
            sleep 0.1
        done
        echo 'no \"$2\" within $3 s'
        tail -n 5 /root/$STREAM
        exit 1"
}

# stream_goes_on NODE…: another 256 messages come through, and nothing has failed.
stream_goes_on()
{
    local node
    for node; do
        on "$node" "before=\$(grep -E '^[0-9]+\$' /root/$STREAM | tail -n 1)
            for ((i = 0; i < 600; i++)); do
                now=\$(grep -E '^[0-9]+\$' /root/$STREAM | tail -n 1)
                ! grep -q '^failed' /root/$STREAM || break
                [ \$((now - before)) -lt 256 ] || exit 0
                sleep 0.1
            done
            tail -n 5 /root/$STREAM
            exit 1" || return
    done
}

# stream_kill NODE…
stream_kill()
{
    local node
    for node; do
        on "$node" 'kill -9 $(pgrep -x stream); rm -f /root/idle'
    done
}

# stream_end NODE SECONDS: waits until the stream there has ended, and prints what it said.
stream_end()
{
    on "$1" "for ((i = 0; i < $2 * 10; i++)); do
            ! grep -E '^(failed|done)' -A 40 /root/$STREAM || exit 0
            sleep 0.1
        done
        echo 'still running after $2 s'
        tail -n 3 /root/$STREAM
        exit 1"
}

# relays_on NODE…: meshnet relayd on each, by the file mesh.yaml of this folder; SLOW has from here on
# what goes by them.
relays_on()
{
    local node
    (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >key)
    # Emulated machines that share few processors stand still for seconds.
    SLOW+=" MESHNET_KEY_FILE=/root/key MESHNET_RELAY_SOCKET=/root/relay.sock MESHNET_RELAY_SILENCE=20s
        MESHNET_CONNECT=90s"
    SLOW=${SLOW//$'\n'/ }
    lab sync
    for node; do
        relayd_on $node
    done
}

relayd_on()
{
    on "$1" "(umask 077; cp $PWD/key /root/key)
        $SLOW MESHNET_CONFIG=$PWD/mesh.yaml setsid $MESHNET relayd >>/root/relayd 2>&1 &
        echo \$! >/root/relayd.pid
        for i in {1..300}; do
            ! $SLOW MESHNET_CONFIG=$PWD/mesh.yaml $MESHNET relayd --status >/dev/null 2>&1 || exit 0
            sleep 0.2
        done
        cat /root/relayd
        exit 1"
}

# passed_on NODE: bytes, by its relay.
passed_on()
{
    on "$1" "$SLOW MESHNET_CONFIG=$PWD/mesh.yaml $MESHNET relayd --status --json" | jq .counts.bytes
}
