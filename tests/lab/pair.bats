#!/usr/bin/env bats
# Two nodes with two links: both carry one connection; connections leave nothing behind.

load helper
load traffic

MESH=$TOP/configs/pair-two-links.yaml
ONE=$TOP/configs/pair.yaml # the first of its links

setup_file()
{
    lab_up "$MESH"
    serve_on spark-b "$MESH"
    serve_on spark-b "$ONE" --port 18516
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

@test "writes, sends and reads by verbs alone go over a link, on queue pairs of every kind" {
    LAB_TIMEOUT=300 bench_on spark-a spark-b "$ONE" --port 18516 --sizes 1K,8K --iters 4 --no-check \
        --raw-verbs
    [ "$status" -eq 0 ]
    jq -c '.raw_verbs[]' "$BATS_TEST_TMPDIR/report"
    [ "$(jq -c '[.raw_verbs[] | select(.size == 1024) | .path]' "$BATS_TEST_TMPDIR/report")" = \
        '["plugin","RC write","RC send","RC read","UC write","UC send","UD send"]' ]
    jq -e '.raw_verbs | length == 13 and all(.messages_per_s > 0 and .p50_us > 0)' \
        "$BATS_TEST_TMPDIR/report"
}

# speed MESSAGES FILE OPTION…: of that many messages of 1 MiB, in bits a second.
speed()
{
    local messages=$1
    shift
    bench_on spark-a spark-b "$@" --sizes 1M --iters "$messages" --warmup 4 --no-check \
        --tests bandwidth --direction out >&2
    [ "$status" -eq 0 ] &&
        jq '.results[0] | .size * .messages * 8 / .seconds | floor' "$BATS_TEST_TMPDIR/report"
}

# Far below what the machines carry: the links are the limit.
@test "two links of one rate carry 1.8 times what one does, one at half the rate 0.9 of the sum" {
    local first second one both
    read -r first second < <(lab status --json | jq -r '[.links[].link] | join(" ")')
    lab link "$first" rate 16mbit
    lab link "$second" rate 16mbit
    one=$(speed 8 "$ONE" --port 18516)
    both=$(speed 16 "$MESH")
    echo "one link $one bit/s, both $both"
    [ "$both" -ge $((one * 18 / 10)) ]
    lab link "$second" rate 8mbit
    # What is announced before anything is done is divided evenly: a second of waiting for the slower
    # link, however many messages follow.
    both=$(speed 40 "$MESH")
    lab link "$first" clear
    lab link "$second" clear
    echo "the second at half its rate: $both bit/s"
    [ "$both" -ge $((one * 3 / 2 * 9 / 10)) ]
}

@test "bench --links --pairs: a half dead pair of parallel cables is found and named" {
    local second
    second=$(lab status --json | jq -r '.links[1].link')
    lab link "$second" down
    bench_at spark-a "$MESH" --agents --hosts spark-a,10.255.0.2 --links --pairs --sizes 64K --iters 16 --warmup 1
    lab link "$second" up
    jq -r '.findings[].text' "$BATS_TEST_TMPDIR/report" | tee "$BATS_TEST_TMPDIR/findings"
    [ "$status" -eq 1 ]
    grep -q "^link $second: dead: spark-[ab]/.* has no carrier" "$BATS_TEST_TMPDIR/findings"
    grep -q "^pair spark-a, spark-b: half idle: link $second (.*) carried 0 % of the bytes" "$BATS_TEST_TMPDIR/findings"
    [ "$(jq -r '[.cells[].status] | join(" ")' "$BATS_TEST_TMPDIR/report")" = 'ok dead ok' ]
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
