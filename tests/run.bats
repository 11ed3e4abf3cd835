#!/usr/bin/env bats
# meshnet run: a command with the variables of meshnet env.

load helper
bats_require_minimum_version 1.5.0

setup()
{
    unset LD_LIBRARY_PATH MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD NO_COLOR=1
}

@test "run: the command has the variables, its options and its exit code" {
    run --separate-stderr "$MESHNET" run -- sh -c 'echo "$NCCL_NET $1"; test -e "$NCCL_NET_PLUGIN" && exit 7' sh --json
    [ "$status" -eq 7 ]
    [ "$output" = "meshnet --json" ]
    [[ "$stderr" == *"no mesh file"* ]]
    run "$MESHNET" run --quiet -- true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "run: what cannot be run has the exit codes of env(1)" {
    run -127 "$MESHNET" run -q -- ./nothing
    [ "$status" -eq 127 ]
    [[ "$output" == "meshnet run: ./nothing: No such file or directory" ]]
    touch file
    run "$MESHNET" run -q -- ./file
    [ "$status" -eq 126 ]
    run "$MESHNET" run
    [ "$status" -eq 2 ]
    [[ "$output" == *"which command?"* ]]
    run "$MESHNET" run --release x -- true
    [ "$status" -eq 2 ]
}
