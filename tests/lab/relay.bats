#!/usr/bin/env bats
# A ring and a line of four over RDMA with meshnet relayd on every node: every collective over the relay,
# verify-plugin between opposite nodes, a relay that is killed and a node that loses its power in
# mid-transfer. By hand (LAB_SHAPES=all): some minutes a shape.

load helper
load traffic
load shapes

setup()
{
    by_hand
    cd "$BATS_TEST_TMPDIR"
}

teardown()
{
    lab_down
}

# relayed SHAPE: its machines with addresses, the mesh file in mesh.yaml, a relay on each.
relayed()
{
    mesh_of "$1" >lab.yaml
    lab_up "$PWD/lab.yaml"
    managed lab.yaml >mesh.yaml
    relays_on $NODES
}

# over_relays "NODE PEER": two without a cable.
over_relays()
{
    local first peer
    read -r first peer <<<"$1"
    collectives_at "$PWD/mesh.yaml" MESHNET_TRANSPORT=verbs --collective all --algorithm direct --sizes 16K \
        --iters 2 --warmup 1
    jq -r '[.collectives[].collective] | unique | join(" ")' <<<"$output" >ran
    cat ran
    grep -q all_reduce ran && grep -q alltoall ran
    [[ "$stderr" != *"by TCP"* ]]
    [[ "$stderr" != *WARN* ]]
    [ "$(passed_on spark-b)" -gt 100000 ]
    opposite_keeps_rules $first $peer "$PWD/mesh.yaml"
}

@test "relay: a ring of four: every collective, the rules, a relay and a node that go in mid-transfer" {
    relayed ring
    over_relays 'spark-a spark-c'
    stream_start spark-c spark-a "$PWD/mesh.yaml"
    stream_goes_on spark-c
    on spark-b 'kill -9 $(cat /root/relayd.pid)'
    stream_goes_on spark-c
    relayd_on spark-b
    stream_goes_on spark-c
    until_passed spark-b
    lab kill spark-d
    stream_goes_on spark-c
    lab start spark-d
    relayd_on spark-d
    until_passed spark-d
    on spark-b 'kill -9 $(cat /root/relayd.pid)'
    stream_goes_on spark-c
}

# until_passed NODE: it is used.
until_passed()
{
    local i
    for i in {1..60}; do
        [ "$(passed_on $1)" -lt 1000000 ] || return 0
        sleep 1
    done
    return 1
}

@test "relay: a line of four: every collective, the rules, and no way left is an error that names the relay" {
    relayed line
    over_relays 'spark-a spark-d'
    SLOW+=' MESHNET_SILENCE=10s MESHNET_RDMA_SILENCE=10s'
    stream_start spark-c spark-a "$PWD/mesh.yaml"
    stream_goes_on spark-c
    on spark-b 'kill -9 $(cat /root/relayd.pid)'
    run stream_end spark-a 120
    echo "$output"
    [[ "$output" == *failed*spark-b* ]]
}
