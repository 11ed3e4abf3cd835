#!/usr/bin/env bats
# The second set of broken plugins: each is shown to be broken by calls alone, and then by the rules.

load helper

setup()
{
    SECOND=$BUILD/tests/broken/second
    [ -x "$BUILD/tests/second" ] || skip "test plugins are not built"
    cd "$BATS_TEST_TMPDIR"
}

@test "the second set: the correct plugin passes in every version" {
    local version
    for version in 4 5 6 7 8 9 10 11 12; do
        "$BUILD/tests/second" --run "$SECOND/libnccl-net-alt.so" $version transfer
    done
}

@test "the second set: the correct plugin passes what each broken one fails" {
    run --separate-stderr timeout 300 "$BUILD/tests/second" -j 6
    echo "$output" | grep '^not ok' || true
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok ' <<<"$output")" -ge 80 ]
}
