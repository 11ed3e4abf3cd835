#!/usr/bin/env bats
# meshnet topo routes: the way of every pair, and another one.

load helper
load meshes

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE COLUMNS
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD NO_COLOR=1
    RING=(0-1 1-2 2-3 3-0)
}

routes()
{
    run --separate-stderr "$MESHNET" topo routes "$@"
    echo "$output"
    echo "$stderr"
}

# of FROM TO FILTER: of the way from one to the other.
of()
{
    jq -r --arg a "$1" --arg b "$2" ".pairs[] | select(.from == \$a and .to == \$b) | $3" <<<"$output"
}

@test "topo routes: of a ring, neighbours by cable and opposites over nodes, and the other way round" {
    mesh_of mesh.yaml 4 "${RING[@]}"
    routes --mesh mesh.yaml --json
    [ "$status" -eq 0 ]
    [ "$(jq '[.pairs[] | [.from, .to] | sort] | unique | length' <<<"$output")" -eq 6 ]
    [ "$(jq .pairs_without_cable <<<"$output")" -eq 2 ]
    [ "$(of n0 n1 '[.way, .hops, .path, .cables, .other_hops, .other_path] | @text')" = \
        '["cable",1,"n0,n1","n0-n1",3,"n0,n3,n2,n1"]' ]
    [ "$(of n0 n1 '.gbps > 9 and .gbps < 10')" = true ]
    [ "$(of n0 n2 '[.way, .hops] | @text')" = '["nodes",2]' ]
    # All four cables are in use, two there and two elsewhere.
    [ "$(of n0 n2 '[.cables, .other_cables] | join(",") | split(",") | unique | length')" -eq 4 ]
}

@test "topo routes: ways back that go over other nodes have their row" {
    mesh_of mesh.yaml 4 "${RING[@]}"
    routes --mesh mesh.yaml --json
    [ "$status" -eq 0 ]
    jq -e '.pairs | length > 6 and (group_by([.from, .to] | sort) | all(.[];
        length == 1 or (length == 2 and .[0].from == .[1].to and
            (.[0].path | split(",")) != (.[1].path | split(",") | reverse))))' <<<"$output"
}

@test "topo routes: filters" {
    mesh_of mesh.yaml 4 "${RING[@]}"
    routes --mesh mesh.yaml --node n2 --json
    [ "$(jq -r '[.pairs[] | select(.hops == 1) | .from + .to] | join(" ")' <<<"$output")" = "n2n1 n2n3" ]
    [ "$(jq -r '[.pairs[] | [.from, .to]] | flatten | map(select(. == "n2")) | length' <<<"$output")" -eq \
        "$(jq '.pairs | length' <<<"$output")" ]
    routes --mesh mesh.yaml --node host2,n0 --far --json
    [ "$(jq .pairs_without_cable <<<"$output")" -eq 1 ]
    [ "$(jq -r '[.pairs[] | [.from, .to] | sort | join("")] | unique | join(" ")' <<<"$output")" = n0n2 ]
}

@test "topo routes: parallel cables, a line without another way" {
    mesh_of mesh.yaml 3 0-1 1-0 1-2
    routes --mesh mesh.yaml --json
    [ "$(of n0 n1 '[.cables, .other_over, .other_hops] | @text')" = '["n0-n1+n0-n1-2","beside",1]' ]
    [ "$(of n0 n1 '.gbps > 18 and .other_gbps > 9 and .other_gbps < 10')" = true ]
    [ "$(of n1 n2 .other_path)" = null ]
    [ "$(of n0 n2 '[.path, .over, .other_path] | @text')" = '["n0,n1,n2","n1",null]' ]
    [ "$(of n0 n2 '.gbps < 10')" = true ]
}

@test "topo routes: management, outside, none, and a setting that forbids" {
    MESH_MORE=('{netdev: m, speed: 1000, role: management, addresses: [192.0.2.1/24]},'
        '{netdev: m, speed: 1000, role: management, addresses: [192.0.2.2/24]},')
    mesh_of mesh.yaml 3
    routes --mesh mesh.yaml --json
    [ "$(of n0 n1 '[.way, .hops, .path] | @text')" = '["management",null,null]' ]
    [ "$(of n0 n1 '.gbps > 0.9 and .gbps < 1')" = true ]
    [ "$(of n0 n2 .way)" = outside ]
    routes --mesh mesh.yaml
    [[ "$output" == *"management: TCP over the network for management"*"outside: TCP over a network"* ]]
    mesh_of mesh.yaml 3 0-1 1-2
    printf 'transport: {reach: direct}\n' >>mesh.yaml
    routes --mesh mesh.yaml
    [[ "$output" == *"none: jobs in which the two talk to each other fail. The mesh file has transport.reach: direct"* ]]
    grep -Eq '^n0 +n2 +none ' <<<"$output"
}

@test "topo routes: the table aligns, and notes say what is slow" {
    mesh_of mesh.yaml 12 $(for i in $(seq 0 10); do echo $i-$((i + 1)); done)
    routes --mesh mesh.yaml
    [ "$status" -eq 0 ]
    # Every column begins where its head does.
    at=$(head -1 <<<"$output" | grep -bo WAY | cut -d: -f1)
    [ "$(sed '/^$/,$d' <<<"$output" | tail -n +2 | cut -c$((at + 1))- | grep -Evc '^(cable|nodes) ')" -eq 0 ]
    [[ "$output" == *"nodes: TCP, passed on by the kernels in between"* ]]
    routes --mesh mesh.yaml --node n0,n1 --json
    [ "$(of n0 n11 .hops)" -eq 11 ]
    # No note where nothing is slow.
    mesh_of mesh.yaml 3 0-1 1-2 0-2
    routes --mesh mesh.yaml
    [ "${#lines[@]}" -eq 4 ]
}

@test "topo routes: cables without addresses are named and carry nothing" {
    mesh_of mesh.yaml 3 0-1 1-2
    sed -i 's/, addresses: \[10.0.2.[12].30\]//' mesh.yaml
    printf 'links:\n  - {ends: [n0/e1, n1/e1]}\n  - {ends: [n1/e2, n2/e2], name: later}\n' >>mesh.yaml
    routes --mesh mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"nothing goes over them: later; meshnet topo address"* ]]
    grep -Eq '^n1 +n2 +outside ' <<<"$output"
}

@test "topo routes: what it cannot do" {
    mesh_of mesh.yaml 2 0-1
    routes --mesh mesh.yaml --node n9
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--node n9: no node"* ]]
    routes --mesh mesh.yaml n0
    [ "$status" -eq 2 ]
    routes --mesh nothing
    [ "$status" -eq 2 ]
    run --separate-stderr bash -c '"$1" topo routes --mesh mesh.yaml >/dev/full' - "$MESHNET"
    [ "$status" -eq 1 ]
    [ -n "$stderr" ]
}

@test "topo routes: the nodes in between are those to which the kernels' routes lead" {
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    load namespaces
    NS=mnr$$
    for node in n0 n1 n2 n3 n4; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    # A ring of five, drawn up so that ways of equal length and doors differ.
    pairs=(1-0 2-1 2-3 3-4 0-4)
    mesh_of mesh.yaml 5 "${pairs[@]}"
    net=0
    for pair in "${pairs[@]}"; do
        net=$((net + 1))
        # Both ends have the cable's name, each on its node.
        cable n${pair%-*} e$net 10.0.$net.1/30 n${pair#*-} e$net 10.0.$net.2/30
    done
    for node in n0 n1 n2 n3 n4; do
        "$MESHNET" topo emit iproute2 --mesh mesh.yaml --node $node >$node.sh
        on $node sh -e $node.sh
    done
    routes --mesh mesh.yaml --far --json
    [ "$(jq '[.pairs[] | select(.way == "nodes")] | length' <<<"$output")" -ge 5 ]
    seen=0
    while read -r from to path; do
        # The address that the other has on its first NIC, hop by hop.
        door=$(sed -n "s/.*name: $to,.*nics: \[{netdev: [^}]*addresses: \[\([0-9.]*\).*/\1/p" <<<"$(tac mesh.yaml | sed 's/},{/}\n{/' | grep "name: $to,")")
        at=$from went=$from
        for _ in 1 2 3 4; do
            [ $at != $to ] || break
            via=$(on $at ip -4 route get $door | sed -n 's/.* via \([0-9.]*\) .*/\1/p')
            via=${via:-$door}
            for node in n0 n1 n2 n3 n4; do
                on $node ip -4 -o addr | grep -qF " $via/" && at=$node
            done
            went+=,$at
        done
        echo "$from $to by $door: $path, went $went"
        [ "$went" = "$path" ]
        seen=$((seen + 1))
    done < <(jq -r '.pairs[] | select(.way == "nodes") | [.from, .to, .path] | @tsv' <<<"$output")
    [ $seen -ge 5 ]
}

teardown()
{
    [ -z "$NS" ] || for node in n0 n1 n2 n3 n4; do
        ip netns del $NS-$node 2>/dev/null || true
    done
}

@test "topo routes: more pairs than can be shown are refused before any is looked for" {
    cd "$BATS_TEST_TMPDIR"
    "$MESHNET" topo plan --nodes 2000 --ports 2 --shape ring -o large.yaml --list >list
    run -2 --separate-stderr "$MESHNET" topo routes --mesh large.yaml
    [[ "$stderr" == *"large.yaml: the ways of 1999000 pairs of nodes: at most 1000000 are shown; name nodes with --node"* ]]
    "$MESHNET" topo routes --mesh large.yaml --node node-0001 >one
    [ "$(grep -c ^node one)" -gt 1900 ]
}

@test "topo routes: relays where the mesh file names a cluster key, along all cables of a hop" {
    mesh_of mesh.yaml 4 "${RING[@]}"
    printf 'plugin: {key_file: /etc/meshnet/key}\n' >>mesh.yaml
    routes --mesh mesh.yaml --json
    [ "$status" -eq 0 ]
    [ "$(of n0 n1 .way)" = cable ]
    [ "$(of n0 n2 '[.way, .hops] | @text')" = '["relay",2]' ]
    # Both ways round together.
    [ "$(of n0 n2 '.gbps > 15')" = true ]
    (cat mesh.yaml && echo 'relay: {ways: 1}') >one.yaml
    routes --mesh one.yaml --json
    [ "$(of n0 n2 '.gbps > 5 and .gbps < 10.1')" = true ]
    routes --mesh mesh.yaml --json
    # The way back is the same: no pair has a second row.
    [ "$(jq '.pairs | length' <<<"$output")" -eq 6 ]
    routes --mesh mesh.yaml
    [[ "$output" == *"relay: meshnet relayd on the nodes in between"* ]]
    printf 'transport: {reach: cables}\n' >>mesh.yaml
    routes --mesh mesh.yaml --json
    [ "$(of n0 n2 .way)" = nodes ]
}
