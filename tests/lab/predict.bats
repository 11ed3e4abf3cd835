#!/usr/bin/env bats
# A ring of four whose cables are slowed down: bench --predict beside what bench measures. How near it
# comes is printed and nothing asserted of it, as the machines' own speed is anybody's guess here; "ci/bench/predict
# --where lab" is what judges it. By hand (LAB_SHAPES=all): it takes minutes, and tests/bench-predict.bats does
# the same on namespaces.

load helper

@test "bench --predict: ring all-reduce and all-to-all on slowed cables, by what --links has measured" {
    [ "$(uname -m)" = x86_64 ] || skip "the lab is for x86-64 hosts"
    [ "$LAB_SHAPES" = all ] || skip "LAB_SHAPES=all runs it too"
    command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"
    MESHNET_BUILD=$BUILD run --separate-stderr "$TOP/ci/bench/predict" --where lab --sizes 1M \
        --seconds 2 --within 999999 --json
    echo "$stderr"
    echo "$output"
    [ "$status" -eq 0 ]
    jq -e 'map([.collective, .bytes]) == [["all_reduce", 1048576], ["alltoall", 1048576]]' <<<"$output"
    jq -e 'all(.time_us > 0 and .predicted_us > 0 and .limit == "link" and (.link | startswith("spark-")))' \
        <<<"$output"
}
