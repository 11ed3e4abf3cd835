#!/usr/bin/env bats
# meshnet topo plan: every shape is as its golden file has it, is what the other commands say it is, and
# has a place for each cable. MESHNET_RENEW=1 writes the golden files anew.

load helper

setup()
{
    FIXTURES=$BATS_TEST_DIRNAME/fixtures/plan
    export NO_COLOR=1 LC_ALL=C.UTF-8
    unset MESHNET_CONFIG MESHNET_NODE COLUMNS
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD
}

plan()
{
    run --separate-stderr "$MESHNET" topo plan "$@"
    echo "$output"
    echo "$stderr"
}

# as_golden NAME FILE: what was planned is what it was.
as_golden()
{
    [ -z "$MESHNET_RENEW" ] || cp "$2" "$FIXTURES/$1"
    diff "$FIXTURES/$1" "$2"
}

# name, and what is asked: a row for each shape at least.
PLANS=(
    "full-mesh          --shape full-mesh --nodes 4 --ports 3 --speed 100G"
    "pair               --shape full-mesh --nodes 2 --model dgx-spark"
    "hypercube          --shape hypercube --nodes 8 --ports 3 --speed 200G"
    "torus-3d           --shape torus-3d --nodes 27 --ports 6 --speed 400G"
    "torus-3d-flat      --shape torus-3d --nodes 20 --ports 4"
    "torus-2d           --shape torus-2d --nodes 9 --ports 4 --speed 25G"
    "torus-2d-ladder    --shape torus-2d --nodes 10 --ports 3"
    "chordal-ring       --shape chordal-ring --nodes 11 --ports 4"
    "chordal-ring-short --shape chordal-ring --nodes 8 --ports 3"
    "ring               --shape ring --names spark-a,spark-b,spark-c,spark-d --model dgx-spark"
    "ring-double        --shape ring --nodes 5 --ports 4 --netdevs enp1s0f0,enp1s0f1,enp2s0f0,enp2s0f1"
    "star               --shape star --nodes 5 --ports 4"
    "line               --shape line --nodes 3 --model dgx-spark"
    "all-8-4            --nodes 8 --ports 4 --speed 200G"
    "all-12-2           --nodes 12 --ports 2"
    "all-64-6           --nodes 64 --ports 6 --speed 400G --for all-to-all"
)

@test "topo plan: every shape is as its golden file has it" {
    for shape in $("$MESHNET" topo plan --help | sed -n '/--shape/,/--for/p' | grep -oE '(full|hyper|torus|chordal|ring|star|line)[a-z0-9-]*'); do
        printf '%s\n' "${PLANS[@]}" | grep -qe "--shape $shape "
    done
    for row in "${PLANS[@]}"; do
        read -r name asked <<<"$row"
        "$MESHNET" topo plan $asked >text
        as_golden "$name.txt" text
        "$MESHNET" topo plan $asked --json | jq . >json
        as_golden "$name.json" json
        "$MESHNET" topo plan $asked -o "$name.yaml" >text
        as_golden "$name.yaml" "$name.yaml"
    done
}

@test "topo plan: what it writes is numbered, checked, drawn and is the shape" {
    for row in "${PLANS[@]}"; do
        read -r name asked <<<"$row"
        "$MESHNET" topo plan $asked -o $name.bare --json >plan.json
        "$MESHNET" topo address -m $name.bare -o $name.yaml
        "$MESHNET" topo address -m $name.yaml --check
        "$MESHNET" discover --check $name.yaml --json >mesh.json
        # The cables of the list, port by port, are those of the file.
        case $name in
        pair | ring | line) ;; # a cable has two links there
        *)
            jq -r '.cables[] | [.a_node + "/" + .a_port, .b_node + "/" + .b_port] | sort | join(" ")' \
                plan.json | sort >listed
            jq -r '.links[] | [.a, .b] | sort | join(" ")' mesh.json | sort >linked
            diff listed linked
            ;;
        esac
        shape=$(jq -r .shape mesh.json)
        case $name in
        torus* | ring* | star | line | full-mesh | pair) [[ $name == ${shape/ /-}* ]] ;;
        hypercube) [ "$shape" = torus ] ;; # 4x2
        esac
        case $name in
        star | line) ;;
        *) "$MESHNET" topo ranks -m $name.yaml --json |
            jq -e '.steps_without_cable == 0 and ([.ranks[].node] | . == sort_by(.))' ;;
        esac
    done
}

@test "topo plan: the best cabling comes first" {
    best()
    {
        plan "$@" --json
        [ "$status" -eq 0 ]
        best=$(jq -r .best <<<"$output")
    }
    best --nodes 3 --model dgx-spark
    [ "$best" = full-mesh ]
    best --nodes 4 --model dgx-spark
    [ "$best" = ring ]
    jq -e '.plans | length == 2 and .[0].cut == false and .[1].shape == "line" and .[1].cut' <<<"$output"
    best --nodes 4 --ports 3
    [ "$best" = full-mesh ]
    best --nodes 8 --ports 4 --for all-reduce
    [ "$best" = "ring, 2 each" ]
    jq -e '.plans[0].all_reduce_gb_per_s > 1.9 * .plans[1].all_reduce_gb_per_s' <<<"$output"
    best --nodes 16 --ports 4 --for all-to-all
    [ "$best" = "chordal-ring +6" ]
    best --nodes 16 --ports 4 --for few-cables
    [ "$best" = ring ]
    jq -e '[.plans[] | select(.cut | not) | .cables] | . == sort' <<<"$output"
}

@test "topo plan: figures that are the most that can be are marked so" {
    # CABLES … ALL-REDUCE, ALL-TO-ALL, BISECTION
    for row in "128 0 0" "200 0 1" "300 1 1"; do
        read -r nodes all_to_all bisection <<<"$row"
        plan --nodes $nodes --ports 2 --shape ring
        [ "$status" -eq 0 ]
        [ "$(awk '$1 == "ring" { print $5 ~ /^≤/, $6 ~ /^≤/, $4 ~ /^≤/ }' <<<"$output")" = "$all_to_all $bisection 0" ]
        plan --nodes $nodes --ports 2 --shape ring --json
        jq -e --argjson a $all_to_all --argjson b $bisection '.plans[0] |
            .all_to_all_estimated == ($a == 1) and .bisection_estimated == ($b == 1) and
            (.all_to_all_gb_per_s | type) == "number"' <<<"$output"
    done
    LC_ALL=C plan --nodes 300 --ports 2 --shape ring
    [[ "$output" == *" <="* && "$output" != *≤* ]]
}

@test "topo plan: several cables between neighbours are worth what bench --predict-only says" {
    # The model is one; addresses may come in another order than ports, so that ties fall otherwise.
    for shape in "ring --ports 4" "torus-2d --ports 8" "ring --ports 2"; do
        "$MESHNET" topo plan --nodes 16 --shape $shape --json -o p.yaml --force >plan.json
        "$MESHNET" topo address -m p.yaml -o a.yaml --force
        "$MESHNET" bench --predict-only --mesh a.yaml --collective all-to-all --sizes 1G --json >model.json
        jq -e -n --slurpfile p plan.json --slurpfile m model.json '
            $p[0].plans[0].all_to_all_gb_per_s / $m[0].prediction[0].predicted_busbw_gb_per_s
            | . > 0.9 and . < 1.1'
    done
}

@test "topo plan: a list to print has a box for each cable, and names as on the case" {
    plan --names a,b,c,d --model dgx-spark --list
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 6 ]
    [ "$(grep -c '^\[ \]' <<<"$output")" -eq 4 ]
    [[ "${lines[5]}" =~ ^"[ ]       4  d     right  a     left"$ ]]
    plan --nodes 5000 --ports 6 --list
    [ "$(grep -c '^\[ \]' <<<"$output")" -eq 15000 ]
    # Each port once.
    [ "$(awk '/^\[ \]/ { print $4 $5; print $6 $7 }' <<<"$output" | sort | uniq -d | wc -l)" -eq 0 ]
}

@test "topo plan: thousands of nodes are planned, numbered and checked" {
    plan --nodes 4096 --ports 6 --shape torus-3d -o bare.yaml --json
    [ "$status" -eq 0 ]
    jq -e '.best == "torus-3d 16x16x16" and (.cables | length) == 12288 and
        (.plans[0] | .diameter == 24 and .all_to_all_estimated and .cut == false)' <<<"$output"
    "$MESHNET" topo address -m bare.yaml -o mesh.yaml --json | jq -e '.new == 12288'
    "$MESHNET" topo address -m mesh.yaml --check
    plan --nodes 10000 --ports 6 --json
    [ "$status" -eq 0 ]
    jq -e '.best == "torus-3d 25x20x20" and (.cables | length) == 30000' <<<"$output"
}

@test "topo plan: the benchmark of its size measures what was planned" {
    scale=$(dirname "$MESHNET")/../tests/scale
    run "$scale" 64
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(wc -w <<<"$output")" -eq 12 ]
    [ "$(cut -d' ' -f1,9 <<<"$output")" = "64 192" ]
    [[ "$output" != *" - "* ]]
    run "$scale" 5000
    [ "$status" -eq 0 ]
    [[ "$output" == *" - - 15000 "* ]]
    run --separate-stderr "$scale" 7
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"no torus of three directions has so many nodes"* ]]
}

@test "topo plan: what cannot be is told, and nothing is written" {
    while IFS='|' read -r asked said; do
        plan $asked -o no.yaml
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"$said"* ]]
        [ -z "$output" ]
        [ ! -e no.yaml ]
    done <<'END'
--nodes 3 --ports 1|3 nodes with 1 port each cannot be joined: expected at least 2 ports
--nodes 6 --ports 3 --shape hypercube|6 nodes are no hypercube
--nodes 8 --ports 2 --shape hypercube|8 nodes with 2 ports each are no hypercube: that takes 3 ports
--nodes 7 --ports 4 --shape torus-2d|7 nodes are no torus-2d
--nodes 4 --ports 2 --shape cube|--shape 'cube' is not known: expected one of full-mesh, hypercube, torus-3d, torus-2d, chordal-ring, ring, star, line
--nodes 4|name --ports, or --model
--ports 2|name --nodes, or --names
--names a --ports 2|name --nodes, or --names with two or more
--names a,b --nodes 3 --ports 2|--names has 2, --nodes says 3
--names a,b,a --ports 2|'a' stands there twice
--names a,b/c --ports 2|'b/c': expected a host's name
--names a,-b --ports 2|'-b': expected a host's name
--names a,\$(b) --ports 2|'\$(b)': expected a host's name
--names a,b:1 --ports 2|'b:1': expected a host's name
--names a,..,b --ports 2|'..': expected a host's name
--names a,,b --ports 2|--names 'a,,b': an item is empty
--names a,b, --ports 2|--names 'a,b,': an item is empty
--nodes 4 --model cray|--model 'cray' is not known: expected dgx-spark
--nodes 4 --model dgx-spark --ports 3|--ports 3: dgx-spark has 2
--nodes 4 --model dgx-spark --netdevs a,b|--netdevs: those of --model dgx-spark are known
--nodes 4 --ports 2 --netdevs a|--netdevs: 1 for 2 ports
--nodes 4 --ports 2 --netdevs a,a|--netdevs: 'a' stands there twice
--nodes 4 --ports 2 --netdevs a,abcdefghijklmnop|expected a NIC's name of 1 to 15 letters
--nodes 4 --ports 2 --netdevs a,b:1|'b:1': expected a NIC's name
--nodes 4 --ports 2 --speed fast|--speed 'fast': expected bits a second
--nodes 4 --ports 2 --speed 0|--speed '0': expected
--nodes 4 --ports 2 more|"more" is not expected here
--nodes 4097 --ports 6|--output: 4097 nodes; a mesh file has at most 4096
END
    plan --nodes 4 --ports 2 -o ''
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--output '': expected a file's name"* ]]
    plan --nodes 4 --ports 2 --force
    [ "$status" -eq 2 ]
    echo mine >mesh.yaml
    plan --nodes 4 --ports 2 -o mesh.yaml
    [ "$status" -eq 1 ]
    [ "$(cat mesh.yaml)" = mine ]
    plan --nodes 4 --ports 2 -o mesh.yaml --force
    [ "$status" -eq 0 ]
    "$MESHNET" topo show -m mesh.yaml | head -1 | grep -x "mesh.yaml: 4 nodes, 4 cables, ring"
}
