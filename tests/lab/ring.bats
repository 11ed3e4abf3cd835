#!/usr/bin/env bats
# Four nodes in a ring: neighbours reach each other over RDMA, the others are refused.

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

@test "bench: the other pairs are refused in time, and are told why" {
    local a b begin
    while read -r a b; do
        begin=$SECONDS
        bench_on $a $b "$MESH" --sizes 100K --iters 8 --tests bandwidth --direction both
        [ "$status" -eq 1 ]
        [ $((SECONDS - begin)) -lt 30 ]
        [[ "$stderr" == *"no cable to the peer"*"transport.allow_tcp"* ]]
    done <<END
spark-a spark-c
spark-d spark-b
END
}

@test "bench: allowed to, a pair without a cable goes over TCP where a route leads, and it is said" {
    on spark-a 'ip route add 10.0.2.2 via 10.255.0.3; ip route add 10.0.3.1 via 10.255.0.3'
    on spark-c 'ip route add 10.0.1.1 via 10.255.0.1; ip route add 10.0.4.2 via 10.255.0.1'
    SLOW+=' MESHNET_ALLOW_TCP=true'
    serve_on spark-c "$MESH" --port 18516
    bench_on spark-a spark-c "$MESH" --port 18516 --sizes 100K --iters 8 --tests bandwidth \
        --direction both
    [ "$status" -eq 0 ]
    jq -e '.wrong_messages == 0 and .checked_messages > 0 and
        (.counters_here, .counters_peer | .transport == "TCP" and .carried_by == "mgmt") and
        (.here.warning | test("TCP"))' "$BATS_TEST_TMPDIR/report"
}
