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

# Each faulty one fails the rule its row names in bench_check_test; the correct one must fail none.
@test "the second set: verify-plugin finds nothing in the correct plugin" {
    local version
    for version in 12 7 4; do
        run timeout 200 "$MESHNET" verify-plugin --strict --version v$version "$SECOND/libnccl-net-alt.so"
        echo "$output" | grep -E -A1 '^(fail|warn)' || true
        [ "$status" -eq 0 ]
        [[ "$output" == *" 0 failed, 0 warned, "* ]]
    done
}
