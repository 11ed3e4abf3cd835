#!/usr/bin/env bats
# Every pair of a ring, a line and a star of four: every collective by each way of reaching, forced one
# after the other, and by default; verify-plugin between nodes without a cable. By hand (LAB_SHAPES=all):
# some minutes a shape. tests/lab/ring.bats has the shortest of it.

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

# every_collective FILE VARIABLES: of bench, all-to-all included, every pair directly.
every_collective()
{
    collectives_at "$PWD/$1" "$2" --collective all --algorithm direct --sizes 16K --iters 2 --warmup 1
    jq -r '[.collectives[].collective] | unique | join(" ")' <<<"$output" >ran
    cat ran
    grep -q all_reduce ran && grep -q alltoall ran
}

# in_each_way SHAPE CABLES "NODE PEER": two without a cable. Routes for the mesh file, "END END VIA", come
# from standard input.
in_each_way()
{
    local end other via first peer
    to_bench "$1" "$2"
    read -r first peer <<<"$3"
    lab sync
    on spark-a cat /etc/meshnet/mesh.yaml >applied.yaml
    managed applied.yaml >mesh.yaml
    (cat mesh.yaml && echo routes: && while read -r end other via; do
        echo "  - {ends: [spark-$end, spark-$other], via: spark-$via}"
    done) >routed.yaml
    cat routed.yaml
    lab sync

    # The file names it: RDMA, which has to go along the cables through the kernel in between.
    every_collective routed.yaml MESHNET_TRANSPORT=verbs
    [[ "$stderr" != *"by TCP"* ]]
    every_collective mesh.yaml MESHNET_REACH=cables
    no_management
    every_collective mesh.yaml MESHNET_REACH=management
    [[ "$stderr" != *"TCP reaches it along the cables"* ]]
    every_collective mesh.yaml ''
    no_management
    [[ "$stderr" != *WARN* ]]
    opposite_keeps_rules $first $peer "$PWD/mesh.yaml"
}

no_management()
{
    [[ "$stderr" != *"over the management network"* ]]
}

@test "reach: a ring of four" {
    in_each_way ring 4 'spark-a spark-c' <<END
a/p1 c/p2 b
b/p2 d/p3 c
END
}

@test "reach: a line of four" {
    in_each_way line 3 'spark-a spark-d' <<END
a/p1 c/p2 b
b/p2 d/p3 c
a/p1 d/p3 b
END
}

@test "reach: a star of four" {
    in_each_way star 3 'spark-b spark-d' <<END
b/p1 c/p2 a
b/p1 d/p3 a
c/p2 d/p3 a
END
}
