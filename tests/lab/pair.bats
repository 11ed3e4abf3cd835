#!/usr/bin/env bats
# Two nodes with two links: both carry one connection; connections leave nothing behind.

load helper
load traffic

MESH=$TOP/configs/pair-two-links.yaml

setup_file()
{
    lab_up "$MESH"
    serve_on spark-b "$MESH"
}

teardown_file()
{
    lab_down
}

@test "two parallel links carry a connection together" {
    bench_on spark-a spark-b "$MESH" --sizes 64,1M --iters 8 --tests bandwidth --direction both
    [ "$status" -eq 0 ]
    carried_by_rdma 'enp1s0f0np0, enP2p1s0f0np0' 'enp1s0f0np0, enP2p1s0f0np0'
    jq -e '[.counters_here.nics[] | select(.device) | .rdma_tx + .rdma_rx] | min / max > 0.5' \
        "$BATS_TEST_TMPDIR/report"
}

@test "a thousand connections leave no queue pair, memory region, descriptor or thread behind" {
    local before
    before=$(rdma_packets spark-a)
    LAB_TIMEOUT=400 run on spark-a "MESHNET_CONFIG=$MESH $BUILD/tests/cycle $PLUGIN 1000 \
        'rdma resource show && ls /proc/\$PPID/fd | wc -l && ls /proc/\$PPID/task | wc -l && echo .'"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == *roce*" qp "*" mr "* ]]
    [ "${#lines[@]}" -eq 10 ]
    [ "${lines[*]:0:5}" = "${lines[*]:5:5}" ]
    # Each moved 64 KiB, in packets of at most 4096 bytes, sent and received here.
    [ $(($(rdma_packets spark-a) - before)) -gt 32000 ]
}
