#!/usr/bin/env bats
# What must hold in every order of steps, as models: the places that work without a lock, under a
# checker of the memory model of C11, and recovery when a link goes, under spin.

load helper

setup_file()
{
    [ -f /usr/include/relacy/relacy.hpp ] || skip "the checker is not here (package relacy-dev)"
    # Its own headers are older than most warnings.
    g++ -std=c++11 -O1 -w -o "$BATS_FILE_TMPDIR/models" "$BATS_TEST_DIRNAME/models/models.cc"
}

@test "models: no order of steps and no value a load may have ends badly" {
    run "$BATS_FILE_TMPDIR/models"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok .* no bad end' <<<"$output")" -eq 4 ]
}

@test "models: without the fence, the check, the exchange or the release, each has a bad end" {
    run "$BATS_FILE_TMPDIR/models" --without
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok .* a bad end found' <<<"$output")" -eq 4 ]
}

# search OPTION...: every state of the model of recovery.
search()
{
    local dir
    dir=$(mktemp -d -p "$BATS_TEST_TMPDIR")
    cd "$dir"
    spin -a "$@" "$BATS_TEST_DIRNAME/models/failover.pml"
    # What it generates warns.
    gcc -w -O1 -DSAFETY -o pan pan.c
    ./pan -m10000
}

@test "recovery: two links, two messages of two segments, two faults at any time: no bad end" {
    command -v spin || skip "the checker is not here (package spin)"
    # Of the ways over another node the longer form, -DRELAY with two faults, takes 3 GB.
    for options in "" "-DRELAY -DFAULTS=1" "-DROWS -DRELAY"; do
        run search $options
        echo "$options: $output"
        [ "$status" -eq 0 ]
        grep -q 'errors: 0$' <<<"$output"
        ! grep -q 'Search not completed' <<<"$output"
    done
}

@test "recovery: without fence, drain, turn, end, epoch or claim it ends badly" {
    command -v spin || skip "the checker is not here (package spin)"
    for options in -DWITHOUT_FENCE -DWITHOUT_DRAIN -DWITHOUT_TURN "-DRELAY -DWITHOUT_END" \
        "-DRELAY -DWITHOUT_EPOCH" "-DROWS -DWITHOUT_CLAIM"; do
        run search $options
        echo "$options: $output"
        grep -q 'assertion violated' <<<"$output"
        grep -q 'errors: 1$' <<<"$output"
    done
}
