#!/usr/bin/env bats
# meshnet bench --predict on a ring of four in namespaces: what is predicted, from what, and what it
# says of the cable that limits. How near it comes is for ci/bench/predict.

load helper
load namespaces
load valid

setup()
{
    local node
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnbp$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_RANK MESHNET_WORLD "${!NCCL_@}"
    export NO_COLOR=1 MESHNET_TOKEN=00112233445566778899aabbccddeeff MESHNET_TRANSPORT=tcp
    cd "$BATS_TEST_TMPDIR" || return
    managed 10.9.2 a b c d
    cable a ab 10.4.1.0/31 b ba 10.4.1.1/31
    cable b bc 10.4.2.0/31 c cb 10.4.2.1/31
    cable c cd 10.4.3.0/31 d dc 10.4.3.1/31
    cable d da 10.4.4.0/31 a ax 10.4.4.1/31
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: ab, addresses: [10.4.1.0/31], speed: 1000}
	      - {netdev: ax, addresses: [10.4.4.1/31], speed: 1000}
	  - name: b
	    nics:
	      - {netdev: ba, addresses: [10.4.1.1/31]}
	      - {netdev: bc, addresses: [10.4.2.0/31], speed: 1000}
	  - name: c
	    nics:
	      - {netdev: cb, addresses: [10.4.2.1/31]}
	      - {netdev: cd, addresses: [10.4.3.0/31], speed: 1000}
	  - name: d
	    nics:
	      - {netdev: dc, addresses: [10.4.3.1/31]}
	      - {netdev: da, addresses: [10.4.4.0/31], speed: 1000}
	END
    export MESHNET_CONFIG=$PWD/mesh.yaml
    for node in a b c d; do
        "$MESHNET" topo emit iproute2 --node $node >$node.sh
        on $node sh $node.sh
    done
}

teardown()
{
    printf "netns del $NS-%s\n" a b c d m | ip -force -batch - 2>/dev/null || true
}

# all_ranks REPORT OPTION…: rank 0's report there, each one's words in said.N.
all_ranks()
{
    local report=$1 rank=0 node pids=() failed=0
    shift
    for node in a b c d; do
        on $node env MESHNET_NODE=$node RANK=$rank WORLD_SIZE=4 MASTER_ADDR=10.9.2.1 MASTER_PORT=18665 \
            timeout -k 1 100 "$MESHNET" bench --timeout 30s "$@" >out.$rank 2>said.$rank &
        pids+=($!)
        rank=$((rank + 1))
    done
    for rank in 0 1 2 3; do
        wait "${pids[rank]}" || failed=$?
        sed "s/^/$rank: /" said.$rank
    done
    mv out.0 "$report"
    return $failed
}

# matrix OUT IN: results of --links in which the cable of c and d has these Gb/s, the others 1.
matrix()
{
    local cells='' link from to out in
    while read -r link from to out in; do
        cells+=",{\"mode\": \"link\", \"link\": \"$link\", \"from\": \"$from\", \"to\": \"$to\", \"status\": \"ok\",
            \"out_gbps\": $out, \"in_gbps\": $in, \"both_gbps\": 2, \"p50_us\": 100}"
    done <<-END
	a-b a b 1 1
	b-c b c 1 1
	c-d c d $1 $2
	a-d a d 1 1
	END
    jq --argjson cells "[${cells#,}]" '.cells = $cells' "$BATS_TEST_DIRNAME/fixtures/results/matrix.json"
}

@test "bench --predict: each size has a prediction, by the speeds of the mesh file" {
    all_ranks report.json --collective all-reduce,all-gather,all-to-all --algorithm ring,direct \
        --sizes 64,1M --iters 2 --predict --json
    valid report.json
    jq -e '.collectives | length == 10' report.json
    jq -e '[.prediction[] | [.collective, .bytes, .algorithm]] ==
        [.collectives[] | [.collective, .bytes, .algorithm]]' report.json
    jq -e '[.prediction[].time_us] == [.collectives[].time_us]' report.json
    jq -e 'all(.prediction[]; .predicted_us > 0 and .ratio > 0)' report.json
    # 3 rounds of a quarter each, of 1448 bytes in 1538 on the wire, and 20 us of latency.
    jq -e '.prediction[] | select(.collective == "all_gather" and .algorithm == "ring" and .bytes == 1048576)
        | .predicted_us - 3 * (262144 * 8 / 1000 * 1538 / 1448 + 20) | fabs < 1' report.json
    # 6 rounds, of which 3 have to reduce what they brought.
    jq -e '.prediction[] | select(.collective == "all_reduce" and .algorithm == "ring" and .bytes == 1048576)
        | .predicted_us > 6 * (262144 * 8 / 1000 * 1538 / 1448 + 20)' report.json
    # Between opposite nodes blocks go over two cables: some cable has three.
    jq -e '.prediction[] | select(.collective == "alltoall" and .bytes == 1048576) |
        (.predicted_us - 3 * 262144 * 8 / 1000 * 1538 / 1448 | . > 0 and . < 100) and .limit == "link" and
        (.link | IN("a-b", "b-c", "c-d", "a-d"))' report.json
    jq -e '[.prediction[] | select(.bytes == 64).limit] | unique == ["latency"]' report.json
}

@test "bench --predict: as text" {
    all_ranks report --collective all-reduce --algorithm ring --sizes 4M --iters 2 --predict
    cat report
    grep -q 'measured out of place, and as predicted' report
    grep -Eq '^ *all_reduce +4194304 .*[ad]-[a-d], [a-d] to [a-d]' report
    all_ranks report --collective all-reduce --algorithm ring --sizes 4K --iters 2
    run grep predicted report
    [ "$status" -eq 1 ]
}

@test "bench --predict-from: rates that were measured, each way its own" {
    matrix 1 0.1 >slow.json
    all_ranks report.json --collective all-gather,all-to-all --algorithm ring,direct --sizes 1M --iters 2 \
        --predict-from slow.json --json
    # A ring goes from c to d, so that the slow way back does not matter; each to each does not.
    jq -e '.prediction[] | select(.algorithm == "ring") |
        .predicted_us - 3 * (262144 * 8 / 1000 + 100) | fabs < 1' report.json
    jq -e '.prediction[] | select(.collective == "alltoall") | .link == "c-d" and .from == "d" and .to == "c" and
        .limited_by == "c-d, d to c" and .predicted_us > 262144 * 8 / 100' report.json
    matrix 0.1 1 >slow.json
    all_ranks report.json --collective all-reduce --algorithm ring --sizes 1M --iters 2 --predict-from slow.json --json
    jq -e '.prediction[0] | .limited_by == "c-d, c to d" and .predicted_us > 6 * 262144 * 8 / 100' report.json
}

@test "bench --predict-from: of slowed cables, as --links has measured them, the slowest limits" {
    for end in a/ab b/ba b/bc c/cb c/cd d/dc; do
        tc -n "$NS-${end%/*}" qdisc add dev "${end#*/}" root tbf rate 200mbit burst 32k latency 20ms
    done
    tc -n $NS-d qdisc add dev da root tbf rate 20mbit burst 32k latency 50ms
    tc -n $NS-a qdisc add dev ax root tbf rate 20mbit burst 32k latency 50ms
    all_ranks links.json --links --sizes 128K --duration 1s --no-check --json
    jq -c '.cells[] | [.link, .out_gbps, .in_gbps, .both_gbps, .p50_us]' links.json
    all_ranks report.json --collective all-reduce,all-gather --sizes 256K --algorithm ring --iters 2 \
        --predict-from links.json --json
    valid report.json
    jq -c '.prediction[] | [.collective, .time_us, .predicted_us, .limited_by]' report.json
    jq -e '.prediction | length == 2 and all(.limited_by == "a-d, d to a")' report.json
}

@test "bench --predict-only: of a mesh file alone, on whatever host" {
    "$MESHNET" bench --predict-only --collective all-gather,all-to-all --sizes 64,1M --mesh mesh.yaml --json >report.json
    jq -e '[.prediction[] | [.collective, .bytes, .algorithm]] == [["all_gather", 64, "direct"],
        ["all_gather", 1048576, "ring"], ["alltoall", 64, "direct"], ["alltoall", 1048576, "direct"]]' report.json
    jq -e 'all(.prediction[]; .predicted_us > 0 and .time_us == null and .ratio == null)' report.json
    matrix 0.1 1 >slow.json
    "$MESHNET" bench --predict-only --collective all-gather --algorithm ring --sizes 1M --mesh mesh.yaml --predict-from slow.json >report
    grep -Eq '^ *all_gather +1048576 .*c-d, (c to d|d to c)' report
    run --separate-stderr "$MESHNET" bench --predict-only --collective all-gather --local 2
    [ "$status" -eq 2 ]
    "$MESHNET" bench --predict-only --collective all-reduce,gather --engine nccl --sizes 1M --mesh mesh.yaml --json >report.json
    jq -e '[.prediction[] | [.collective, .algorithm, .predicted_us > 0]] == [["all_reduce", "nccl", true]]' report.json
    run --separate-stderr "$MESHNET" bench --predict-only --collective gather --engine rccl --sizes 1M --mesh mesh.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"none of these collectives is predicted for --engine RCCL"* ]]
    sed -i 's/, speed: 1000//' mesh.yaml
    run --separate-stderr "$MESHNET" bench --predict-only --collective all-gather --mesh mesh.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"how fast link a-b is, is not known: give a NIC of it a speed"*"--predict-from"* ]]
    run --separate-stderr "$MESHNET" bench --predict-only --collective all-reduce --engine nccl --mesh mesh.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" =~ "how fast link "[a-d]-[a-d]" is, is not known: give a NIC of it a speed" ]]
}

@test "bench --predict-only: over relays, what goes further takes both ways round" {
    local ways
    printf 'plugin: {key_file: %s/key}\n' "$PWD" >>mesh.yaml
    (umask 077 && echo 00112233445566778899aabbccddeeff >key)
    for ways in 1 2; do
        (cat mesh.yaml && echo "relay: {ways: $ways}") >ways.yaml
        "$MESHNET" bench --predict-only --collective all-to-all --algorithm direct --sizes 64M --mesh ways.yaml \
            --json >report.$ways
    done
    jq -c .prediction[] report.1 report.2
    # Twice 16 MiB over each cable and direction, at 1 Gb/s less headers.
    jq -e '.prediction[0].predicted_us | . > 268000 and . < 290000' report.2
    jq -es '.[0].prediction[0].predicted_us > 1.2 * .[1].prediction[0].predicted_us' report.1 report.2
}

@test "bench --predict-only: of a mesh that has no addresses yet it says so" {
    "$MESHNET" topo plan --nodes 4 --ports 2 -o bare.yaml
    for engine in own nccl; do
        run --separate-stderr "$MESHNET" bench --predict-only --collective all-reduce --engine $engine --mesh bare.yaml
        echo "$stderr"
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"without addresses yet"*"node-1-node-2"*"meshnet topo address gives them"* ]]
    done
    "$MESHNET" topo address -m bare.yaml -o numbered.yaml
    "$MESHNET" bench --predict-only --collective all-reduce --sizes 1M --mesh numbered.yaml
}

@test "bench --predict: what it cannot be told from is said first" {
    run --separate-stderr "$MESHNET" bench --links --predict
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--predict goes with --collective"* ]]
    MESHNET_CONFIG=/dev/null/none run --separate-stderr env -u MESHNET_CONFIG HOME=/nonexistent \
        "$MESHNET" bench --collective all-reduce --local 2 --predict
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"which mesh?"* ]]
    all_ranks report.json --collective all-reduce --sizes 8 --iters 2 --predict --json
    for file in report.json nothing.json; do
        [ -e $file ] || matrix 1 1 | jq '.cells[].link = "elsewhere"' >$file
        run all_ranks again.json --collective all-reduce --sizes 8 --iters 2 --predict-from $file --json
        [ "$status" -ne 0 ]
        [[ "$output" == *"$file: "*"expected "*"meshnet bench --links"* ]]
    done
    run all_ranks again.json --collective all-reduce --sizes 8 --iters 2 --predict-from absent.json --json
    [ "$status" -ne 0 ]
    [[ "$output" == *"absent.json"* ]]
    sed -i '/name: d/,$d' mesh.yaml
    run all_ranks again.json --collective all-reduce --sizes 8 --iters 2 --predict --json
    [ "$status" -ne 0 ]
    [[ "$output" == *'MESHNET_NODE="d" is no node of the mesh'* ]]
}
