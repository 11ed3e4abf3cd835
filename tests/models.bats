#!/usr/bin/env bats
# The places that work without a lock, as models, under a checker of the memory model of C11.

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
