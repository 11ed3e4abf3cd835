#!/usr/bin/env bats
# Allocations that fail, one after the other: ci/nomem in steps. All of them by hand.

load helper

walk()
{
    run "$BATS_TEST_DIRNAME/../ci/nomem" --preset "$(basename "$BUILD")" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "nomem: the plugin over TCP, every allocation" {
    walk tcp
    [[ $output == *"once: "*" places tried"* ]]
}

@test "nomem: the plugin over verbs, up to its first connection" {
    walk --to 540 --step 9 verbs
}

@test "nomem: the tuner, every allocation of its init" {
    walk tuner
    [[ $output == *"4 ranks: "*" places tried, "*" 0 bad"* ]]
}

@test "nomem: no function of ours that ends the process is in the plugin, but for the tuner and the relay's ways" {
    run -1 grep -E ' [tT] mn_no_memory' <(nm "$BUILD/tests/nomem/libnomem_net.so")
    nm "$BUILD/tests/nomem/libnomem_net.so" | grep -q ' [tT] mn_config_load'
    # libnl and libsodium, which are in it too, name some of these.
    nm "$BUILD/libmn_plugin.a" >"$BATS_TEST_TMPDIR/symbols"
    grep -q " T " "$BATS_TEST_TMPDIR/symbols"
    run -1 grep -E ' U (abort|_?exit|_Exit|quick_exit)$' "$BATS_TEST_TMPDIR/symbols"
}

@test "nomem: bench --local, serve and verify-plugin's driver" {
    walk --from 300 --step 799 bench serve
    walk --step 199 verify
}
