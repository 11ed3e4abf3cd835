#!/usr/bin/env bats
# meshnet discover: this host, namespaces, recorded hosts, mesh files good and bad.

load helper

FIXTURES="$BATS_TEST_DIRNAME/fixtures"

setup()
{
    NS="mnd$$-$BATS_TEST_NUMBER"
    NAMESPACES=()
    export NO_COLOR=
    unset NO_COLOR MESHNET_CONFIG MESHNET_NODE
    # No mesh file of the user may be seen.
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR/none" HOME="$BATS_TEST_TMPDIR"
}

teardown()
{
    local ns
    for ns in "${NAMESPACES[@]}"; do
        ip netns del "$ns" 2>/dev/null || true
    done
}

needs_namespaces()
{
    [ "$(id -u)" -eq 0 ] && ip netns add "$NS-probe" 2>/dev/null || skip "namespaces need root"
    ip netns del "$NS-probe"
}

# new_ns LETTER: a namespace $NS-LETTER with loopback up.
new_ns()
{
    ip netns add "$NS-$1"
    NAMESPACES+=("$NS-$1")
    ip -n "$NS-$1" link set lo up
}

# cable A NIC ADDRESS B NIC ADDRESS: a veth pair; "-" gives no address.
cable()
{
    local from='' to=''
    [ "$3" = - ] || from="address add $3 dev $2 nodad"
    [ "$6" = - ] || to="address add $6 dev $5 nodad"
    ip -n "$NS-$1" -batch - <<-END && ip -n "$NS-$4" -batch - <<-END
	link add $2 type veth peer name $5 netns $NS-$4
	$from
	link set $2 up
	END
	$to
	link set $5 up
	END
}

discover_in()
{
    local ns="$NS-$1"
    shift
    run --separate-stderr ip netns exec "$ns" "$MESHNET" discover "$@"
}

# recorded NAME ARG…: discover of a recorded host.
recorded()
{
    local name="$1"
    shift
    run --separate-stderr "$MESHNET" discover --sysfs "$FIXTURES/$name/sys" \
        --netlink "$FIXTURES/$name/netlink.json" "$@"
}

finding_ids()
{
    jq -r '.findings[].id' <<<"$output" | sort | tr '\n' ' '
}

@test "discover reports this host" {
    run --separate-stderr "$MESHNET" discover
    [ "$status" -eq 0 ]
    [[ "$output" == *"$(hostname)"* ]]
    [[ "$output" == *NETDEV*ADDRESS*STATE* ]]
    [ -z "$stderr" ]
}

@test "a veth with a /31 is one row, up, and no finding" {
    needs_namespaces
    new_ns a
    new_ns b
    cable a x0 10.9.0.0/31 b y0 10.9.0.1/31
    discover_in a
    [ "$status" -eq 0 ]
    grep -Eq '^ *-  .*x0 +10\.9\.0\.0/31 +up' <<<"$output"
    [[ "$output" == *"No findings."* ]]
    run ! grep -E '(^| )lo( |$)' <<<"$output"
    discover_in a --all
    grep -Eq '(^| )lo +127\.0\.0\.1/8' <<<"$output"
}

@test "no address, link down and switched off are named with a remedy" {
    needs_namespaces
    new_ns a
    new_ns b
    cable a noaddr - b y0 -
    cable a dark 10.9.1.1/30 b y1 -
    cable a off 10.9.2.1/30 b y2 -
    ip -n "$NS-b" link set y1 down
    ip -n "$NS-a" link set off down
    discover_in a
    [ "$status" -eq 0 ]
    [[ "$output" == *"warning: noaddr: link up, no address"* ]]
    [[ "$output" == *"ip address add 10.0."*".1/30 dev noaddr   # other end: 10.0."*".2/30"* ]]
    [[ "$output" == *"warning: dark: link down"* ]]
    [[ "$output" == *"has the address 10.9.1.1/30 but no link"* ]]
    [[ "$output" == *"ip link set dev off up"* ]]
    discover_in a --json
    [ "$(finding_ids)" = "link-down link-down no-address " ]
    discover_in a --strict
    [ "$status" -eq 1 ]
}

@test "the address a finding offers mends it" {
    needs_namespaces
    new_ns a
    new_ns b
    cable a x0 - b y0 -
    discover_in a --json
    fix="$(jq -r '.findings[0].fix' <<<"$output")"
    ip netns exec "$NS-a" sh -c "$fix"
    discover_in a --strict
    [ "$status" -eq 0 ]
    [[ "$output" == *"No findings."* ]]
}

@test "two NICs in one subnet and one address twice are named" {
    needs_namespaces
    new_ns a
    new_ns b
    cable a x0 10.9.0.1/24 b y0 -
    cable a x1 10.9.0.2/24 b y1 -
    discover_in a
    [[ "$output" == *"warning: x1: two NICs in one subnet"* ]]
    [[ "$output" == *"10.9.0.2/24 shares a subnet with x0 (10.9.0.1/24)"* ]]
    ip -n "$NS-a" address del 10.9.0.2/24 dev x1
    ip -n "$NS-a" address add 10.9.0.1/32 dev x1
    discover_in a
    [[ "$output" == *"error: x1: one address on two NICs"* ]]
    [[ "$output" == *"ip address del 10.9.0.1/32 dev x1"* ]]
}

@test "JSON of this host is valid and complete" {
    run --separate-stderr "$MESHNET" discover --json
    [ "$status" -eq 0 ]
    jq -e '.hostname and (.nics | type == "array") and (.addresses | type == "array")
           and (.rdma | type == "array") and (.gpus | type == "array")
           and (.findings | type == "array")' <<<"$output"
    run --separate-stderr "$MESHNET" discover --format csv --all
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == device,port,netdev,address,state,speed,* ]]
}

@test "every recorded host gives its golden text" {
    local dir name seen=0
    for dir in "$FIXTURES"/*/; do
        name="$(basename "$dir")"
        [ -e "$dir/netlink.json" ] || continue
        recorded "$name"
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        diff -u "$dir/discover.txt" <(printf '%s\n' "$output")
        seen=$((seen + 1))
    done
    [ "$seen" -ge 9 ]
}

@test "every recorded host gives valid JSON whose findings the text names" {
    local dir name id titles
    for dir in "$FIXTURES"/*/; do
        name="$(basename "$dir")"
        [ -e "$dir/netlink.json" ] || continue
        recorded "$name" --json
        [ "$status" -eq 0 ]
        jq -e '.nics | length > 0' <<<"$output"
        titles="$(jq -r '.findings[] | "\(.severity): \(.nic): \(.title)"' <<<"$output")"
        [ -z "$titles" ] || while read -r id; do
            grep -Fxq -- "$id" "$dir/discover.txt"
        done <<<"$titles"
        recorded "$name" -v
        [ "$status" -eq 0 ]
    done
}

@test "GPUs are shown with the NICs nearest to them" {
    recorded hgx-h100 --json
    jq -e '.gpus | length == 8 and .[7] == {pci_address: "0000:cb:00.0", name: "NVIDIA 2330",
        numa: 1, path: "switch", nearest_nics: "enp204s0np0 enp205s0np0"}' <<<"$output"
    recorded dgx-spark --json
    jq -e '.gpus[0].path == "across" and .gpus[0].numa == null' <<<"$output"
    recorded mi300x -v
    [[ "$output" == *GPU*PATH*"NEAREST NICS"*"switch  enp221s0np0"* ]]
    [ "$(grep -c 'NEAREST NICS' <<<"$output")" -eq 1 ]
    recorded irdma
    [[ "$output" != *"NEAREST NICS"* ]]
}

@test "-v shows the GID tables" {
    local dir name seen=0
    for dir in "$FIXTURES"/*/; do
        name="$(basename "$dir")"
        [ -d "$dir/sys/class/infiniband" ] || continue
        recorded "$name" -v
        [ "$status" -eq 0 ]
        [[ "$output" == *"RDMA ports"*"link_layer"*INDEX*TYPE*GID* ]]
        [[ "$output" != *"RoCE v2"* ]] || seen=$((seen + 1))
    done
    [ "$seen" -ge 3 ]
}

@test "-o writes a mesh file once, --force replaces it" {
    needs_namespaces
    local file="$BATS_TEST_TMPDIR/a.yaml"
    new_ns a
    new_ns b
    cable a x0 10.9.0.1/30 b y0 10.9.0.2/30
    discover_in a -o "$file" --node alpha
    [ "$status" -eq 0 ]
    [[ "$output" == *"Wrote $file: 1 node, 0 links, single node"* ]]
    cp "$file" "$file.old"
    discover_in b -o "$file" --node beta
    [ "$status" -ne 0 ]
    [[ "$stderr" == *"$file"* ]]
    cmp "$file" "$file.old"
    discover_in b -o "$file" --node beta --force
    [ "$status" -eq 0 ]
    grep -q 'name: beta' "$file"
    run ! grep 'name: alpha' "$file"
    run "$MESHNET" discover --check "$file"
    [ "$status" -eq 0 ]
}

@test "-o writes each GPU with the nearest NICs of the mesh" {
    local file="$BATS_TEST_TMPDIR/a.yaml" from="$BATS_TEST_DIRNAME/fixtures/hgx-h100"
    run "$MESHNET" discover --sysfs "$from/sys" --netlink "$from/netlink.json" -o "$file" \
        --skip enp26s0np0 --skip enp77s0np0 --skip enp78s0np0
    [ "$status" -eq 0 ]
    [ "$(grep -c ' - {pci: ' "$file")" -eq 8 ]
    grep -qF '{pci: "0000:18:00.0", name: "NVIDIA 2330", nics: [enp27s0np0], path: switch}' "$file"
    grep -qF '{pci: 0000:4b:00.0, name: "NVIDIA 2330", nics: [enp27s0np0], path: numa}' "$file"
    run "$MESHNET" discover --check "$file"
    [ "$status" -eq 0 ]
}

make_triangle()
{
    new_ns a
    new_ns b
    new_ns c
    cable a ab 10.9.0.1/24 b ba 10.9.0.2/24
    cable b bc 10.9.1.1/30 c cb 10.9.1.2/30
    cable a ac 10.9.2.0/31 c ca 10.9.2.1/31
}

@test "--merge into one file makes the triangle" {
    needs_namespaces
    local file="$BATS_TEST_TMPDIR/mesh.yaml" n
    make_triangle
    for n in a b c; do
        discover_in $n -o "$file" --merge --node $n
        [ "$status" -eq 0 ]
    done
    [[ "$output" == *"3 nodes, 3 links, full mesh"* ]]
    [[ "$output" == *NEIGHBOUR*"10.9.2.1/31"*"10.9.1.2/30"* ]]
    cp "$file" "$file.once"
    discover_in b -o "$file" --merge --node b
    cmp "$file" "$file.once"

    MESHNET_CONFIG="$file" MESHNET_NODE=b discover_in b
    [ "$status" -eq 0 ]
    [[ "$output" == *"This node is b of $file: 3 nodes, 3 links, full mesh"* ]]
    run --separate-stderr "$MESHNET" discover --check "$file" --json
    jq -e '.shape == "full mesh" and (.links | length == 3) and (.nodes | length == 3)
           and ([.links[].subnet] | sort == ["10.9.0.0/24", "10.9.1.0/30", "10.9.2.0/31"])' \
        <<<"$output"
}

@test "--merge FILE… makes the triangle of three files" {
    needs_namespaces
    local dir="$BATS_TEST_TMPDIR" n
    make_triangle
    for n in a b c; do
        discover_in $n -o "$dir/$n.yaml" --node $n
        [ "$status" -eq 0 ]
    done
    run --separate-stderr "$MESHNET" discover -o "$dir/mesh.yaml" --merge "$dir"/[abc].yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"Wrote $dir/mesh.yaml: 3 nodes, 3 links, full mesh"* ]]
    run --separate-stderr "$MESHNET" discover -o "$dir/mesh.yaml" --merge "$dir"/[abc].yaml
    [ "$status" -ne 0 ]
    run --separate-stderr "$MESHNET" discover --check "$dir/mesh.yaml"
    [ "$status" -eq 0 ]
    [[ "$output" == *"full mesh"* ]]
}

@test "--merge names the file at which it fails" {
    local dir="$BATS_TEST_TMPDIR" n
    for n in a b c; do
        printf '%s\n' 'version: 1' 'nodes:' "  - name: $n" '    nics:' \
            '      - {netdev: x, addresses: [10.0.1.1/24]}' >"$dir/$n.yaml"
    done
    run --separate-stderr "$MESHNET" discover --merge "$dir/a.yaml" "$dir/b.yaml"
    echo "$stderr"
    [ "$status" -eq 2 ]
    [[ "$stderr" == "meshnet discover: $dir/b.yaml, merged with $dir/a.yaml: "*10.0.1.1* ]]
    sed -i s/10.0.1.1/10.0.1.2/ "$dir/b.yaml"
    run --separate-stderr "$MESHNET" discover --merge "$dir/a.yaml" "$dir/b.yaml" "$dir/c.yaml"
    echo "$stderr"
    [ "$status" -eq 2 ]
    [[ "$stderr" == "meshnet discover: $dir/c.yaml, merged with the files before it: "*10.0.1.1* ]]
}

@test "--skip and a host address leave a NIC out of the mesh file" {
    needs_namespaces
    local file="$BATS_TEST_TMPDIR/mesh.yaml"
    make_triangle
    cable a mgmt0 10.255.0.1/32 b mgmt0 10.255.0.2/32
    discover_in a -o "$file"
    [ "$status" -eq 0 ]
    [ "$("$MESHNET" discover --check "$file" --json | jq -r '.nics[].netdev' | xargs)" = 'ab ac' ]
    discover_in a -o "$file" --force --skip ac
    [ "$status" -eq 0 ]
    [ "$("$MESHNET" discover --check "$file" --json | jq -r '.nics[].netdev' | xargs)" = ab ]
    discover_in a -o "$file" --force --skip ab,eth9
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--skip eth9: this host has no such NIC"* ]]
    discover_in a --skip ab
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--output"* ]]
}

# sparks ARG…: mesh files of two recorded DGX Sparks in one office, joined by one cable: a.yaml, b.yaml.
sparks()
{
    local n
    for n in a b; do
        recorded spark-lan-$n -o "$BATS_TEST_TMPDIR/$n.yaml" --force "$@"
        [ "$status" -eq 0 ]
    done
}

# links_of ARG…: name and ends of each link that discover shows.
links_of()
{
    run --separate-stderr "$MESHNET" discover --json "$@"
    [ "$status" -eq 0 ]
    LINKS="$(jq -r '.links[] | "\(.link) \(.a) \(.b)"' <<<"$output")"
}

@test "two Sparks in one office: both halves of the cable, and not the office" {
    local cables lan
    cables='spark-1-spark-2 spark-1/enp1s0f0np0 spark-2/enp1s0f0np0
spark-1-spark-2-2 spark-1/enP2p1s0f0np0 spark-2/enP2p1s0f0np0'
    lan='spark-1-spark-2-3 spark-1/enP7s7 spark-2/enP7s7'
    cd "$BATS_TEST_TMPDIR"
    sparks
    [[ "$output" == *"enP7s7: management network, no cable"*"the default route by 192.0.2.1, 1 beside 200 Gb/s, 3 other hosts in its subnet, a leased address"* ]]
    [[ "$output" == *"--take enP7s7"*"wlP9s9: management network, no cable"*"wireless"* ]]
    links_of --merge a.yaml b.yaml
    diff <(echo "$cables") <(echo "$LINKS")
    [ "$(jq -r '[.nics[] | select(.role == "management") | .node + "/" + .nic] | join(" ")' <<<"$output")" = \
        'spark-1/enP7s7 spark-1/wlP9s9 spark-2/enP7s7 spark-2/wlP9s9' ]
    # The file is one that can be read, and keeps them for what is no data.
    run "$MESHNET" discover -o mesh.yaml --merge a.yaml b.yaml
    [ "$(grep -c 'role: management' mesh.yaml)" -eq 4 ]
    run "$MESHNET" discover --check mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"For management, no cables: spark-1/enP7s7 spark-1/wlP9s9 spark-2/enP7s7 spark-2/wlP9s9"* ]]
    # Taken in from files, from the hosts, and from one host's file.
    links_of --take enP7s7 --merge a.yaml b.yaml
    diff <(sort <<<"$cables"$'\n'"$lan") <(sort <<<"$LINKS")
    links_of --take spark-1/enP7s7 --merge a.yaml b.yaml
    [ "$(wc -l <<<"$LINKS")" -eq 2 ]
    links_of --take spark-1/enP7s7,spark-2/enP7s7 --merge a.yaml b.yaml
    [ "$(wc -l <<<"$LINKS")" -eq 3 ]
    sparks --take enP7s7
    links_of --merge a.yaml b.yaml
    [ "$(wc -l <<<"$LINKS")" -eq 3 ]
    [[ "$LINKS" == *"spark-1/enP7s7 spark-2/enP7s7"* ]]
    grep -q 'role: cable' a.yaml
    run --separate-stderr "$MESHNET" discover --take enp9 --merge a.yaml b.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--take enp9: no file has such a NIC"* ]]
}

@test "an old mesh with the office in it loses it, and the cables' names have no gap" {
    cd "$BATS_TEST_TMPDIR"
    sparks --take enP7s7 --skip wlP9s9
    "$MESHNET" discover -o mesh.yaml --merge a.yaml b.yaml
    sed -i '/role: cable/d' mesh.yaml
    links_of --check mesh.yaml
    [[ "$LINKS" == "spark-1-spark-2 spark-1/enP7s7 "*"spark-1-spark-2-3 "* ]]
    recorded spark-lan-a -o mesh.yaml --merge
    [ "$status" -eq 0 ]
    links_of --check mesh.yaml
    [ "$(awk '{ print $1 }' <<<"$LINKS" | xargs)" = 'spark-1-spark-2 spark-1-spark-2-2' ]
    # What the owner writes into the file stays.
    sed -i '0,/role: management/s//role: cable/' mesh.yaml
    recorded spark-lan-a -o mesh.yaml --merge
    [[ "$output" != *"enP7s7: management"* ]]
    recorded spark-lan-b -o mesh.yaml --merge --take enP7s7
    links_of --check mesh.yaml
    [ "$(wc -l <<<"$LINKS")" -eq 3 ]
}

@test "routes, neighbours and leases of this host tell a network from a cable" {
    needs_namespaces
    local file="$BATS_TEST_TMPDIR/mesh.yaml" i
    new_ns a
    new_ns b
    for i in office lease busy cable; do
        cable a $i - b p$i -
    done
    ip -n "$NS-a" address add 192.0.2.7/24 dev office
    ip -n "$NS-a" route add default via 192.0.2.1
    ip -n "$NS-a" address add 198.51.100.7/24 dev lease valid_lft 3600 preferred_lft 3600
    ip -n "$NS-a" address add 203.0.113.7/24 dev busy
    ip -n "$NS-a" address add 10.9.0.1/24 dev cable
    for i in 1 2; do
        ip -n "$NS-a" neighbour add 203.0.113.$i lladdr 02:00:00:00:00:0$i dev busy
        ip -n "$NS-a" neighbour add 10.9.0.1$i lladdr 02:00:00:00:00:01 dev cable
    done
    discover_in a --json -o "$file"
    [ "$status" -eq 0 ]
    [ "$(jq -r '.roles[] | .nic + " " + .role + ": " + .why' <<<"$output")" = \
        'office management: the default route by 192.0.2.1
lease management: a leased address
busy management: 2 other hosts in its subnet' ]
    # With --skip nothing else is left: it has to do, and is said.
    discover_in a --json -o "$file" --force --skip cable,lease,busy
    [ "$(jq -r '.roles[] | .role + ": " + .why' <<<"$output")" = \
        'cable: the default route by 192.0.2.1; but there is no other network' ]
    run ! grep role "$file"
    discover_in a -o "$file" --force --take lo
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--take lo: no cable can be told from it"* ]]
}

# in_force: the mesh file of two recorded Sparks, in force.
in_force()
{
    cd "$BATS_TEST_TMPDIR"
    sparks
    "$MESHNET" discover -o mesh.yaml --merge a.yaml b.yaml >/dev/null
    export MESHNET_CONFIG=mesh.yaml
}

@test "the host is set against the mesh file in force: what differs, and on which line" {
    local line
    in_force
    recorded spark-lan-a
    [ "$status" -eq 0 ]
    [[ "$output" != *file-* ]]
    [[ "$output" != *"  file  "* ]]
    line=$(grep -n 'netdev: enp1s0f0np0' mesh.yaml | head -n 1 | cut -d : -f 1)
    sed -i -e '0,/10.10.1.1\/24/s//10.10.1.9\/24/' -e '0,/address: 10.10.1.1/s//address: 10.10.1.9/' \
        -e '0,/speed: 200000/s//speed: 400000/' -e '0,/mtu: 9000/s//mtu: 4200/' \
        -e '0,/device: roceP2p1s0f0/s//device: mlx5_7/' mesh.yaml
    recorded spark-lan-a
    [ "$status" -eq 1 ]
    [[ "$output" == *"error: enp1s0f0np0: address of the mesh file missing"* ]]
    [[ "$output" == *"  seen      10.10.1.1/24"*"  expected  10.10.1.9/24"*"  file      mesh.yaml:$line"*"  fix       ip address add 10.10.1.9/24 dev enp1s0f0np0"* ]]
    # What text says, JSON says: and the exit status.
    recorded spark-lan-a --json
    [ "$status" -eq 1 ]
    [ "$(jq -r '.findings[] | select(.file) | "\(.id) \(.severity) \(.nic) \(.file)"' <<<"$output")" = \
        "file-address error enp1s0f0np0 mesh.yaml:$line
file-device error enP2p1s0f0np0 mesh.yaml:$((line + 8))
file-mtu warning enp1s0f0np0 mesh.yaml:$line
file-speed warning enp1s0f0np0 mesh.yaml:$line" ]
    recorded spark-lan-a --format csv
    [ "$status" -eq 1 ]
    # A recorded host is no node of the file that happens to be in force here.
    mkdir -p "$XDG_CONFIG_HOME/meshnet"
    mv mesh.yaml "$XDG_CONFIG_HOME/meshnet/"
    unset MESHNET_CONFIG
    recorded spark-lan-a
    rm -r "$XDG_CONFIG_HOME"
    [ "$status" -eq 0 ]
    [[ "$output" != *"spark-2"* ]]
}

@test "a NIC that went, came, or lost its address is told by the file, live, with the way back" {
    needs_namespaces
    local fix
    new_ns a
    new_ns b
    cable a ab 10.9.0.1/30 b ba 10.9.0.2/30
    cable a ab2 10.9.1.1/30 b ba2 10.9.1.2/30
    cd "$BATS_TEST_TMPDIR"
    discover_in a -o mesh.yaml --node a
    discover_in b -o mesh.yaml --merge --node b
    export MESHNET_CONFIG=mesh.yaml
    MESHNET_NODE=a discover_in a
    [ "$status" -eq 0 ]
    [[ "$output" == *"No findings."*NEIGHBOUR*STATE* ]]
    grep -Eq '^b +a-b +ab +up +10.9.0.1/30' <<<"$output"
    ip -n "$NS-b" link set ba2 down
    MESHNET_NODE=a discover_in a
    grep -Eq '^b +a-b-2 +ab2 +no link +' <<<"$output"
    ip -n "$NS-b" link set ba2 up
    # Without its address, and with a second cable that the file does not have.
    ip -n "$NS-a" address flush dev ab
    cable a ab3 10.9.2.1/30 b ba3 10.9.2.2/30
    MESHNET_NODE=a discover_in a --json
    [ "$status" -eq 1 ]
    [ "$(jq -r '.findings[] | .id + " " + .nic' <<<"$output")" = 'file-address ab
file-nic-extra ab3' ]
    fix="$(jq -r '.findings[0].fix' <<<"$output")"
    ip netns exec "$NS-a" sh -c "$fix"
    ip -n "$NS-a" link del ab3
    MESHNET_NODE=a discover_in a
    [[ "$output" == *"No findings."* ]]
    ip -n "$NS-a" link del ab2
    MESHNET_NODE=a discover_in a --json
    [ "$status" -eq 1 ]
    [ "$(jq -r '.findings[] | .id + " " + .nic + " " + .file' <<<"$output")" = \
        "file-nic-missing ab2 mesh.yaml:$(grep -n 'netdev: ab2' mesh.yaml | cut -d : -f 1)" ]
    [ "$(jq -r '[.neighbours[].state] | join(", ")' <<<"$output")" = 'up, not here' ]
}

@test "an address inside another cable's /31 is an error, in text and in JSON" {
    needs_namespaces
    new_ns a
    new_ns b
    cable a x0 10.9.0.0/31 b y0 10.9.0.1/31
    cable a x1 10.9.1.0/31 b y1 10.9.1.1/31
    ip -n "$NS-a" address add 10.9.0.1/32 dev x1
    discover_in a
    [ "$status" -eq 1 ]
    [[ "$output" == *"error: x1: an address from a cable's subnet of two"*"10.9.0.1/32 is the peer's in the subnet of x0 (10.9.0.0/31)"* ]]
    discover_in a --json
    [ "$status" -eq 1 ]
    [ "$(finding_ids)" = "peer-address " ]
    ip netns exec "$NS-a" sh -c "$(jq -r '.findings[0].fix' <<<"$output")"
    discover_in a --strict
    [ "$status" -eq 0 ]
}

@test "a folder that cannot be written is named and left clean" {
    run --separate-stderr "$MESHNET" discover -o "$BATS_TEST_TMPDIR/missing/mesh.yaml"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"$BATS_TEST_TMPDIR/missing"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/missing" ]
    run --separate-stderr "$MESHNET" discover -o /proc/mesh.yaml
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"/proc"* ]]
    mkdir -p "$BATS_TEST_TMPDIR/w/mesh.yaml"
    run --separate-stderr "$MESHNET" discover --force -o "$BATS_TEST_TMPDIR/w/mesh.yaml"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"mesh.yaml is no file"* ]]
    [ "$(ls -A "$BATS_TEST_TMPDIR/w")" = mesh.yaml ]
}

@test "every bad mesh file gives one message with line and column, exit 2" {
    cd "$BATS_TEST_TMPDIR"
    # A child's loop without "run": there are many, and here each command is traced.
    run bash -c '
        seen=0
        for file; do
            status=0
            said=$("$0" discover --check "$file" 2>&1 >out) || status=$?
            [ $status -eq 2 ] || { echo "$file: exit $status"; exit 1; }
            [ ! -s out ] || { echo "$file: output $(<out)"; exit 1; }
            [[ $said =~ ^"meshnet discover: $file:"[0-9]+:[0-9]+": "[^[:cntrl:]]*$ ]] || { echo "$file: $said"; exit 1; }
            seen=$((seen + 1))
        done
        echo $seen' "$MESHNET" "$FIXTURES"/mesh/bad/*
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" -ge 40 ]
}

@test "every good mesh file is shown" {
    local file seen=0
    for file in "$FIXTURES"/mesh/good/*; do
        run --separate-stderr "$MESHNET" discover --check "$file"
        [ "$status" -eq 0 ] || { echo "$file: $stderr"; false; }
        [[ "$output" == *Shape* ]]
        run --separate-stderr "$MESHNET" discover --check "$file" --json
        jq -e '.shape and (.nodes | length > 0)' <<<"$output"
        seen=$((seen + 1))
    done
    [ "$seen" -ge 1 ]
}

@test "--check holds every NIC as the file has it" {
    run --separate-stderr "$MESHNET" discover --json \
        --check "$BATS_TEST_DIRNAME/../configs/pair-two-links.yaml"
    jq -e '.nics | length == 4 and .[3] == {node: "spark-b", nic: "enP2p1s0f0np0",
        netdev: "enP2p1s0f0np0", device: "roceP2p1s0f0", port: 1, addresses: "10.0.2.2/24",
        mac: null, mbps: 200000, mtu: 9000, group: "port0", role: "cable"}' <<<"$output"
    printf '%s\n' 'version: 1' 'nodes:' '  - name: a' '    nics:' \
        '      - {netdev: x, mac: "02:00:00:AA:00:01", addresses: [10.0.1.1/31, "fd00::1/64"]}' \
        >"$BATS_TEST_TMPDIR/one.yaml"
    run --separate-stderr "$MESHNET" discover --json --check "$BATS_TEST_TMPDIR/one.yaml"
    jq -e '.nics == [{node: "a", nic: "x", netdev: "x", device: null, port: null,
        addresses: "10.0.1.1/31 fd00::1/64", mac: "02:00:00:aa:00:01", mbps: null, mtu: null,
        group: null, role: "cable"}]' <<<"$output"
}

@test "no colour in a pipe, nor on a terminal with NO_COLOR" {
    run --separate-stderr "$MESHNET" discover
    [[ "$output" != *$'\e['* ]]
    command -v script >/dev/null || skip "script(1) is missing"
    needs_namespaces
    new_ns a
    new_ns b
    cable a x0 10.9.0.1/30 b y0 10.9.0.2/30
    run env TERM=xterm ip netns exec "$NS-a" script -qec "$MESHNET discover" /dev/null
    [[ "$output" == *$'\e['* ]]
    run env TERM=xterm NO_COLOR=1 ip netns exec "$NS-a" script -qec "$MESHNET discover" /dev/null
    [[ "$output" != *$'\e['* ]]
}

@test "a closed or full standard output is an error" {
    run --separate-stderr bash -c '"$1" discover >&-' _ "$MESHNET"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"standard output"* ]]
    run --separate-stderr bash -c '"$1" discover --json >/dev/full' _ "$MESHNET"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"standard output"* ]]
}

@test "wrong usage is explained, exit 2" {
    local args
    while read -r args; do
        # shellcheck disable=SC2086
        run --separate-stderr "$MESHNET" discover $args
        [ "$status" -eq 2 ] || { echo "$args: exit $status"; false; }
        [ -z "$output" ]
        [ -n "$stderr" ]
    done <<'ARGS'
stray.yaml
--merge
--netlink /dev/null
--sysfs /sys
--node a
--check a.yaml -o b.yaml
--check a.yaml --merge
--formt json
--format xml
--check /nonexistent/mesh.yaml
--merge a.yaml -o mesh.yaml
--take eth0
--skip eth0 --merge a.yaml b.yaml
--json --format csv
--port 1
ARGS
    for args in "--wait 1s" --up --lldp "--survey x" "--save-survey x" "--key-file x"; do
        for hosts in "" "--hosts b"; do
            # shellcheck disable=SC2086
            run "$MESHNET" discover $args $hosts
            [ "$status" -eq 2 ]
            [[ "$output" == *": ${args% *} is for --neighbors: add it" ]]
        done
    done
    # Nothing of a path is cut off.
    run --separate-stderr "$MESHNET" discover -o "$(printf '%0600d' 0 | sed 's/0000/000\//g')mesh.yaml"
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ "$stderr" == *"--output: a path of 609 bytes; expected at most 511"* ]]
}

@test "a broken mesh file in force is named" {
    printf 'version: 1\nnodez: []\n' >"$BATS_TEST_TMPDIR/mesh.yaml"
    MESHNET_CONFIG="$BATS_TEST_TMPDIR/mesh.yaml" run --separate-stderr "$MESHNET" discover
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"mesh.yaml:2:1: "* ]]
}

@test "discover: with too few descriptors it says what it did not read, and exits 1" {
    local few='exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 6; exec "$@"'
    local from="$FIXTURES/hgx-h100" gids
    gids=$("$MESHNET" discover --sysfs "$from/sys" --netlink "$from/netlink.json" --json |
        jq '.missing, ([.. | .gids? // empty | length] | add)')
    [[ "$gids" == null$'\n'* ]]
    run --separate-stderr bash -c "$few" - "$MESHNET" discover --sysfs "$from/sys" \
        --netlink "$from/netlink.json"
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 1 ]
    [[ "$output" == *"NOT READ: "*infiniband*": Too many open files"* ]]
    [[ "$stderr" == *"could not be read whole: "*"Too many open files"*"ulimit -n"* ]]
    run --separate-stderr bash -c "$few" - "$MESHNET" discover --sysfs "$from/sys" \
        --netlink "$from/netlink.json" --json
    [ "$status" -eq 1 ]
    [[ "$(jq -r .missing <<<"$output")" == *": Too many open files"* ]]
    run --separate-stderr bash -c "$few" - "$MESHNET" discover --sysfs "$from/sys" \
        --netlink "$from/netlink.json" -o "$BATS_TEST_TMPDIR/never.yaml"
    [ "$status" -eq 1 ]
    [ ! -e "$BATS_TEST_TMPDIR/never.yaml" ]
}
