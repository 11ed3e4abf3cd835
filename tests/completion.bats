#!/usr/bin/env bats
# meshnet completion

load helper

@test "completion: the bash script completes commands and options" {
    "$MESHNET" completion bash >"$BATS_TEST_TMPDIR/script"
    bash -n "$BATS_TEST_TMPDIR/script"
    source "$BATS_TEST_TMPDIR/script"
    COMP_WORDS=(meshnet ver) COMP_CWORD=1
    _meshnet
    [ "${COMPREPLY[*]}" = verify-plugin ]
    COMP_WORDS=(meshnet bench --tok) COMP_CWORD=2
    _meshnet
    [ "${COMPREPLY[*]}" = --token-file ]
}

@test "completion: another shell is refused" {
    run "$MESHNET" completion tcsh
    [ "$status" -eq 2 ]
    [[ "$output" == *bash* ]]
}
