#!/usr/bin/env bats
# meshnet doctor on a ring of four: healthy, and with faults that only separate kernels have.

load helper
load traffic

MESH=$TOP/configs/ring4.yaml

setup_file()
{
    ring_up
}

teardown_file()
{
    lab_down
}

# doctor OPTION…: from spark-a; its JSON in $output.
doctor()
{
    run --separate-stderr on spark-a "MESHNET_TOKEN=$TOKEN $MESHNET doctor --agents --mesh $MESH --json $*"
    jq -c '.findings[] | [.id, .where, .seen]' <<<"$output"
    echo "$output"
    echo "$stderr"
}

@test "doctor: a healthy ring of four has no finding, and every cable was written over" {
    doctor
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.findings[] | select(.id | IN("two-nccl", "settings") | not)]' <<<"$output")" = '[]' ]
    [ "$(jq -r .answered <<<"$output")" = '4 of 4' ]
    [ "$(jq -c '[.cables[] | [.state, .rdma, .passes, .back, .write]] | unique' <<<"$output")" = '[["up","yes","all","all","ok"]]' ]
}

@test "doctor: a cable that is pulled, and an MTU that is set at one end" {
    lab link spark-b-spark-c down
    doctor --no-write
    lab link spark-b-spark-c up
    [ "$status" -eq 1 ]
    [ "$(jq -r '.findings[0] | "\(.id) \(.where)"' <<<"$output")" = 'cable-down spark-b right (enp1s0f0np0) - spark-c left (enp1s0f1np1)' ]
    on spark-d 'ip link set enp1s0f0np0 mtu 1500'
    doctor --no-write
    on spark-d 'ip link set enp1s0f0np0 mtu 9000'
    [ "$status" -eq 1 ]
    [ "$(jq -r '.findings[0].id' <<<"$output")" = cable-mtu ]
    [[ "$(jq -r '.findings[0].seen' <<<"$output")" == *'spark-d 1500'* ]]
}

@test "doctor: a node that is dead" {
    lab kill spark-c
    doctor --no-write
    lab start spark-c
    [ "$status" -eq 1 ]
    [ "$(jq -r '[.findings[] | select(.severity == "error") | "\(.id) \(.where)"] | join(" ")' <<<"$output" | cut -c1-19)" = 'unreachable spark-c' ]
}
