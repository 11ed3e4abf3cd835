#!/usr/bin/env bats
# The most nodes a lab has, in a ring: every cable is seen from both ends.

load helper

setup_file()
{
    local i
    {
        printf 'version: 1\nnodes:\n'
        for i in 1 2 3 4 5 6 7 8; do
            printf '  - name: n%d\n    nics:\n' $i
            printf '      - {netdev: right, addresses: [10.45.%d.1/24]}\n' $i
            printf '      - {netdev: left, addresses: [10.45.%d.2/24]}\n' $(((i + 6) % 8 + 1))
        done
    } >"$BATS_FILE_TMPDIR/ring.yaml"
    lab_up "$BATS_FILE_TMPDIR/ring.yaml"
}

teardown_file()
{
    lab_down
}

@test "eight nodes: each reaches its neighbours over the cables, all others over management" {
    local i
    [ "$(lab status --json | jq '[.nodes[] | select(.state == "up")] | length')" -eq 8 ]
    [ "$(lab status --json | jq '.links | length')" -eq 8 ]
    for i in 1 2 3 4 5 6 7 8; do
        on n$i "busybox ping -c 1 -W 10 10.45.$i.2 &&
            busybox ping -c 1 -W 10 10.45.$(((i + 6) % 8 + 1)).1 &&
            busybox ping -c 1 -W 10 n$(((i + 3) % 8 + 1)) &&
            [ \$(rdma link show | grep -c ACTIVE) = 2 ]"
    done
}

@test "nine nodes are refused" {
    printf 'version: 1\nnodes:\n' >"$BATS_TEST_TMPDIR/nine.yaml"
    printf '  - {name: n%d, nics: []}\n' 1 2 3 4 5 6 7 8 9 >>"$BATS_TEST_TMPDIR/nine.yaml"
    LAB_DIR=$LAB_DIR.b run lab up "$BATS_TEST_TMPDIR/nine.yaml"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ "$output" == *"9 nodes; the lab has at most 8"* ]]
}
