# For ci/gpu-check, which sources this: four ranks in four network namespaces, cabled as a ring, with a
# management network beside the cables, which comes last as on a host whose ports are on the board.
# Opposite nodes have no cable, no route leads to them, and nobody forwards. What cable.sh uses, too:
# nodes, cables, ranks.

RING_NODES=''
RING_NS=mngpu$$
RING_PIDS=()
RING_RELAYS=()

# ring_cable NODE NIC ADDRESS NODE NIC ADDRESS
ring_cable()
{
    ip link add "$2" netns "$RING_NS-$1" type veth peer name "$5" netns "$RING_NS-$4" &&
        ip -n "$RING_NS-$1" addr add "$3" dev "$2" && ip -n "$RING_NS-$4" addr add "$6" dev "$5" &&
        ip -n "$RING_NS-$1" link set "$2" up && ip -n "$RING_NS-$4" link set "$5" up
}

# ring_nodes NODE…: their namespaces. 77 when this user may make none.
ring_nodes()
{
    local node
    RING_NODES=$*
    for node in $RING_NODES m; do
        ip netns add "$RING_NS-$node" || return 77
        ip -n "$RING_NS-$node" link set lo up || return 1
    done
}

# ring_management: their network beside the cables, which are there already.
ring_management()
{
    local node n=0
    ip -n "$RING_NS-m" link add br0 type bridge &&
        ip -n "$RING_NS-m" link set br0 up || return 1
    for node in $RING_NODES; do
        n=$((n + 1))
        ip link add mgmt netns "$RING_NS-$node" type veth peer name "p$node" netns "$RING_NS-m" &&
            ip -n "$RING_NS-m" link set "p$node" master br0 up &&
            ip -n "$RING_NS-$node" addr add "10.217.9.$n/24" dev mgmt &&
            ip -n "$RING_NS-$node" link set mgmt up || return 1
    done
}

# ring_up: the ring and its mesh file, $WORK/mesh.yaml.
ring_up()
{
    ring_nodes a b c d || return
    ring_cable a ab 10.217.1.0/31 b ba 10.217.1.1/31 &&
        ring_cable b bc 10.217.2.0/31 c cb 10.217.2.1/31 &&
        ring_cable c cd 10.217.3.0/31 d dc 10.217.3.1/31 &&
        ring_cable d da 10.217.4.0/31 a ax 10.217.4.1/31 &&
        ring_management || return 1
    cat >"$WORK/mesh.yaml" <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: ab, addresses: [10.217.1.0/31]}
	      - {netdev: ax, addresses: [10.217.4.1/31]}
	      - {netdev: mgmt, addresses: [10.217.9.1/24], role: management}
	  - name: b
	    nics:
	      - {netdev: ba, addresses: [10.217.1.1/31]}
	      - {netdev: bc, addresses: [10.217.2.0/31]}
	      - {netdev: mgmt, addresses: [10.217.9.2/24], role: management}
	  - name: c
	    nics:
	      - {netdev: cb, addresses: [10.217.2.1/31]}
	      - {netdev: cd, addresses: [10.217.3.0/31]}
	      - {netdev: mgmt, addresses: [10.217.9.3/24], role: management}
	  - name: d
	    nics:
	      - {netdev: dc, addresses: [10.217.3.1/31]}
	      - {netdev: da, addresses: [10.217.4.0/31]}
	      - {netdev: mgmt, addresses: [10.217.9.4/24], role: management}
	END
}

ring_down()
{
    local node
    if [ ${#RING_PIDS[@]} -gt 0 ] || [ ${#RING_RELAYS[@]} -gt 0 ]; then
        kill "${RING_PIDS[@]}" "${RING_RELAYS[@]}" 2>/dev/null
        wait "${RING_PIDS[@]}" "${RING_RELAYS[@]}" 2>/dev/null
        RING_PIDS=() RING_RELAYS=()
    fi
    for node in $RING_NODES; do
        ip -n "$RING_NS-m" link del "p$node" 2>/dev/null
    done
    for node in $RING_NODES m; do
        ip netns del "$RING_NS-$node" 2>/dev/null
    done
}

# ring_variables NODE: what meshnet env says there, to be evaluated.
ring_variables()
{
    nsenter --net="/run/netns/$RING_NS-$1" env NCCL_DEBUG=INFO \
        "$BUILD/bin/meshnet" env --mesh "$WORK/mesh.yaml" --plugin "$PLUGIN" 2>"$WORK/ring.env.$1"
}

# ring_ranks NAME SECONDS VARIABLES WORD SIZE-OR-TIME: a rank on each node, told "WORD SIZE-OR-TIME FILE",
# with the variables of "meshnet env" where VARIABLES is env, else with those (none where it is empty).
# What they say is in $WORK/NAME.log.RANK. The worst of their exit codes: 124 when one was still at it
# after so long; 2 where meshnet env fails on one of them: then no rank is started.
ring_ranks()
{
    local name=$1 limit=$2 told=$3 rank=0 node code=0 one
    shift 3
    declare -A variables=()
    RING_PIDS=()
    for node in $RING_NODES; do
        if [ "$told" = env ] && ! variables[$node]=$(ring_variables $node); then
            echo "meshnet env fails on node $node:"
            cat "$WORK/ring.env.$node"
            return 2
        fi
    done
    for node in $RING_NODES; do
        (
            unset ${!NCCL_@} ${!MESHNET_@}
            if [ "$told" = env ]; then
                eval "${variables[$node]}"
            elif [ -n "$told" ]; then
                export $told
            fi
            # The nodes are of one host: each has a relayd, and a socket, of its own.
            exec env RANK=$rank WORLD_SIZE="$(wc -w <<<"$RING_NODES")" LOCAL_RANK=0 \
                MASTER_ADDR=10.217.9.1 MASTER_PORT=29517 \
                ${RING_RELAYS:+MESHNET_RELAY_SOCKET="$WORK/$node.sock"} \
                timeout -k 5 "$limit" nsenter --net="/run/netns/$RING_NS-$node" \
                python3 "$RANK" "$@" "$WORK/$name"
        ) >"$WORK/$name.log.$rank" 2>&1 &
        RING_PIDS+=($!)
        rank=$((rank + 1))
    done
    for one in "${RING_PIDS[@]}"; do
        wait "$one"
        one=$?
        # 137: it did not end when told to.
        [ $one -ne 137 ] || one=124
        [ $one -le $code ] || code=$one
    done
    RING_PIDS=()
    return $code
}

# ring_said NAME PATTERN: how many of the four said so.
ring_said()
{
    grep -lE "$2" "$WORK/$1".log.* 2>/dev/null | wc -l
}

# ring_used NAME: whether all ranks went over the plugin; says so when not.
ring_used()
{
    [ "$(ring_said "$1" '[Uu]sing network meshnet')" -eq "$(wc -w <<<"$RING_NODES")" ] && return
    echo "not every rank used meshnet"
    return 1
}

# ring_is_nccl NAME CODE: whether it ended so because of NCCL: a rank whose NCCL had begun hung, or named
# a cause of NCCL's own.
ring_is_nccl()
{
    local log
    for log in "$WORK/$1".log.*; do
        grep -q 'NCCL begins' "$log" || continue
        [ "$2" -ne 124 ] || return 0
        sed '1,/NCCL begins/d' "$log" |
            grep -qE 'NCCL WARN|nccl[A-Z][A-Za-z]*Error|Last error|[Ss]ocket.*(error|fail)' && return 0
    done
    return 1
}

# ring_tell NAME: what matters of what they said, else how it ended.
ring_tell()
{
    if ! grep -qiE 'WARN|error|refused|unreachable' "$WORK/$1".log.*; then
        tail -qn 3 "$WORK/$1".log.*
        return
    fi
    grep -hiE 'WARN|error|refused|unreachable' "$WORK/$1".log.* | cut -c 1-300 | sort | uniq -c |
        sort -rn | head -n 12
}

# ring_relays: relayd on each node; 1 when one does not answer within 10 s.
ring_relays()
{
    local node i
    (umask 077 && python3 -c 'import secrets; print(secrets.token_hex(16))' >"$WORK/key") || return 1
    echo "plugin: {key_file: $WORK/key}" >>"$WORK/mesh.yaml"
    for node in $RING_NODES; do
        ring_relayd $node >"$WORK/relayd.$node" 2>&1 &
        RING_RELAYS+=($!)
    done
    for node in $RING_NODES; do
        for ((i = 0; i < 100; i++)); do
            ! (ring_relayd $node --status >/dev/null 2>&1) || continue 2
            sleep 0.1
        done
        echo "relayd on $node does not answer:"
        cat "$WORK/relayd.$node"
        return 1
    done
}

# ring_relayd NODE OPTION…: in this process's place.
ring_relayd()
{
    local node=$1
    shift
    exec nsenter --net="/run/netns/$RING_NS-$node" env MESHNET_RELAY_SOCKET="$WORK/$node.sock" \
        "$BUILD/bin/meshnet" relayd --mesh "$WORK/mesh.yaml" "$@"
}

# ring_verdict NAME CODE LIMIT: 0 when all is right and over the plugin.
ring_verdict()
{
    local name=$1 code=$2 limit=$3 bad=0
    case $code in
    0) echo "with the plugin: it starts, and all results of $(ring_results "$name") are right" ;;
    124) echo "with the plugin: hangs: not done within $limit s" ;;
    *) echo "with the plugin: fails with $code" ;;
    esac
    [ "$code" -eq 0 ] && [ -s "$WORK/$name" ] || bad=1
    ring_used "$name" || bad=1
    [ $bad -eq 0 ] || ring_tell "$name"
    return $bad
}

# ring_made CODE: whether there is one; says why not. Nothing of it stays then.
ring_made()
{
    [ "$1" -ne 0 ] || return 0
    ring_down
    [ "$1" -eq 77 ] &&
        echo -n "it is left out, for this user may make no network namespaces here: " ||
        echo -n "it cannot be made: "
    head -n 1 "$WORK/ring.up"
    return "$1"
}

# ring LIMIT MOST: 0 when it runs with what meshnet env says, and not without.
ring()
{
    local limit=$1 most=$2 code bad=0
    say "ring of four: stock NCCL with the variables of meshnet env and no other"
    ring_up 2>"$WORK/ring.up"
    ring_made $? || return
    ring_ranks with "$limit" env run "$most"
    ring_verdict with $? "$limit" || bad=1
    grep -hoE 'peer . has no cable to this node: .*' "$WORK"/with.log.* | sort -u | head -n 4

    limit=$(((limit + 4) / 5))
    say "the same without the plugin and without any variable, for $limit s"
    ring_ranks without "$limit" '' run 64K
    code=$?
    case $code in
    0)
        echo "without the plugin: it works, so that this ring shows nothing"
        bad=1
        ;;
    124) echo "without the plugin: hangs: not done within $limit s" ;;
    *) echo "without the plugin: fails with $code" ;;
    esac
    if [ $code -ne 0 ] && ! ring_is_nccl without $code; then
        echo "without the plugin: no rank's NCCL is the cause, so that this ring shows nothing"
        bad=1
    fi
    ring_tell without
    ring_down
    return $bad
}

# relay LIMIT MOST: 0 when the ring runs with relayd on each node, and they carried what has no cable.
relay()
{
    local limit=$1 most=$2 bad=0
    say "ring of four with meshnet relayd on each node"
    ring_up 2>"$WORK/ring.up"
    ring_made $? || return
    if ring_relays; then
        ring_ranks relay "$limit" env run "$most"
        ring_verdict relay $? "$limit" || bad=1
        relay_carried || bad=1
    else
        bad=1
    fi
    ring_down
    return $bad
}

# relay_carried: what each has passed on; 1 when that is nothing.
relay_carried()
{
    local node bytes sum=0
    for node in $RING_NODES; do
        bytes=$( (ring_relayd $node --status --json) |
            python3 -c 'import json, sys; print(json.load(sys.stdin)["counts"]["bytes"])') || return 1
        echo "relayd on $node has passed on $((bytes >> 20)) MiB"
        sum=$((sum + bytes))
    done
    [ $sum -gt 0 ] || echo "nothing went over a relay"
    [ $sum -gt 0 ]
}

# ring_results NAME: "all_gather, all_reduce, …".
ring_results()
{
    python3 -c 'import json, sys
print(", ".join(sorted({row["op"] for row in json.load(open(sys.argv[1]))["rows"]})))' "$WORK/$1"
}
