#!/usr/bin/env bats
# Four machines in a ring whose cables have no addresses: found by probing, from one for all. What
# follows in this file goes by the mesh file found first.

load helper
load traffic

MESH=$TOP/configs/ring4.yaml
NODES="spark-a spark-b spark-c spark-d"

setup_file()
{
    local node
    lab_up "$MESH"
    for node in $NODES; do
        on $node 'ip -4 addr flush dev enp1s0f0np0; ip -4 addr flush dev enp1s0f1np1'
        [ $node = spark-a ] || serve_on $node ''
    done
}

teardown_file()
{
    lab_down
}

# neighbors OPTION…: from spark-a, through the agents of the others over the management network, which
# is a switch.
neighbors()
{
    run --separate-stderr on spark-a "cd /root; echo $TOKEN >token; chmod 600 token
        $MESHNET discover --neighbors --agents --token-file token --skip mgmt \
            --hosts localhost,spark-b,spark-c,spark-d $*"
    echo "$output"
    echo "$stderr"
}

# cables: of the JSON in $output, both ends, sorted.
cables()
{
    jq -r '.cables[] | .a + "/" + .a_netdev + " " + .b + "/" + .b_netdev' <<<"$output" | sort
}

@test "neighbors: the ring is found as it is cabled, with an MTU that passes, before there are addresses" {
    neighbors --json -o mesh.yaml
    [ "$status" -eq 0 ]
    [ "$(cables)" = "spark-a/enp1s0f0np0 spark-b/enp1s0f1np1
spark-a/enp1s0f1np1 spark-d/enp1s0f0np0
spark-b/enp1s0f0np0 spark-c/enp1s0f1np1
spark-c/enp1s0f0np0 spark-d/enp1s0f1np1" ]
    jq -e '.shape == "ring" and all(.cables[]; .mtu_out == 4200 and .mtu_back == 4200 and .state == "up")' \
        <<<"$output"
    on spark-a 'cat /root/mesh.yaml' >"$BATS_FILE_TMPDIR/mesh.yaml"
    [ "$(grep -c 'device: rocep1s0f' "$BATS_FILE_TMPDIR/mesh.yaml")" -eq 8 ]
    run ! grep -q 'addresses: \[10\.0\.' "$BATS_FILE_TMPDIR/mesh.yaml"
}

@test "neighbors: without its cable a ring is a line" {
    lab link spark-b-spark-c down
    neighbors --json
    lab link spark-b-spark-c up
    [ "$(jq -r .shape <<<"$output")" = line ]
    [ "$(cables | wc -l)" -eq 3 ]
}
