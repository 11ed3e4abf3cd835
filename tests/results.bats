#!/usr/bin/env bats
# What meshnet bench --json writes is what docs/results.schema.json says, checked by a validator that
# knows nothing of meshnet.

load helper
load valid

setup()
{
    python3 -c 'import jsonschema' 2>/dev/null || skip "python3-jsonschema is not installed"
    export NO_COLOR=1 NCCL_SOCKET_IFNAME=lo
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN
    cd "$BATS_TEST_TMPDIR"
}

teardown()
{
    [ -z "${SERVER:-}" ] || kill "$SERVER" 2>/dev/null || true
    wait
}

@test "results: those that meshnet report is tested with" {
    valid "$BATS_TEST_DIRNAME"/fixtures/results/*.json
}

@test "results: of a link" {
    echo 00112233445566778899aabbccddeeff >token
    PORT=$(free_port)
    start_server serve.out serve.out \
        timeout 60 "$MESHNET" serve --listen 127.0.0.1 --port "$PORT" --token-file token
    for options in '--duration 20ms' '--iters 20 --type all' '--tests latency --iters 20 --no-check'; do
        # shellcheck disable=SC2086
        NCCL_IB_TC=106 NCCL_IB_SL=16 timeout 60 "$MESHNET" bench --peer 127.0.0.1 --port "$PORT" \
            --token-file token --sizes 0,8,64K $options --json >link.json
        valid link.json
        jq -e '[.environment[].nccl_settings] == ["NCCL_IB_TC=106", null]' link.json
    done
}

@test "results: of collectives, and of some that ended early" {
    timeout 60 "$MESHNET" bench --collective all --local 3 --sizes 0,1000 --iters 2 --json >iters.json
    timeout 60 "$MESHNET" bench --collective all-reduce --local 2 --sizes 8 --duration 20ms \
        --no-check --json >duration.json
    jq '.complete = false | .error = "interrupted" | .collectives = []' iters.json >early.json
    valid iters.json duration.json early.json
}

@test "results: the samples of the fuzzer and of the report, among them a matrix" {
    valid "$BATS_TEST_DIRNAME"/{fuzz/corpus,fixtures}/results/{link,collectives,matrix}.json
}

@test "results: the schema refuses what is wrong" {
    local changes=0 i
    cp "$BATS_TEST_DIRNAME"/fuzz/corpus/results/*.json .
    for change in '.schema = "x"' 'del(.environment[0].nics)' '.environment[0].nics[0].mtu = "big"' \
        '.environment[0].color = 1' '.results[0].direction = "up"' 'del(.latency[0].ci95_percent)' \
        '.started = "today"' '.kind = "cake"' '.here.sha256 = "12"' '.environment = []'; do
        changes=$((changes + 1))
        jq "$change" link.json >changed.$changes.json
    done
    # All at once: the validator is long to start. Each has an error of its own.
    run valid changed.*.json
    echo "$output"
    [ "$status" -eq 1 ]
    for ((i = 1; i <= changes; i++)); do
        [[ $'\n'$output == *$'\n'"changed.$i.json "* ]]
    done
    jq '.cells[0].status = "fine"' matrix.json >changed.json
    run valid changed.json
    [ "$status" -eq 1 ]
    [[ "$output" == *"cells/0/status"* ]]
}
