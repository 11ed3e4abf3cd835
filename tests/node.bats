#!/usr/bin/env bats
# meshnet node by itself; tests/crew.bats has those that ask it.

load helper

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN
    cd "$BATS_TEST_TMPDIR"
}

# node QUESTION VERB…
node()
{
    run --separate-stderr timeout 60 "$MESHNET" node "${@:2}" <<<"$1"
    echo "$output"
    echo "$stderr"
}

@test "node: about tells what this is, as one object" {
    MESHNET_NODE=spark-x node '{}' about
    [ "$status" -eq 0 ]
    [ "$(wc -l <<<"$output")" -eq 1 ]
    jq -e '.node == "spark-x" and .version == "0.1.0" and (.build | test("^([0-9a-f]{40}|none)$")) and
        (.libc | startswith("glibc 2.")) and (.root | type) == "boolean" and
        (.capabilities | type) == "array"' <<<"$output"
    [ "$(jq -r .machine <<<"$output")" = "$(uname -m)" ]
    [ "$(jq -r .program <<<"$output")" = "$(readlink -f "$MESHNET")" ]
    [ "$(jq .user <<<"$output")" = "$(id -u)" ]
    [ "$(jq 'has("sudo")' <<<"$output")" = false ]
}

@test "node: no question is an empty one, and what sudo drops may follow the verb" {
    run --separate-stderr timeout 60 "$MESHNET" node about MESHNET_NODE=spark-y </dev/null
    [ "$status" -eq 0 ]
    [ "$(jq -r .node <<<"$output")" = spark-y ]
    node '{}' about PATH=/tmp
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"unexpected 'PATH=/tmp'"* ]]
}

@test "node: what is wrong comes as JSON, with the exit code" {
    node '{}' abuot
    [ "$status" -eq 2 ]
    [ "$(jq -r .code <<<"$output")" = USAGE ]
    [[ "$(jq -r .error <<<"$output")" == *"'abuot'"*"did you mean 'about'"* ]]
    for question in '[]' nonsense '{"a":' 7; do
        node "$question" about
        [ "$status" -eq 1 ]
        [ "$(jq -r .code <<<"$output")" = PROTO ]
    done
    # As long as the bound is too long.
    head -c 4194304 /dev/zero | tr '\0' ' ' >long
    run --separate-stderr timeout 60 "$MESHNET" node about <long
    [ "$status" -eq 1 ]
    [[ "$(jq -r .error <<<"$output")" == *"longer than 4194304 bytes"* ]]
}

@test "node: --list shows the verbs; none at all is a mistake" {
    node '{}' --list
    [ "$status" -eq 0 ]
    [[ "$output" == *about* ]]
    node '{}'
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"expected a verb"* ]]
}

@test "node: survey has this host's ports, under the name that was asked for" {
    node '{"name": "spark-z"}' survey
    [ "$status" -eq 0 ]
    [ "$(jq -r '.nodes[0].name' <<<"$output")" = spark-z ]
    jq -e '.version == 1 and (.nodes | length) == 1 and (.nodes[0].nics | type) == "array" and .seen == []' <<<"$output"
    node '{"name": 7}' survey
    [ "$status" -eq 1 ]
    [ "$(jq -r .code <<<"$output")" = PROTO ]
    [[ "$(jq -r .error <<<"$output")" == *"'name' is no name"* ]]
}

@test "node: an answer that was lost is a failure" {
    for ask in "" "--hosts localhost"; do
        status=0
        timeout 60 "$MESHNET" node about $ask <<<'{}' >/dev/full 2>err || status=$?
        cat err
        [ "$status" -eq 1 ]
        grep -q "writing the answer: No space left" err
    done
    # Where nobody listens at all.
    status=0
    timeout 60 "$MESHNET" node about <<<'{}' >&- 2>err || status=$?
    [ "$status" -eq 1 ]
}

@test "node: the exit code is right where the starter ignores SIGCHLD" {
    run --separate-stderr timeout 60 env --ignore-signal=CHLD "$MESHNET" node survey <<<'{"name": 7}'
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(jq -r .code <<<"$output")" = PROTO ]
}
