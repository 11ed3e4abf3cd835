#!/usr/bin/env bats
# Links that go and come back, on the double of libibverbs: scenarios from seeds
# (tests/drivers/failover.c). ci/seeds --failover runs as many as wanted.

load helper

setup()
{
    RUN=$BUILD/tests/failover
    unset "${!MESHNET_@}" "${!NCCL_@}" "${!FAKEVERBS@}"
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    "$RUN" "$PLUGIN" count=1 class=calm >/dev/null || [ $? -ne 77 ] || skip "no network namespace can be made"
}

@test "failover: each kind of fault, in worlds of every kind: nothing wrong, hung or left" {
    # Seeds of several blocks, for each has devices of its own.
    for from in 45 95 145 195; do
        run "$RUN" "$PLUGIN" from=$from count=30 jobs=2
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == "30 scenarios: 0 failed;"* ]]
    done
}

@test "failover: a seed is played again with the kind of fault that was asked for" {
    run "$RUN" "$PLUGIN" from=7 count=1 class=flap verbose=1
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^# step .*:down' <<<"$output")" -eq 10 ]
}

@test "failover: wrong usage is told" {
    for words in "class=none" "count=0" "nothing" "colour=red"; do
        run "$RUN" "$PLUGIN" $words
        [ "$status" -eq 2 ]
        [[ "$output" == *"usage: failover LIBRARY"* ]]
    done
    run "$RUN"
    [ "$status" -eq 2 ]
}
