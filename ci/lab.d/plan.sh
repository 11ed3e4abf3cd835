# From a mesh file to the tables of a lab (see vm.sh). Sourced by ci/lab.

NODES_MAX=8
NICS_MAX=20

# read_mesh FILE: as JSON, by the reader that everything else uses; its complaint is ours.
read_mesh()
{
    local meshnet=${MESHNET_BUILD:-$TOP/build/release}/bin/meshnet
    if [ -z "${MESHNET_BUILD-}" ] && [ ! -x "$meshnet" ]; then
        need_packages build >&2
        say "Building into build/release" >&2
        build_preset release -DMESHNET_TESTS=OFF >&2 </dev/null || die "the build failed"
    fi
    (cd "$CALLER" && timeout 20 "$meshnet" discover --check "$1" --json) || exit
}

# plan FILE: fills $LAB.
plan()
{
    local json
    json=$(read_mesh "$1") || exit
    jq -e .nics >/dev/null <<<"$json" || die "meshnet is older than this script: build it again"
    printf '%s\n' "$json" >"$LAB/mesh.json"
    cp "$(cd "$CALLER" && realpath "$1")" "$LAB/mesh.yaml" || die "cannot copy $1"
    jq -r '.nodes | to_entries[] | [.key + 1, .value.node, .value.hostname] | @tsv' \
        <<<"$json" >"$LAB/nodes"
    jq -r '.links | to_entries[] | [.key + 1, .value.link] | @tsv' <<<"$json" >"$LAB/links"
    jq -r --arg mtu "$MTU" '
        def hex: . as $n | "0123456789abcdef" |
            .[($n / 16 | floor):($n / 16 | floor) + 1] + .[$n % 16:$n % 16 + 1];
        . as $mesh | [.nodes[].node] as $names |
        $mesh.nodes | to_entries[] | .key as $i | .value.node as $node |
        [$mesh.nics[] | select(.node == $node)] | . as $nics | to_entries[] |
        .key as $k | .value as $nic | "\($node)/\($nic.nic)" as $here |
        [$mesh.links | to_entries[] | select(.value.a == $here or .value.b == $here)][0] as $link |
        [$i + 1, $k + 1, $nic.netdev,
         (if $nic.device and $nic.port == 1 then $nic.device
          else "rxe_" + $nic.netdev end),
         ($nic.mac // "52:54:00:4d:\($i + 1 | hex):\($k + 1 | hex)"),
         ($nic.mtu // $mtu), ($nic.mbps // "-"), (if $link then $link.key + 1 else 0 end),
         (if $link == null then "-" elif $link.value.a == $here then "a" else "b" end),
         ($nic.addresses // "-")] | @tsv' <<<"$json" >"$LAB/nics" || die "cannot read the JSON"
    check_plan "$1"
    jq -r '.nics[] | select((.port // 1) > 1) |
        "lab: \(.node)/\(.nic): soft-RoCE has one port a device: \(.device) port \(.port) is " +
        "named rxe_\(.netdev) here"' <<<"$json" >&2
    {
        echo '127.0.0.1	localhost'
        echo '::1	localhost'
        awk -F '\t' -v net="$MANAGEMENT" '{
            print net "." $1 "\t" $2 ($2 == $3 ? "" : " " $3) }' "$LAB/nodes"
    } >"$LAB/hosts"
}

# What a mesh file may say and these machines cannot be.
check_plan()
{
    local node name hostname of nic netdev device mac mtu mbps link side addresses
    local word='^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$'
    [ "$(wc -l <"$LAB/nodes")" -le $NODES_MAX ] ||
        die "$1: $(wc -l <"$LAB/nodes") nodes; the lab has at most $NODES_MAX"
    while IFS=$'\t' read -r node name hostname; do
        [[ $name =~ $word && $hostname =~ $word ]] ||
            die "$1: node \"$name\" (host \"$hostname\"): the lab takes names of letters, digits," \
                "dot, dash and underscore"
        while IFS=$'\t' read -r of nic netdev device mac mtu mbps link side addresses; do
            [ "$of" = "$node" ] || continue
            [ "$nic" -le $NICS_MAX ] || die "$1: node $name: the lab has at most $NICS_MAX NICs"
            [[ $netdev != mgmt && $netdev != lo && ! $netdev =~ ^lab[0-9]+$ ]] ||
                die "$1: $name/$netdev: the lab uses this name itself"
            [[ " $addresses" != *" $MANAGEMENT."* ]] ||
                die "$1: $name/$netdev: $MANAGEMENT.0/24 is the lab's management network"
            [[ ${#device} -lt 64 && $device =~ $word && $netdev =~ $word ]] ||
                die "$1: $name/$netdev (RDMA device \"$device\"): the lab takes names of letters," \
                    "digits, dot, dash and underscore"
        done <"$LAB/nics"
    done <"$LAB/nodes"
}
