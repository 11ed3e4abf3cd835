#!/usr/bin/env bats
# Four nodes in a ring: neighbours reach each other over RDMA, the others in the ways that there are.

load helper
load traffic

MESH=$TOP/configs/ring4.yaml

setup_file()
{
    ring_up
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

@test "bench: with a management network and no setting, every collective runs, neighbours over RDMA" {
    managed "$MESH" >"$BUILD/ring-managed.yaml"
    lab sync
    collectives_at "$BUILD/ring-managed.yaml" '' --collective all-reduce,all-to-all --algorithm direct \
        --sizes 4K,64K --duration 100ms
    [[ "$stderr" == *"spark-c has no cable to this node: TCP reaches it over the management network"* ]]
    [[ "$stderr" == *"sending to peer spark-b by RDMA"*  ]]
    [[ "$stderr" == *"sending to peer spark-c by TCP"* ]]
    [[ "$stderr" != *"plugin: WARN"* ]]
}

@test "verify-plugin: opposite nodes keep the rules" {
    opposite_keeps_rules spark-a spark-c "$BUILD/ring-managed.yaml"
}

# The node in between forwards, and both ends have a route to the other's cable.
@test "bench: opposite nodes reach each other through the kernel between, over TCP along the cables and over RDMA" {
    local file=$BUILD/ring-routed.yaml
    (cat "$MESH" && printf 'routes:\n  - {ends: [%s, %s], via: %s}\n' spark-a/right spark-c/left spark-b) >"$file"
    lab sync
    on spark-b 'sysctl -qw net.ipv4.ip_forward=1'
    on spark-a 'ip route add 10.0.2.0/24 via 10.0.1.2'
    on spark-c 'ip route add 10.0.1.0/24 via 10.0.2.1'
    bench_on spark-a spark-c "$MESH" --sizes 100K --iters 8 --tests bandwidth --direction both
    [ "$status" -eq 0 ]
    jq -e '.wrong_messages == 0 and .checked_messages > 0 and
        (.counters_here | .transport == "TCP" and .carried_by == "enp1s0f0np0") and
        (.counters_peer | .transport == "TCP" and .carried_by == "enp1s0f1np1")' "$BATS_TEST_TMPDIR/report"
    serve_on spark-c "$file" --port 18518
    bench_on spark-a spark-c "$file" --port 18518 --sizes 100K --iters 8 --tests bandwidth --direction both
    on spark-a 'ip route del 10.0.2.0/24'
    on spark-c 'ip route del 10.0.1.0/24'
    [ "$status" -eq 0 ]
    carried_by_rdma enp1s0f0np0 enp1s0f1np1
}
