#!/usr/bin/env bats
# Four nodes in a ring: neighbours reach each other over RDMA, the others in the ways that there are.

load helper
load traffic

MESH=$TOP/configs/ring4.yaml

setup_file()
{
    local node
    lab_up "$MESH"
    for node in spark-a spark-b spark-c spark-d; do
        serve_on $node "$MESH"
    done
}

teardown_file()
{
    lab_down
}

@test "bench: every pair of neighbours, each over its own link only" {
    local a b
    while read -r a b; do
        bench_on $a $b "$MESH" --sizes 100K --iters 8 --tests bandwidth --direction both
        [ "$status" -eq 0 ]
        carried_by_rdma enp1s0f0np0 enp1s0f1np1
    done <<END
spark-a spark-b
spark-b spark-c
spark-c spark-d
spark-d spark-a
END
}

@test "bench: told to stay on the cables, the other pairs are refused in time, and are told why" {
    local a b begin
    SLOW+=' MESHNET_REACH=direct'
    while read -r a b; do
        begin=$SECONDS
        bench_on $a $b "$MESH" --sizes 100K --iters 8 --tests bandwidth --direction both
        [ "$status" -eq 1 ]
        [ $((SECONDS - begin)) -lt 30 ]
        [[ "$stderr" == *"no cable to the peer"*"transport.reach: direct"* ]]
    done <<END
spark-a spark-c
spark-d spark-b
END
}

@test "bench: a pair without a cable goes over TCP where a route leads" {
    on spark-a 'ip route add 10.0.2.2 via 10.255.0.3; ip route add 10.0.3.1 via 10.255.0.3'
    on spark-c 'ip route add 10.0.1.1 via 10.255.0.1; ip route add 10.0.4.2 via 10.255.0.1'
    bench_on spark-a spark-c "$MESH" --sizes 100K --iters 8 --tests bandwidth --direction both
    on spark-a 'ip route del 10.0.2.2; ip route del 10.0.3.1'
    on spark-c 'ip route del 10.0.1.1; ip route del 10.0.4.2'
    [ "$status" -eq 0 ]
    jq -e '.wrong_messages == 0 and .checked_messages > 0 and
        (.counters_here, .counters_peer | .transport == "TCP" and .carried_by == "mgmt")' \
        "$BATS_TEST_TMPDIR/report"
}

# The ring with its management network, for all nodes.
with_management()
{
    awk '/^  - name: / { n++ } { print }
        /^    nics:/ { printf "      - {netdev: mgmt, addresses: [10.255.0.%d/24], role: management}\n", n }' \
        "$MESH" >"$1"
}

@test "bench: with a management network and no setting, every collective runs, neighbours over RDMA" {
    local file=$BUILD/ring-managed.yaml node jobs=() rank=1
    with_management "$file"
    for node in spark-b spark-c spark-d; do
        start_on $node "$SLOW MESHNET_CONFIG=$file MESHNET_TOKEN=$TOKEN RANK=$rank WORLD_SIZE=4 \
            MASTER_ADDR=10.255.0.1 MASTER_PORT=18600 $MESHNET bench --collective all-reduce,all-to-all \
            --algorithm direct --sizes 4K,64K --duration 100ms --timeout 60s >/root/rank 2>&1"
        jobs+=("$JOB")
        rank=$((rank + 1))
    done
    run --separate-stderr on spark-a "$SLOW MESHNET_LOG=info MESHNET_CONFIG=$file MESHNET_TOKEN=$TOKEN \
        RANK=0 WORLD_SIZE=4 MASTER_ADDR=10.255.0.1 MASTER_PORT=18600 $MESHNET bench --json \
        --collective all-reduce,all-to-all --algorithm direct --sizes 4K,64K --duration 100ms --timeout 60s"
    echo "$stderr"
    on spark-c cat /root/rank
    [ "$status" -eq 0 ]
    wait "${jobs[@]}"
    jq -e '[.. | objects | select(has("wrong")) | .wrong] | length > 0 and all(. == 0)' <<<"$output"
    [[ "$stderr" == *"spark-c has no cable to this node: TCP reaches it over the management network"* ]]
    [[ "$stderr" == *"sending to peer spark-b by RDMA"*  ]]
    [[ "$stderr" == *"sending to peer spark-c by TCP"* ]]
    [[ "$stderr" != *"plugin: WARN"* ]]
}

@test "verify-plugin: opposite nodes keep the rules" {
    local file=$BUILD/ring-managed.yaml
    with_management "$file"
    serve_on spark-c "$file" --port 18517
    run --separate-stderr on spark-a "echo $TOKEN >/root/token; chmod 600 /root/token
        $SLOW MESHNET_CONFIG=$file $MESHNET verify-plugin --peer spark-c --port 18517 --rule connect --rule close --rule transfer.sizes --timeout 90s --total 8m \
        --token-file /root/token --json $PLUGIN"
    echo "$stderr"
    echo "$output" | tail -40
    [ "$status" -eq 0 ]
}
