#!/usr/bin/env bats
# Three nodes, each cabled to both others: discover and bench over RDMA, GIDs that move, processes and machines that die.

load helper
load traffic

MESH=$TOP/configs/triangle.yaml

setup_file()
{
    local node
    lab_up "$MESH"
    mkdir "$BATS_FILE_TMPDIR/own"
    for node in spark-a spark-b spark-c; do
        on $node "$MESHNET discover -o /root/own.yaml >/dev/null && cat /root/own.yaml" \
            >"$BATS_FILE_TMPDIR/own/$node.yaml"
        serve_on $node "$MESH"
    done
}

teardown_file()
{
    lab_down
}

setup()
{
    cd "$BATS_TEST_TMPDIR"
    FOUND=$BATS_FILE_TMPDIR/mesh.yaml
}

# What two mesh files must have in common, whatever they call their NICs and links.
wiring()
{
    "$MESHNET" discover --check "$1" --json | jq -S '
        (.nics | map({key: "\(.node)/\(.nic)", value: "\(.node)/\(.netdev)"}) | from_entries) as $netdev |
        {nodes: [.nodes[].node] | sort,
         nics: [.nics[] | {node, netdev, device, port, addresses, mtu}] | sort,
         links: [.links[] | {subnet, ends: ([$netdev[.a], $netdev[.b]] | sort)}] | sort}'
}

@test "discover on each node finds what the lab was wired from" {
    "$MESHNET" discover -o "$FOUND" --merge "$BATS_FILE_TMPDIR"/own/*.yaml
    diff <(wiring "$MESH") <(wiring "$FOUND")
    run ! grep mgmt "$FOUND"
    [ "$(grep -c 'gid: {index: 1, address: ' "$FOUND")" -eq 6 ]
}

@test "bench: every pair over RDMA, over its own link only, the third node stays out of it" {
    local a b c nic_a nic_b before
    while read -r a b c nic_a nic_b; do
        before=$(rdma_packets $c)
        bench_on $a $b "$MESH" --sizes 64,100K --iters 8 --direction both
        [ "$status" -eq 0 ]
        carried_by_rdma $nic_a $nic_b
        [ $(($(rdma_packets $c) - before)) -lt 20 ]
    done <<END
spark-a spark-b spark-c enp1s0f0np0 enp1s0f0np0
spark-a spark-c spark-b enp1s0f1np1 enp1s0f0np0
spark-b spark-c spark-a enp1s0f1np1 enp1s0f1np1
END
}

# serve_by NODE FILE: its meshnet serve goes by that file from here on. One that the bench beside it does
# not go by is what the plugin warns of last.
serve_by()
{
    # Nobody waits for what has lost its parent: it stays as a zombie.
    on "$1" 'for process in $(pgrep -x meshnet); do
        kill -9 $process
        while grep -qs "^State:.[^Z]" /proc/$process/status; do sleep 0.1; done
    done'
    serve_on "$1" "$2"
}

quick_bench()
{
    bench_on "$@" --sizes 64K --iters 4 --tests bandwidth --direction out
}

@test "a GID that moved since discover is found again, and the file's index is warned of" {
    on spark-a 'set -e
        cable="dev enp1s0f0np0"
        ip address del 10.0.1.1/24 $cable
        ip address add 10.0.77.1/24 $cable
        ip address add 10.0.1.1/24 $cable
        grep -q ffff:0a00:4d01 /sys/class/infiniband/rocep1s0f0/ports/1/gids/1'
    serve_by spark-b "$FOUND"
    quick_bench spark-a spark-b "$FOUND"
    [ "$status" -eq 0 ]
    carried_by_rdma enp1s0f0np0 enp1s0f0np0
    [[ "$(jq -r .here.warning "$BATS_TEST_TMPDIR/report")" == \
        *"gid_index 1 of rocep1s0f0 port 1 is not 10.0.1.1 any more: it holds 10.0.77.1"* ]]
    on spark-a 'ip address del 10.0.77.1/24 dev enp1s0f0np0'
}

@test "a wrong gid_index is warned of, and the right one is used" {
    sed 's/{index: 1, address: 10.0.3.1}/{index: 9, address: 10.0.3.1}/' "$FOUND" >"$FOUND.wrong"
    serve_by spark-a "$FOUND.wrong"
    quick_bench spark-c spark-a "$FOUND.wrong"
    [ "$status" -eq 0 ]
    carried_by_rdma enp1s0f0np0 enp1s0f1np1
    [[ "$(jq -r .here.warning "$BATS_TEST_TMPDIR/report")" == \
        *"gid_index 9 of rocep1s0f0 port 1 is not 10.0.3.1 any more: it is empty; index 1 is used"* ]]
}

@test "an address that is gone fails soon, with the GIDs of both ends" {
    local begin
    on spark-a 'ip address del 10.0.3.0/31 dev enp1s0f1np1'
    begin=$SECONDS
    quick_bench spark-a 10.255.0.3 "$MESH" # the cable does not lead there any more
    [ "$status" -eq 1 ]
    [ $((SECONDS - begin)) -lt 10 ] # of which the emulated machine needs most to start the program
    [[ "$stderr" == *"no cable to the peer"*"The peer's GIDs when it listened:"*"10.0.3.1/31 gid 1"*"Own GIDs now:"*"rocep1s0f0 port 1 gid "*"rocep1s0f1 port 1 gid 0"* ]]
    quick_bench spark-c 10.255.0.1 "$MESH"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"no cable to the peer"*"rocep1s0f0 port 1 gid 1  10.0.3.1 RoCE v2"* ]]
    on spark-a 'ip address add 10.0.3.0/31 dev enp1s0f1np1'
    quick_bench spark-a spark-c "$MESH"
    [ "$status" -eq 0 ]
}

@test "bench --links: a slow cable, one that loses packets and a wrong MTU are found and named" {
    lab link spark-a-spark-b rate 10mbit
    lab link spark-a-spark-c loss 5%
    on spark-b 'ip link set dev enp1s0f1np1 mtu 4400'
    # The control connections take the management network.
    bench_at spark-a "$MESH" --agents --hosts spark-a,10.255.0.2,10.255.0.3 --links --sizes 16K --iters 16 --warmup 1 --no-check
    lab link spark-a-spark-b clear
    lab link spark-a-spark-c clear
    on spark-b 'ip link set dev enp1s0f1np1 mtu 9000'
    jq -r '.cells[] | [.link, .transport, .out_gbps, .in_gbps, .lost_packets] | @tsv' "$BATS_TEST_TMPDIR/report"
    jq -r '.findings[].text' "$BATS_TEST_TMPDIR/report" | tee "$BATS_TEST_TMPDIR/findings"
    [ "$(jq '[.cells[] | .status == "ok" and .transport == "RDMA"] | all' "$BATS_TEST_TMPDIR/report")" = true ]
    grep -q '^link spark-a-spark-b: slow: ' "$BATS_TEST_TMPDIR/findings"
    grep -q '^link spark-a-spark-c: loses packets: ' "$BATS_TEST_TMPDIR/findings"
    grep -q '^link spark-b-spark-c: wrong MTU: spark-b/p1 has 4400, spark-c/p1 has 9000' "$BATS_TEST_TMPDIR/findings"
    ! grep -qE '^link spark-a-spark-b: (loses|wrong)|^link spark-a-spark-c: wrong|^link spark-b-spark-c: (slow|loses)' "$BATS_TEST_TMPDIR/findings"
}

@test "bench --collective all: every collective is right over RDMA on three nodes" {
    # One command: the others' meshnet serve starts their ranks.
    bench_at spark-a "$MESH" --agents --mesh "$MESH" --collective all --sizes 8,40001 --iters 2 --warmup 1
    [ "$status" -eq 0 ]
    [ "$(jq '[.collectives[] | .wrong + (.in_place_wrong // 0)] | add' "$BATS_TEST_TMPDIR/report")" -eq 0 ]
    [ "$(jq '[.collectives[].collective] | unique | length' "$BATS_TEST_TMPDIR/report")" -ge 11 ]
}

# retries NODE DEVICE: how often packets went missing or came out of order there.
retries()
{
    on "$1" "cat /sys/class/infiniband/$2/ports/1/hw_counters/{completer_retry_err,rcvd_seq_err,out_of_seq_request,duplicate_request}" |
        awk '{ sum += $1 } END { print sum + 0 }'
}

@test "the recorded traffic of a collective is played again between three machines, every byte right" {
    local traces=$BUILD/ci-traces node jobs=()
    rm -rf "$traces"
    mkdir -p "$traces"
    MESHNET_TRACE=$traces/job.%p NCCL_SOCKET_IFNAME=lo "$MESHNET" bench --local 3 \
        --plugin "$BUILD/lib/libnccl-net-meshtrace.so" --collective all-reduce,all-to-all \
        --sizes 8,40K --iters 2 --warmup 1 >/dev/null
    for node in c b; do
        start_on spark-$node "$SLOW MESHNET_CONFIG=$MESH MESHNET_TOKEN=$TOKEN MESHNET_ALLOW_TCP=false \
            RANK=$((${#jobs[@]} + 1)) WORLD_SIZE=3 MASTER_ADDR=spark-a MASTER_PORT=18600 \
            $MESHNET replay --timeout 120s $traces/job.* >/root/replay 2>&1"
        jobs+=($JOB)
    done
    run --separate-stderr on spark-a "$SLOW MESHNET_CONFIG=$MESH MESHNET_TOKEN=$TOKEN \
        MESHNET_ALLOW_TCP=false RANK=0 WORLD_SIZE=3 MASTER_ADDR=spark-a MASTER_PORT=18600 \
        $MESHNET replay --timeout 120s --json $traces/job.*"
    echo "$output"
    echo "$stderr"
    on spark-b cat /root/replay
    [ "$status" -eq 0 ]
    wait "${jobs[@]}"
    rm -r "$traces"
    jq -e '.ranks | length == 3 and all(.wrong == 0 and .left_out == 0 and .sent > 8)' <<<"$output"
}

@test "packets get lost: slower, but right and without an error" {
    local before
    before=$(retries spark-a rocep1s0f1)
    lab link spark-a-spark-c loss 1%
    bench_on spark-a spark-c "$MESH" --sizes 4K,64K --iters 20 --tests bandwidth
    lab link spark-a-spark-c clear
    [ "$status" -eq 0 ]
    [ "$(jq .wrong_messages "$BATS_TEST_TMPDIR/report")" -eq 0 ]
    [ "$(jq .counters_here.transport "$BATS_TEST_TMPDIR/report")" = '"RDMA"' ]
    [ "$(retries spark-a rocep1s0f1)" -gt "$before" ]
}

# names TEXT NODE NETDEV: that it is an error naming them.
names()
{
    echo "$1"
    [[ "$1" == failed*"peer $2, link $3"* ]]
}

@test "a pulled cable ends both ends in time, naming node and link, and serves again when plugged in" {
    stream_start spark-c spark-b "$MESH" MESHNET_RDMA_SILENCE=10s
    lab link spark-b-spark-c down
    names "$(stream_end spark-b 20)" spark-c enp1s0f1np1
    names "$(stream_end spark-c 20)" spark-b enp1s0f1np1
    lab link spark-b-spark-c up
    quick_bench spark-b spark-c "$MESH"
    [ "$status" -eq 0 ]
    carried_by_rdma enp1s0f1np1 enp1s0f1np1
}

# told NODE: how often the stream there has said that the cable between spark-b and spark-c went, and that
# it is back.
told()
{
    on "$1" "for what in 'the port is down since' 'goes on after'; do
            grep -c \"link enp1s0f1np1 .*: \$what\" /root/$STREAM || true
        done" | paste -s -d ' '
}

# out_for_20s STREAM RECEIVER: the cable between spark-b and spark-c, while that stream moves, and nothing
# on the other, whose sender is the receiver of this one.
out_for_20s()
{
    local STREAM=$1 receiver=$2 node down back
    local -A before=()
    stream_says $receiver '^256$' 60
    for node in spark-b spark-c; do
        before[$node]=$(told $node)
    done
    # To the second: a device tries every 4.3 s, six times, and sends nothing any more after 21.5 to 25.8 s.
    lab link spark-b-spark-c down 20s
    stream_goes_on $receiver
    sleep 1
    for node in spark-b spark-c; do
        read -r down back < <(told $node)
        echo "$node: ${before[$node]}, then $down $back"
        [ "$down" -gt "${before[$node]% *}" ]
        [ "$back" -gt "${before[$node]#* }" ]
    done
}

@test "a cable pulled for 20 s, under load and idle, in either direction, is told and survived" {
    stream_start spark-c spark-b "$MESH"
    on spark-c touch /root/idle
    STREAM=back stream_start spark-b spark-c "$MESH"
    STREAM=back stream_says spark-c '^idle' 60
    out_for_20s stream spark-c
    on spark-b touch /root/idle
    stream_says spark-b '^idle' 60
    on spark-c rm /root/idle
    out_for_20s back spark-b
    on spark-b rm /root/idle
    stream_goes_on spark-c
    stream_kill spark-b spark-c
}

@test "an interface switched off at one end ends both" {
    stream_start spark-c spark-b "$MESH" MESHNET_RDMA_SILENCE=10s
    on spark-b 'ip link set enp1s0f1np1 down'
    names "$(stream_end spark-b 20)" spark-c enp1s0f1np1
    names "$(stream_end spark-c 20)" spark-b enp1s0f1np1
    on spark-b 'ip link set enp1s0f1np1 up'
}

@test "a killed process is an error for its peer, sender or receiver, within five seconds" {
    stream_start spark-b spark-a "$MESH"
    on spark-b 'kill -9 $(pgrep -x stream)'
    names "$(stream_end spark-a 5)" spark-b enp1s0f0np0
    stream_start spark-a spark-c "$MESH"
    on spark-c 'kill -9 $(pgrep -x stream)'
    names "$(stream_end spark-a 5)" spark-c enp1s0f1np1
}

@test "a machine without power is an error for its peers in time, and they go on with each other" {
    stream_start spark-a spark-b "$MESH" MESHNET_RDMA_SILENCE=10s
    stream_start spark-b spark-c "$MESH" MESHNET_RDMA_SILENCE=10s
    lab kill spark-b
    names "$(stream_end spark-a 20)" spark-b enp1s0f0np0
    names "$(stream_end spark-c 20)" spark-b enp1s0f1np1
    quick_bench spark-a spark-c "$MESH"
    [ "$status" -eq 0 ]
    carried_by_rdma enp1s0f1np1 enp1s0f0np0
}
