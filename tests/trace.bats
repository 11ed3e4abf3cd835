#!/usr/bin/env bats
# libnccl-net-meshtrace.so and meshnet trace: what a plugin was asked, recorded and read.

load helper

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TRACE_PLUGIN "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD NO_COLOR=1 NCCL_SOCKET_IFNAME=lo
    TRACER=$BUILD/lib/libnccl-net-meshtrace.so
}

# trace OPTION…
trace()
{
    run --separate-stderr "$MESHNET" trace "$@"
    echo "$stderr"
}

@test "trace: a collective's calls are recorded by each rank, and agree" {
    export MESHNET_TRACE=$PWD/job.%h.%p
    run --separate-stderr "$MESHNET" bench --collective all-reduce --algorithm ring --local 2 \
        --sizes 64K --iters 7 --plugin "$TRACER" --json
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq '[.collectives[].wrong] | add' <<<"$output")" -eq 0 ]
    [ "$(ls job.* | wc -l)" -eq 2 ]
    for file in job.*; do
        [[ "$file" == job.$(hostname).* ]]
        trace stats "$file" --json
        [ "$status" -eq 0 ]
        echo "$output" >stats.$((++n))
        [ "$(jq -r .symbol <<<"$output")" = ncclNetPlugin_v12 ]
        [[ "$(jq -r .plugin <<<"$output")" == */libnccl-net-mesh.so ]]
        [ "$(jq -r .sha256 <<<"$output")" = "$(sha256sum "$PLUGIN" | cut -c 1-64)" ]
        [ "$(jq '[.calls[].failed] | add' <<<"$output")" -eq 0 ]
        # Every request that was posted was found done.
        jq -e '[.calls[] | {(.call): .calls}] | add | .isend + .irecv == .test' <<<"$output"
    done
    # What one sent the other received.
    sent='[.connections[] | select(.way == "sends") | .messages, .bytes]'
    received='[.connections[] | select(.way == "receives") | .messages, .bytes]'
    [ "$(jq -c "$sent" stats.1)" = "$(jq -c "$received" stats.2)" ]
    [ "$(jq -c "$sent" stats.2)" = "$(jq -c "$received" stats.1)" ]
    [ "$(jq '.connections[0].bytes' stats.1)" -gt 65536 ]
}

@test "trace: show names each call, and asks for what is wanted" {
    export MESHNET_TRACE=$PWD/job.%p
    "$MESHNET" bench --collective send-recv --local 2 --sizes 8 --iters 3 --plugin "$TRACER" >/dev/null
    file=$(ls job.* | head -n 1)
    trace show "$file"
    echo "$output"
    [ "$status" -eq 0 ]
    for call in init listen connect accept regMr isend irecv test deregMr closeSend closeRecv; do
        grep -q " $call " <<<"$output"
    done
    trace show "$file" --op isend --limit 2 --json
    [ "$(jq -c '[.calls[] | [.call, .size]]' <<<"$output")" = '[["isend",8],["isend",8]]' ]
    trace show "$file" --op nothing
    [ "$status" -eq 2 ]
}

@test "trace: it is a plugin that verify-plugin passes, whatever plugin it hands on to" {
    export MESHNET_TRACE=$PWD/rule.%p
    run "$MESHNET" verify-plugin "$TRACER"
    echo "$output"
    [ "$status" -eq 0 ]
    export MESHNET_TRACE_PLUGIN=$BUILD/tests/broken/libnccl-net-ref.so
    [ -e "$MESHNET_TRACE_PLUGIN" ] || skip "the reference plugin was not built"
    run "$MESHNET" verify-plugin "$TRACER" --rule load,device,connect,transfer,group,request,close
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "trace: a process that is killed leaves a trace up to there" {
    export MESHNET_TRACE=$PWD/job.%p
    "$MESHNET" bench --collective all-reduce --local 2 --sizes 64K --duration 60s --plugin "$TRACER" \
        >/dev/null 2>&1 3>&- &
    for _ in $(seq 200); do
        enough=0
        for file in job.*; do # a trace that is still written can be read, too
            [ "$("$MESHNET" trace stats "$file" --json 2>/dev/null | jq .records)" -le 1000 ] || enough=$((enough + 1))
        done 2>/dev/null
        [ $enough -lt 2 ] || break
        sleep 0.1
    done
    # The launcher's end is that of its ranks.
    kill -KILL $!
    wait || true
    for file in job.*; do
        trace stats "$file" --json
        [ "$status" -eq 0 ]
        [ "$(jq .records <<<"$output")" -gt 1000 ]
    done
}

@test "trace: wrong usage and files that are no traces" {
    trace
    [ "$status" -eq 2 ]
    trace show
    [ "$status" -eq 2 ]
    trace show nowhere
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"nowhere: No such file"* ]]
    echo text >text
    trace stats text
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"text: is no trace"* ]]
    head -c 1000 /dev/zero >zero
    trace stats zero
    [ "$status" -eq 2 ]
    trace stats .
    [ "$status" -eq 2 ]
    # A trace is not written over, and a plugin that is not there is said.
    echo mine >job
    run env MESHNET_TRACE=$PWD/job "$MESHNET" bench --collective all-reduce --local 2 --sizes 8 --plugin "$TRACER"
    [ "$status" -ne 0 ]
    [ "$(cat job)" = mine ]
    [[ "$output" == *"File exists"* ]]
    run env MESHNET_TRACE_PLUGIN=$PWD/none.so "$MESHNET" bench --collective all-reduce --local 2 --sizes 8 --plugin "$TRACER"
    [ "$status" -ne 0 ]
    [[ "$output" == *"none.so"* ]]
    run env MESHNET_TRACE_PLUGIN="$TRACER" timeout 20 "$MESHNET" bench --collective all-reduce --local 2 \
        --sizes 8 --plugin "$TRACER"
    [ "$status" -eq 1 ]
    [[ "$output" == *"names the recording plugin itself"* ]]
}

@test "trace: help shows a name that keeps processes apart" {
    trace --help
    [[ "$output" == *"MESHNET_TRACE=job.%h.%p"* ]]
}
