#!/usr/bin/env bats
# What must hold in every order of steps, as models: the places that work without a lock, under a
# checker of the memory model of C11, and recovery when a link goes, under spin.

load helper

# Hundreds of megabytes of states, looked up at random: by pages of 4 KiB that takes a third longer.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1

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
    [ "$(grep -c '^ok .* no bad end' <<<"$output")" -eq 5 ]
}

@test "models: without the fence, the check, the exchange or the release, each has a bad end" {
    run "$BATS_FILE_TMPDIR/models" --without
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok .* a bad end found' <<<"$output")" -eq 5 ]
}

# search OPTION...: every state of the model of recovery.
search()
{
    local dir
    dir=$(mktemp -d -p "$BATS_TEST_TMPDIR")
    cd "$dir"
    spin -a "$@" "$BATS_TEST_DIRNAME/models/failover.pml"
    # What it generates warns.
    gcc -w ${OPTIMIZE--O1} -DSAFETY -o pan pan.c
    ./pan -m10000 ${TABLE-}
}

@test "recovery: two links, two messages of two segments, two faults at any time: no bad end" {
    command -v spin || skip "the checker is not here (package spin)"
    # Of the ways over another node the longer form, -DRELAY with two faults, takes 3 GB.
    for options in "" "-DRELAY -DFAULTS=1" "-DROWS -DRELAY"; do
        run search $options
        echo "$options: $output"
        [ "$status" -eq 0 ]
        grep -q 'errors: 0$' <<<"$output"
        no grep -q 'Search not completed' <<<"$output"
    done
}

@test "recovery: without fence, drain, turn, end, epoch or claim it ends badly" {
    command -v spin || skip "the checker is not here (package spin)"
    for options in -DWITHOUT_FENCE -DWITHOUT_DRAIN -DWITHOUT_TURN "-DRELAY -DWITHOUT_END" \
        "-DRELAY -DWITHOUT_EPOCH" "-DROWS -DWITHOUT_CLAIM"; do
        # Each soon comes to its end this way round; what takes time is the compiler, and the table.
        OPTIMIZE=-DREVERSE TABLE=-w18 run search $options
        echo "$options: $output"
        grep -q 'assertion violated' <<<"$output"
        grep -q 'errors: 1$' <<<"$output"
    done
}

# search_relay MODEL GRAPH OPTION…: every state of a model of the relay; GRAPH: words for graph.py.
search_relay()
{
    local dir model=$1 graph=$2
    dir=$(mktemp -d -p "$BATS_TEST_TMPDIR")
    shift 2
    cd "$dir"
    # spin finds what is included beside the file.
    cp "$BATS_TEST_DIRNAME/models/$model.pml" .
    [ -z "$graph" ] || python3 "$BATS_TEST_DIRNAME/models/graph.py" $graph >graph.pml
    spin -a "$@" $model.pml
    gcc -w ${OPTIMIZE--O1} -DSAFETY -o pan pan.c
    # As deep as the deepest needs: room for more takes longer than most searches.
    ./pan -m600000 -w20
}

# no_bad_end MODEL GRAPH OPTION…, bad_end …: what such a search finds.
no_bad_end()
{
    run search_relay "$@"
    echo "$*: $output"
    [ "$status" -eq 0 ]
    grep -q 'errors: 0$' <<<"$output"
    no grep -q 'Search not completed\|max search depth' <<<"$output"
}

bad_end()
{
    # Found in no time: what takes time is the compiler.
    OPTIMIZE= run search_relay "$@"
    echo "$*: $output"
    grep -q 'assertion violated' <<<"$output"
    grep -q 'errors: 1$' <<<"$output"
}

@test "relay: the constants of the model are those of the code" {
    sed -nE 's/^#define (MN_RELAY_[A-Z]+) +([^/]*[^/ ]).*/_Static_assert(\1 == \2, "\1 of the model");/p' \
        "$BATS_TEST_DIRNAME/models/relay.pml" >"$BATS_TEST_TMPDIR/asserts"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/asserts")" -eq 3 ]
    (echo '#include "plugin/relay/relay.h"' && cat "$BATS_TEST_TMPDIR/asserts") |
        gcc -fsyntax-only -std=c11 -I "$BATS_TEST_DIRNAME/.." -x c -
}

@test "relay: rings of three to six and random graphs up to eight nodes: no order of steps stands still" {
    command -v spin || skip "the checker is not here (package spin)"
    for graph in 'ring 3' 'ring 4' 'ring 5' 'ring 6' 'random 1' 'random 2' 'random 5'; do
        no_bad_end relay "$graph" -DBUFFERS=1
    done
    # Of eight nodes.
    for graph in 'random 3 18' 'random 7 16' 'random 8 17'; do
        no_bad_end relay "$graph" -DBUFFERS=1
    done
    no_bad_end relay 'ring 4' -DSLOW
    no_bad_end relay 'random 3 12' -DSLOW
}

@test "relay: with one class of buffers rings of five and six and random graphs stand still" {
    command -v spin || skip "the checker is not here (package spin)"
    for graph in 'ring 5' 'ring 6' 'random 1' 'random 2' 'random 3' 'random 4' 'random 5'; do
        bad_end relay "$graph" -DBUFFERS=1 -DONE_CLASS
    done
    bad_end relay 'ring 5' -DONE_CLASS -DWITHOUT_SHARE
}

@test "relay: receivers that take nothing hold up nobody else, or only until their flow is given up" {
    command -v spin || skip "the checker is not here (package spin)"
    no_bad_end relay 'shared 3' -DSLOW -DSTUCK=1
    bad_end relay 'shared 3' -DSLOW -DSTUCK=1 -DWITHOUT_SHARE
    # What the share bears: with eight buffers three, with two one. More are given up.
    no_bad_end relay 'shared 4' -DBUFFERS=8 -DSTUCK=3
    bad_end relay 'shared 5' -DBUFFERS=8 -DSTUCK=4
    bad_end relay 'shared 4' -DSTUCK=2
    no_bad_end relay 'shared 4' -DSLOW -DSTUCK=2 -DGONE
    no_bad_end relay 'random 2 12' -DSTUCK=2 -DGONE
}

@test "relay: when ways go, no piece lands twice, late or elsewhere, and all is sent" {
    command -v spin || skip "the checker is not here (package spin)"
    # Longer forms, two faults without -DTWO or three with it, take 5 GB and more.
    no_bad_end relay_ways '' -DTWO
    no_bad_end relay_ways '' -DFAULTS=1
}

@test "relay: without fence, drain, pair, turn, tell or DONE it ends badly" {
    command -v spin || skip "the checker is not here (package spin)"
    for without in FENCE DRAIN PAIR TURN TELL DONE; do
        bad_end relay_ways '' -DWITHOUT_$without
    done
}
