#!/usr/bin/env bats
# Two nodes with two links: verify-plugin over RDMA; both links carry one connection; connections leave
# nothing behind.

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

# judge NODE NAME OPTION…: verify-plugin there on our plugin with CollNet, or the one that PLUGIN_NAME says,
# over RDMA alone; its report in the file NAME. The limits are for a host that is busy elsewhere.
judge()
{
    local node=$1 name=$2
    shift 2
    LAB_TIMEOUT=1500 on "$node" "$SLOW MESHNET_CONFIG=$MESH MESHNET_ALLOW_TCP=false $* --json \
        --timeout 150s --total 20m --trace $TOP/tests/fixtures/traces/rank0 \
        --trace $TOP/tests/fixtures/traces/rank1 $BUILD/lib/${PLUGIN_NAME:-libnccl-net-mesh-coll}.so" \
        >"$BATS_TEST_TMPDIR/$name" 2>"$BATS_TEST_TMPDIR/$name.err" 3>&-
}

# Versions differ in the shape of calls and properties; what is behind them is the newest one's to show.
SHAPES=load,device,connect,handshake,transfer,memory,request,thread,close

# judge_all NODE VERSION…
judge_all()
{
    local node=$1 version rules
    shift
    for version; do
        rules="--rule $SHAPES"
        [ $version != v12 ] && [ "${LAB_VERSIONS-}" != all ] || rules=
        judge "$node" "$version" "$MESHNET" verify-plugin --version "$version" $rules || true
    done
}

# no_fault NAME N: what the report shows: no failure, no warning, no skip without one of these reasons,
# and at least N passes.
no_fault()
{
    local report=$BATS_TEST_TMPDIR/$1
    cat "$report.err"
    [ -s "$report" ] || return
    jq -c '[input_filename | split("/")[-1]] + [.totals, ([.rules[].ms] | add / 1000 | floor)],
        (.rules[] | select(.result != "pass") | [.id, .result, .seen])' "$report"
    jq -e --argjson least "$2" '.totals.fail == 0 and .totals.warn == 0 and .totals.pass >= $least and
        all(.rules[] | select(.result == "skip"); .seen |
            test("^there is one device$|^1 GiB takes too long|^maxRecvs is 1: " +
                "|^the library exports no CollNet that goes with v[0-9]+$|does not apply to v" +
                "|^not on two machines: |^messages arrive although |^the plugin has no Internet"))' \
        "$report"
}

versions()
{
    [ "${LAB_VERSIONS-}" = all ] && echo v12 v11 v10 v9 v8 v7 v6 v5 v4 || echo v12 v4
}

# Two nodes at once: an emulated machine has one processor. LAB_VERSIONS=all is for hands.
@test "verify-plugin: no rule fails over RDMA, in the newest version and the oldest" {
    local before after version all here=() there=() collnet=() job
    before=$(rdma_packets spark-a)
    read -ra all < <(versions)
    for version in "${all[@]}"; do
        if [ ${#here[@]} -gt ${#there[@]} ]; then there+=("$version"); else here+=("$version"); fi
        [ "${version#v}" -lt 8 ] || collnet+=("$version") # older ones have none
    done
    # The newest version has the most rules: those of CollNet are looked at on the other machine.
    {
        PLUGIN_NAME=libnccl-net-mesh judge_all spark-b "${there[@]}"
        for version in "${collnet[@]}"; do
            judge spark-b "$version-collnet" "$MESHNET" verify-plugin --version "$version" --rule collnet || true
        done
        judge spark-b per-link MESHNET_DEVICE_MODE=per-link "$MESHNET" verify-plugin \
            --rule device,handshake.devices,connect.self || true
    } 3>&- &
    job=$!
    PLUGIN_NAME=libnccl-net-mesh judge_all spark-a "${here[@]}"
    wait "$job"
    no_fault v12 120
    for version in "${all[@]:1}"; do
        no_fault "$version" 80
    done
    for version in "${collnet[@]}"; do
        no_fault "$version-collnet" 8
    done
    no_fault per-link 10
    jq -e '.rules[] | select(.id == "handshake.devices") | .result == "pass"' "$BATS_TEST_TMPDIR/per-link"
    after=$(rdma_packets spark-a)
    # What the rules move fills that many packets of 4096 bytes; nothing else does.
    [ $((after - before)) -gt 10000 ]
}

@test "verify-plugin: no rule fails with its ends on two machines over RDMA" {
    local before after version
    local rules=--rule=close,death.sender_killed,death.receiver_killed,death.survivor
    [ "${LAB_VERSIONS-}" != all ] || rules=
    serve_on spark-b "$MESH" --port 18517 --clients 8
    on spark-a "umask 077; echo $TOKEN >/root/token"
    before=$(rdma_packets spark-a)
    for version in $(versions); do
        judge spark-a "$version" "$MESHNET" verify-plugin --version "$version" --peer 10.255.0.2 \
            --port 18517 --token-file /root/token $rules || true
        no_fault "$version" 12
        [ -n "${LAB_VERSIONS-}" ] || break
    done
    after=$(rdma_packets spark-a)
    echo "$((after - before)) packets"
    [ $((after - before)) -gt 200 ]
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
