#!/usr/bin/env bats
# meshnet tune: what the tuner decides on rings, lines, stars and full meshes, without a GPU.

load helper

setup()
{
    unset MESHNET_CONFIG MESHNET_TUNER COLUMNS
    export NO_COLOR=1 LC_ALL=C.UTF-8 HOME=$BATS_TEST_TMPDIR XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
    cd "$BATS_TEST_TMPDIR"
}

# mesh NODES SPEED CABLE…: a mesh file of nodes n0, n1, … and cables like 01; SPEED in Mb/s, 0 = unsaid.
mesh()
{
    local nodes=$1 speed=$2 node cable i nic
    shift 2
    echo 'version: 1'
    echo 'nodes:'
    for ((node = 0; node < nodes; node++)); do
        printf -- '  - name: n%d\n    nics:\n' "$node"
        i=0 nic=0
        for cable; do
            for end in 0 1; do
                [ "${cable:end:1}" = $node ] || continue
                printf -- '      - {netdev: p%d, device: roce%d, addresses: [10.0.%d.%d/30]%s}\n' $nic $nic \
                    $i $((end + 1)) "$([ "$speed" = 0 ] || echo ", speed: $speed")"
                nic=$((nic + 1))
            done
            i=$((i + 1))
        done
    done
}

tune()
{
    run --separate-stderr "$MESHNET" tune "$@"
    echo "$output"
    echo "$stderr"
}

# decided FILTER: of the JSON in output, one line.
decided()
{
    jq -r "$1" <<<"$output" | sort -u | paste -sd ' '
}

@test "tune: ring, line and star take the ring, whatever the size; pairs without a cable are named" {
    for shape in '01 12 23 30' '01 12 23' '01 02 03'; do
        # shellcheck disable=SC2086
        mesh 4 100000 $shape >mesh.yaml
        tune --mesh mesh.yaml --json
        [ "$status" -eq 0 ]
        [ "$(decided '.decisions[].algorithm')" = Ring ]
        [ "$(decided '.decisions[].collective')" = "all-gather all-reduce broadcast reduce reduce-scatter" ]
        [ "$(jq '.decisions | length' <<<"$output")" -eq 55 ]
        [ "$(decided '.barred[].algorithm')" = "PAT Tree" ]
        # Each of these pairs has no cable and is none of the ring's.
        jq -r '.barred[] | .from + .to' <<<"$output" | tr -d n | while read -r pair; do
            [[ " $shape " != *" $pair "* ]]
            [ "$pair" = 02 ] || [ "$pair" = 13 ]
        done
        # Few bytes go with LL, many with Simple, and never faster than a cable carries.
        [ "$(decided '.decisions[] | select(.bytes == 1024).protocol')" = LL ]
        [ "$(decided '.decisions[] | select(.bytes == 1073741824).protocol')" = Simple ]
        [ "$(decided '.decisions | map(select(.busbw_gb_per_s > 12.5)) | length')" -eq 0 ]
        [ "$(decided '.decisions | map(select(.collective == "all-reduce")) | sort_by(.bytes) | (map(.time_us) | sort) == map(.time_us)')" = true ]
    done
}

@test "tune: on a full mesh NCCL decides, and the times are shown" {
    mesh 4 100000 01 02 03 12 13 23 >mesh.yaml
    tune --mesh mesh.yaml --json
    [ "$status" -eq 0 ]
    [ "$(decided '.decisions[].algorithm')" = null ]
    [ "$(decided '.decisions[].channels')" = null ]
    [ "$(jq -r .rule <<<"$output")" = "every two nodes have a cable" ]
    [ "$(decided '.decisions[] | select(.collective == "all-reduce") | .ring_us > 0 and .tree_us > 0')" = true ]
    [ "$(jq '.barred' <<<"$output")" = null ]
    # One slow cable among them is reason to predict, and to bar nothing.
    sed -i '0,/speed: 100000/s//speed: 1000/' mesh.yaml
    tune --mesh mesh.yaml --json
    [ "$(decided '.decisions[].algorithm | . == null')" = false ]
    [ "$(jq -r .rule <<<"$output")" = "every two nodes have a cable, of different speeds" ]
}

@test "tune: some of the nodes, more than there are, one, and a tuner that is off" {
    mesh 6 100000 01 12 23 34 45 50 >mesh.yaml
    tune --mesh mesh.yaml --json --nodes 4 --ranks 8
    [ "$(decided '.decisions[].algorithm')" = Ring ]
    [ "$(decided '.decisions[].time_us')" = null ]
    [ "$(jq -r .order <<<"$output")" = null ]
    [ "$(jq -r .ranks <<<"$output")" = 8 ]
    for nodes in 1 3 7; do
        tune --mesh mesh.yaml --json --nodes $nodes
        [ "$status" -eq 0 ]
        [ "$(decided '.decisions[].algorithm')" = null ]
    done
    MESHNET_TUNER=false tune --mesh mesh.yaml --json
    [ "$(decided '.decisions[].algorithm')" = null ]
    [[ "$(jq -r .rule <<<"$output")" == *"tuner: false"* ]]
    echo 'plugin: {tuner: false}' >>mesh.yaml
    tune --mesh mesh.yaml --json
    [ "$(decided '.decisions[].algorithm')" = null ]
}

@test "tune: ranks go along the cables, in whatever order the file has the nodes" {
    mesh 4 100000 02 21 13 30 >mesh.yaml
    tune --mesh mesh.yaml --json
    ranks=$("$MESHNET" topo ranks --mesh mesh.yaml --json | jq -r '[.ranks[]? | .node] | join(",")')
    order=$(jq -r .order <<<"$output")
    [ "$order" = n0,n2,n1,n3 ] || [ "$order" = n0,n3,n1,n2 ]
    [ -n "$ranks" ]
    [ "$order" = "$ranks" ]
}

@test "tune: files that say the same in another order give the same decisions" {
    # Two rings joined at two places, of speeds that differ.
    mesh 6 100000 01 12 23 34 45 50 02 35 >mesh.yaml
    sed -i '0,/speed: 100000/s//speed: 40000/' mesh.yaml
    "$MESHNET" topo show --mesh mesh.yaml --json >/dev/null
    python3 - <<-'END'
	lines = open("mesh.yaml").read().split("  - name: ")
	open("turned.yaml", "w").write("  - name: ".join([lines[0]] + lines[:0:-1]))
	END
    run -1 cmp mesh.yaml turned.yaml
    tune --mesh mesh.yaml --json
    [ "$status" -eq 0 ]
    one=$(jq 'del(.mesh_file)' <<<"$output")
    tune --mesh turned.yaml --json
    [ "$one" = "$(jq 'del(.mesh_file)' <<<"$output")" ]
    for file in mesh turned; do
        ranks=$("$MESHNET" topo ranks --mesh $file.yaml --json | jq -r '[.ranks[] | .node] | join(",")')
        [ "$(jq -r .order <<<"$one")" = "$ranks" ]
    done
}

@test "tune: of several ranks a node more goes over the cables, and never more than they carry" {
    mesh 4 100000 01 12 23 30 >mesh.yaml
    tune --mesh mesh.yaml --ranks 32 --json
    [ "$status" -eq 0 ]
    [ "$(decided '[.decisions[] | select(.busbw_gb_per_s > 12.5)] | length')" = 0 ]
    [ "$(decided '[.decisions[] | select(.busbw_gb_per_s > 11)] | length > 0')" = true ]
    [ "$(decided '.decisions[].channels')" = null ]
}

@test "tune: without speeds the algorithm is known, the times are not" {
    mesh 4 0 01 12 23 30 >mesh.yaml
    tune --mesh mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"No times: the mesh file lacks the speed of a cable"* ]]
    [ "$(grep -c '^all-reduce  *all  *Ring' <<<"$output")" -eq 1 ]
    tune --mesh mesh.yaml --json
    [ "$(jq '.decisions | length' <<<"$output")" -eq 5 ]
    [ "$(decided '.decisions[].size')" = all ]
    [ "$(decided '.decisions[].bytes')" = null ]
    [ "$(decided '.decisions[].algorithm')" = Ring ]
    [ "$(decided '.decisions[].protocol')" = null ]
    # PAT alone is barred: of all-reduce the tree is left beside the ring.
    mesh 5 0 01 12 23 34 40 03 24 >mesh.yaml
    tune --mesh mesh.yaml --json
    [ "$(decided '.barred[].algorithm')" = PAT ]
    [ "$(decided '.decisions[] | select(.collective == "all-reduce").algorithm')" = null ]
    [ "$(decided '.decisions[] | select(.collective == "all-gather").algorithm')" = Ring ]
}

@test "tune: the chart is one column a size, in UTF-8 or ASCII" {
    mesh 4 100000 01 12 23 30 >mesh.yaml
    tune --mesh mesh.yaml --collective all-reduce --sizes 1K:1G:2
    [ "$status" -eq 0 ]
    [[ "$output" == *"RRRRRRRRRRRRRRRRRRRRR"* ]]
    [[ "$output" == *█* ]]
    [[ "$output" == *"1K 8K 64K 1M 8M 64M 1G"* ]]
    [[ "$output" != *all-gather* ]]
    [ "$(grep -c '^all-reduce .*Ring' <<<"$output")" -eq 21 ]
    [[ "$output" != *"The chart has"* ]]
    sizes=$(seq -s , 1024 1024 122880)
    tune --mesh mesh.yaml --collective all-reduce --sizes "$sizes"
    [[ "$output" == *"The chart has the first 100 of 120 sizes"* ]]
    tune --mesh mesh.yaml --collective all-reduce --sizes 1K:1G:2 --ascii
    run -1 grep -P '[^\x00-\x7f]' <<<"$output"
    LC_ALL=C tune --mesh mesh.yaml
    run -1 grep -P '[^\x00-\x7f]' <<<"$output"
}

@test "tune: cables as bench --links measured them" {
    mesh 4 0 01 12 23 30 >mesh.yaml
    jq '.cells = [["n0", "n1"], ["n1", "n2"], ["n2", "n3"], ["n0", "n3"]] | .cells |= map({mode: "link",
        link: join("-"), from: .[0], to: .[1], status: "ok", out_gbps: 8, in_gbps: 8, both_gbps: 16,
        p50_us: 50})' "$BATS_TEST_DIRNAME/fixtures/results/matrix.json" >links.json
    tune --mesh mesh.yaml --predict-from links.json --json -c all-reduce -s 1K,1G
    [ "$status" -eq 0 ]
    [ "$(jq -r .measured <<<"$output")" = links.json ]
    # 8 Gb/s are a GB/s, which many bytes come near to; few wait for six steps.
    [ "$(decided '.decisions[1].busbw_gb_per_s | . > 0.9 and . <= 1')" = true ]
    [ "$(decided '.decisions[0].time_us | . > 6 * 25')" = true ]
    tune --mesh mesh.yaml --predict-from links.json
    [[ "$output" == *"A job's tuner goes by the mesh file"* ]]
    tune --mesh mesh.yaml --predict-from absent.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *absent.json* ]]
    echo '{}' >empty.json
    tune --mesh mesh.yaml --predict-from empty.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"empty.json"*"expected what meshnet bench"* ]]
}

@test "tune: wrong usage" {
    tune
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"no mesh file"* ]]
    mesh 4 100000 01 12 23 30 >mesh.yaml
    tune --mesh mesh.yaml --collective all-to-all
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--collective all-to-all: expected all-reduce, "* ]]
    tune --mesh mesh.yaml --sizes 7X
    [ "$status" -eq 2 ]
    tune --mesh mesh.yaml --nodes 4 --ranks 3
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--ranks 3"* ]]
    tune mesh.yaml
    [ "$status" -eq 2 ]
    MESHNET_TUNER=perhaps tune --mesh mesh.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *MESHNET_TUNER* ]]
    echo 'nodes: 7' >wrong.yaml
    tune --mesh wrong.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"wrong.yaml:1:"* ]]
    run bash -c '"$0" tune --mesh mesh.yaml 2>&1 >/dev/full' "$MESHNET"
    [ "$status" -eq 1 ]
    [[ "$output" == *"writing failed"* ]]
}
