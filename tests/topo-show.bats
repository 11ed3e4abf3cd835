#!/usr/bin/env bats
# meshnet topo show: drawings are as their golden files have them, fit the terminal, and names out of a
# mesh file do nothing in them; graphviz takes what is written for it. MESHNET_RENEW=1 writes the golden
# files anew.

load helper

setup()
{
    FIXTURES=$BATS_TEST_DIRNAME/fixtures/show
    mapfile -t MESHES < <(ls "$BATS_TEST_DIRNAME"/../configs/*.yaml "$FIXTURES"/*.yaml)
    export NO_COLOR=1 LC_ALL=C.UTF-8
    unset MESHNET_CONFIG MESHNET_NODE COLUMNS
    cd "$BATS_TEST_TMPDIR"
    mkdir bin # no graphviz
}

show()
{
    run --separate-stderr "$MESHNET" topo show "$@"
    echo "$output"
    echo "$stderr"
}

# as_golden NAME FILE: what was drawn is what it was.
as_golden()
{
    [ -z "$MESHNET_RENEW" ] || cp "$2" "$FIXTURES/$1"
    diff "$FIXTURES/$1" "$2"
}

@test "topo show: every mesh is drawn as its golden files have it" {
    [ "${#MESHES[@]}" -ge 12 ]
    for mesh in "${MESHES[@]}"; do
        name=$(basename "$mesh" .yaml)
        "$MESHNET" topo show --mesh "$mesh" >utf8
        as_golden "$name.utf8" utf8
        "$MESHNET" topo show --mesh "$mesh" --ascii >ascii
        as_golden "$name.ascii" ascii
        "$MESHNET" topo show --mesh "$mesh" --format dot >dot
        as_golden "$name.dot" dot
        PATH=$PWD/bin "$MESHNET" topo show --mesh "$mesh" --format svg >svg 2>err
        as_golden "$name.svg" svg
        [ "$(<err)" = "meshnet topo show: dot is not installed; the nodes stand in a circle" ]
    done
}

@test "topo show: the locale decides about lines, and --ascii" {
    mesh=${MESHES[0]}
    LC_ALL=C "$MESHNET" topo show --mesh "$mesh" >c
    "$MESHNET" topo show --mesh "$mesh" --ascii >ascii
    cmp c ascii
    run -1 grep -P '[^\x00-\x7f]' c
    "$MESHNET" topo show --mesh "$mesh" >utf8
    grep -q '┌' utf8
}

@test "topo show: every drawing of these fits 80 columns, and says each cable at both ends" {
    for mesh in "${MESHES[@]}"; do
        echo "$mesh"
        "$MESHNET" topo show --mesh "$mesh" >text
        [ "$(wc -L <text)" -le 80 ]
        "$MESHNET" topo show --mesh "$mesh" --json >json
        # Ports with a cable, once for each of them at the least.
        jq -r '.cables[] | .a_port, .b_port' json | sort -u >ports
        awk 'NR == FNR { text = text $0 "\n"; next }
            !index(text, $0) { print text "no " $0; bad = 1 }
            END { exit bad }' text ports
        cables=$(jq '.cables | length' json)
        head -1 text | grep -q " $cables cable"
    done
}

@test "topo show: JSON has ports, halves, cables and what has no addresses" {
    show --mesh "$FIXTURES/names.yaml" --json
    [ "$status" -eq 0 ]
    jq -e '.shape == "pair" and (.nodes | length) == 2 and (.cables | length) == 1 and
        (.nodes[0].ports | map(.port) == ["g", "eth2"]) and
        (.nodes[0].ports[0].nics | length) == 2 and .nodes[0].ports[1].cables == 0 and
        (.cables[0].links | map(.subnet) == ["10.0.0.0/24", null])' <<<"$output"
    show --mesh "$FIXTURES/line5.yaml" --format json
    jq -e '.nodes[0].management == [{"nic": "enP7s7", "netdev": "enP7s7", "mbps": 10000}]' <<<"$output"
}

@test "topo show: what has no cable or no addresses, and management, stand below" {
    show --mesh "$FIXTURES/names.yaml"
    [[ "$output" == *"╌╌╌  no addresses yet, 1 of 1 cables or a half of them: meshnet topo address"* ]]
    [[ "$output" == *'No cable at: x"]; y/eth2'* ]]
    show --mesh "$FIXTURES/line5.yaml"
    [[ "$output" == *"For management: spark-a/enP7s7 spark-b/enP7s7"* ]]
}

@test "topo show: graphviz takes the DOT of every mesh, each port and cable of it, and places SVG" {
    local drawn=0
    command -v dot >/dev/null || skip "no graphviz"
    for mesh in "${MESHES[@]}"; do
        echo "$mesh"
        "$MESHNET" topo show --mesh "$mesh" --json >json
        "$MESHNET" topo show --mesh "$mesh" --format dot | dot -Tjson >graph 2>err
        cat err
        [ ! -s err ]
        jq -e --slurpfile mesh json '
            (.objects | length) == ($mesh[0].nodes | length) and
            ((.edges // []) | length) == ($mesh[0].cables | length)' graph
        drawn=$((drawn + 1))
        show --mesh "$mesh" --format svg -o $drawn.svg
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        [ "$(grep -c '<path class="cable' $drawn.svg)" -eq "$(jq '.cables | length' json)" ]
    done
    # All at once: python is long to start.
    [ $drawn -gt 0 ]
    python3 -c 'import sys, xml.dom.minidom as d; [d.parse(file) for file in sys.argv[1:]]' [0-9]*.svg
}

@test "topo show: colours on a terminal only" {
    export TERM=xterm COLUMNS=80
    unset NO_COLOR
    "$MESHNET" topo show --mesh "$FIXTURES/ring5.yaml" >plain
    run -1 grep -q $'\e' plain
    script -qec "'$MESHNET' topo show --mesh '$FIXTURES/ring5.yaml'" /dev/null >colored </dev/null
    grep -q $'\e\[33m╌' colored
    sed 's/\x1b\[[0-9]*m//g; s/\r$//' colored | diff plain -
    NO_COLOR=1 script -qec "'$MESHNET' topo show --mesh '$FIXTURES/ring5.yaml'" /dev/null >colored </dev/null
    run -1 grep -q $'\e' colored
}

@test "topo show: a narrow terminal has no wires, but every peer" {
    run script -qec "stty cols 50; '$MESHNET' topo show --mesh '$FIXTURES/full6.yaml'" /dev/null </dev/null
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" != *'│─│'* ]]
    [ "$(grep -c '├── spark-' <<<"$output")" -eq 30 ]
    run script -qec "stty cols 50; '$MESHNET' topo show --wide --mesh '$FIXTURES/full6.yaml'" /dev/null </dev/null
    grep -q '│─│' <<<"$output"
}

@test "topo show: the mesh in force, a file, a wrong one, no space" {
    export XDG_CONFIG_HOME=$PWD/config HOME=$PWD
    mkdir -p config/meshnet
    show
    if [ ! -e /etc/meshnet/mesh.yaml ]; then
        [ "$status" -eq 2 ]
        [[ "$stderr" == "meshnet topo show: no mesh file: "* ]]
    fi
    cp "${MESHES[0]}" config/meshnet/mesh.yaml
    show -o drawing
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    "$MESHNET" topo show --mesh "${MESHES[0]}" | cmp - drawing
    show --mesh nowhere.yaml -o drawing2
    [ "$status" -eq 2 ]
    [ ! -e drawing2 ]
    show --mesh "${MESHES[0]}" -o nowhere/drawing
    [ "$status" -ne 0 ]
    show extra
    [ "$status" -eq 2 ]
    show --format pdf
    [ "$status" -eq 2 ]
    run bash -c "'$MESHNET' topo show --mesh '${MESHES[0]}' >/dev/full"
    [ "$status" -eq 1 ]
}

@test "topo show: a hypercube of 4096 nodes has a row for each end of its 24576 cables" {
    "$MESHNET" topo plan --nodes 4096 --ports 12 --shape hypercube -o cube.yaml
    "$MESHNET" topo show -m cube.yaml >shown
    [ "$(grep -c ' no cable' shown)" -eq 0 ]
    [ "$(grep -cE ' node-[0-9]{4} port(0|1)?[0-9]$' shown)" -eq 49152 ]
    # The other end says the same.
    grep -A 13 '^[^ ]* node-0001 ' shown | grep -oE 'port[0-9]+ .* node-[0-9]+ port[0-9]+' | awk '{ print $1, $(NF-1), $NF }' >first
    [ "$(wc -l <first)" -eq 12 ]
    while read -r own node port; do
        grep -A 13 "^[^ ]* $node " shown | grep -E " $port .* node-0001 $own\$"
    done <first
}
