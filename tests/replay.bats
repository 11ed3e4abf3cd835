#!/usr/bin/env bats
# meshnet replay: traces of collectives played again, every byte checked.

load helper

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TRACE_PLUGIN "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD NO_COLOR=1 NCCL_SOCKET_IFNAME=lo
    TRACER=$BUILD/lib/libnccl-net-meshtrace.so
}

# record RANKS OPTION…: job.PID for each rank.
record()
{
    local ranks=$1
    shift
    MESHNET_TRACE=$PWD/job.%p "$MESHNET" bench --local "$ranks" --plugin "$TRACER" "$@" >/dev/null
    [ "$(ls job.* | wc -l)" -eq "$ranks" ]
}

# replay OPTION…
replay()
{
    run --separate-stderr "$MESHNET" replay "$@"
    echo "$output"
    echo "$stderr"
}

# sum FIELD: over the ranks of the last report.
sum()
{
    jq "[.ranks[].$1] | add" <<<"$output"
}

@test "replay: collectives of three ranks over TCP, through other versions too" {
    record 3 --collective all --sizes 0,1000,300K --iters 3
    replay job.* --json
    [ "$status" -eq 0 ]
    [ "$(sum wrong)" -eq 0 ]
    [ "$(sum left_out)" -eq 0 ]
    [ "$(sum sent)" -gt 500 ]
    [ "$(sum sent)" -eq "$(sum received)" ]
    [ "$(sum sent_bytes)" -eq "$(sum received_bytes)" ]
    # As many as were recorded.
    sent=0
    for file in job.*; do
        sent=$((sent + $("$MESHNET" trace stats "$file" --json |
            jq '[.connections[] | select(.way == "sends") | .messages] | add')))
    done
    [ "$(sum sent)" -eq $sent ]
    for abi in 6 9; do
        replay job.* --json --abi $abi
        [ "$status" -eq 0 ]
        [ "$(sum wrong)" -eq 0 ]
    done
}

@test "replay: over RDMA on the double of libibverbs" {
    record 2 --collective all-reduce,all-to-all --sizes 8,300K --iters 3
    FAKEVERBS=shm=$PWD/fabric,dev=fv0:lo:127.0.0.1 LD_LIBRARY_PATH=$BUILD/tests/fakeverbs \
        MESHNET_ALLOW_TCP=false replay job.* --json
    [ "$status" -eq 0 ]
    [ "$(sum wrong)" -eq 0 ]
    [ "$(sum sent)" -gt 10 ]
}

@test "replay: ranks that another launcher started, each with the traces of all" {
    record 3 --collective all-reduce,all-gather --sizes 8,100K --iters 3
    export MESHNET_TOKEN=00112233445566778899aabbccddeeff
    export WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(free_port)
    RANK=1 timeout 60 "$MESHNET" replay job.* >one 2>&1 3>&- &
    RANK=2 timeout 60 "$MESHNET" replay job.* >two 2>&1 3>&- &
    RANK=0 replay job.* --json
    wait
    cat one two
    [ "$status" -eq 0 ]
    [ "$(sum wrong)" -eq 0 ]
    [ "$(sum left_out)" -eq 0 ]
    [ "$(sum sent)" -gt 20 ]
    RANK=0 WORLD_SIZE=2 replay job.*
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"3 traces for 2 ranks"* ]]
}

@test "replay: at the recorded times it takes no less" {
    record 2 --collective all-reduce --sizes 64K --duration 300ms
    replay job.* --json --timed
    [ "$status" -eq 0 ]
    jq -e '.ranks | all(.replayed_s >= .recorded_s * 0.99)' <<<"$output"
}

# where OP FILE: numbers of the records of that kind; see bench/trace/format.h.
where()
{
    od -An -v -tu1 -w64 -j512 "$2" | awk -v op="$1" '$1 == op { print NR - 1 }'
}

# put FILE RECORD AT BYTES: bytes of a record, as printf has them.
put()
{
    printf "$4" | dd of="$1" bs=1 seek=$((512 + 64 * $2 + $3)) conv=notrunc 2>/dev/null
}

@test "replay: at the recorded times, what began before the first message is not waited for" {
    record 2 --collective all-reduce --sizes 8 --iters 3
    for file in job.*; do
        put "$file" "$(where 10 "$file" | tail -n 1)" 8 '\0\0\0\0\0\0\0\0'
    done
    run --separate-stderr timeout -k 1 60 "$MESHNET" replay job.* --json --timed
    [ "$status" -eq 0 ]
    [ "$(sum wrong)" -eq 0 ]
    jq -e '.ranks | all(.recorded_s < 1000)' <<<"$output"
}

@test "replay: while the clock is waited for, an interrupt ends it" {
    record 2 --collective all-reduce --sizes 8 --iters 3
    for file in job.*; do
        put "$file" "$(where 10 "$file" | tail -n 1)" 8 '\0\0\0\0\0\0\0\1'
    done
    timeout -k 60 -s INT 8 "$MESHNET" replay job.* --timed >out 2>&1 || status=$?
    cat out
    [ "$status" -eq 124 ]
    grep -q interrupted out
}

@test "replay: requests that the plugin may not be given are refused" {
    local file other op at refused=0
    record 2 --collective all-reduce --sizes 8 --iters 3
    file=$(ls job.* | head -n 1) other=$(ls job.* | tail -n 1)
    # A receive of eight, of which the others are anything; a send where messages come in; and the
    # other way round.
    for change in 11:1:'\10' 11:0:'\12' 10:0:'\13' 13:0:'\12'; do
        IFS=: read -r op at bytes <<<"$change"
        cp "$file" changed
        [ -n "$(where "$op" changed)" ] || continue
        put changed "$(where "$op" changed | head -n 1)" "$at" "$bytes"
        replay changed "$other"
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"of the trace is not whole"* ]]
        refused=$((refused + 1))
    done
    [ $refused -ge 3 ]
}

@test "replay: what went to processes that are not here is left out and counted" {
    record 3 --collective all-reduce --algorithm ring --sizes 8 --iters 3
    first=($(ls job.*))
    replay "${first[0]}" "${first[1]}" --json
    [ "$status" -eq 0 ]
    [ "$(sum left_out)" -gt 0 ]
    [ "$(sum sent)" -gt 0 ]
    [ "$(sum wrong)" -eq 0 ]
}

@test "replay: a plugin that delivers wrong data is found out" {
    record 2 --collective all-reduce --sizes 100K --iters 3
    replay job.* --plugin "$BUILD/tests/broken/libnccl-net-fault-DROPS_LAST_BYTE.so"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"wrong data or size"* ]]
    replay job.* --plugin "$BUILD/tests/broken/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
}

@test "replay: wrong usage and damaged traces" {
    replay
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"expected the traces"* ]]
    replay nowhere
    [ "$status" -eq 2 ]
    record 2 --collective all-reduce --sizes 64K --iters 3
    # Cut anywhere: what is there is played, or the reason is said; it ends in either case.
    files=($(ls job.*))
    head -c 3000 "${files[0]}" >cut
    replay cut "${files[1]}" --timeout 2s
    [ "$status" -le 1 ]
    printf '\xff' | dd of="${files[0]}" bs=1 seek=512 conv=notrunc 2>/dev/null
    replay "${files[@]}"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"record 0 is damaged"* ]]
}

@test "replay: an empty trace, and traces without a message, are errors" {
    record 2 --collective all-reduce --sizes 8 --iters 3
    files=($(ls job.*))
    cp "${files[0]}" whole
    head -c 512 whole >head
    replay head "${files[1]}"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"head: an empty trace"* ]]
    # The first calls of a job: init, devices.
    head -c $((512 + 64 * 2)) whole >quiet
    "$MESHNET" trace show quiet
    replay quiet quiet
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"no message"*"nothing to replay"* ]]
}
