# Nodes as network namespaces $NS-NODE with cables between them, for the tests that load this.

# cable NODE NIC ADDRESS NODE NIC ADDRESS
cable()
{
    ip link add "$2" netns "$NS-$1" type veth peer name "$5" netns "$NS-$4"
    ip -n "$NS-$1" addr add "$3" dev "$2"
    ip -n "$NS-$4" addr add "$6" dev "$5"
    ip -n "$NS-$1" link set "$2" up
    ip -n "$NS-$4" link set "$5" up
}

# managed PREFIX NODE…: namespaces whose NIC "mgmt", PREFIX.1/24 and on, is at a bridge that they share.
managed()
{
    local prefix=$1 i=0 node
    shift
    ip netns add "$NS-m"
    ip -n "$NS-m" link add br0 type bridge
    ip -n "$NS-m" link set br0 up
    for node; do
        i=$((i + 1))
        managed_node "$node" "$prefix.$i/24"
    done
}

# managed_node NODE ADDRESS: one more.
managed_node()
{
    ip netns add "$NS-$1"
    ip -n "$NS-$1" link set lo up
    ip link add mgmt netns "$NS-$1" type veth peer name "p$1" netns "$NS-m"
    ip -n "$NS-m" link set "p$1" master br0 up
    ip -n "$NS-$1" addr add "$2" dev mgmt
    ip -n "$NS-$1" link set mgmt up
}

# lossy NODE NIC PERCENT: of what comes in there so much is lost; by netem where the kernel has it,
# which then is on what goes out.
lossy()
{
    local some="numgen random mod 100 < $3"
    [ "$3" -lt 100 ] || some=''
    tc -n "$NS-$1" qdisc add dev "$2" root netem loss "$3%" 2>/dev/null || on "$1" nft -f - <<-END
	table netdev lossy {
	  chain $2 {
	    type filter hook ingress device "$2" priority 0;
	    $some drop
	  }
	}
	END
}

on()
{
    local node=$1
    shift
    nsenter --net=/run/netns/$NS-"$node" "$@"
}

# serve NODE OPTION…: in the background, returns when it listens.
serve()
{
    local node=$1
    shift
    start_server serve.out serve.err nsenter --net=/run/netns/$NS-"$node" \
        timeout -k 1 120 "$MESHNET" serve --token-file token "$@"
}

# ssh_to NODE ADDRESS…: makes MESHNET_SSH an ssh that finds the nodes there; see sshd_at.
ssh_to()
{
    ssh-keygen -q -t ed25519 -N '' -f key
    cat >ssh_config <<-END
	Host *
	  Port 2222
	  IdentityFile $PWD/key
	  StrictHostKeyChecking no
	  UserKnownHostsFile /dev/null
	  LogLevel ERROR
	END
    while [ $# -gt 0 ]; do
        printf 'Host %s\n  HostName %s\n' "$1" "$2" >>ssh_config
        shift 2
    done
    printf '#!/bin/sh\nexec ssh -F %s "$@"\n' "$PWD/ssh_config" >ssh
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
}

# sshd_at NODE: a server in the node's namespace that lets this test in.
sshd_at()
{
    cat >"sshd.$1" <<-END
	Port 2222
	HostKey $PWD/key
	AuthorizedKeysFile $PWD/key.pub
	StrictModes no
	UsePAM no
	PidFile $PWD/sshd.$1.pid
	SetEnv MESHNET_NODE=$1
	END
    mkdir -p /run/sshd
    on "$1" /usr/sbin/sshd -f "$PWD/sshd.$1" 3>&-
}

# shape_of ring|line|star NODES: namespaces n0, n1, … with a management network (of managed) and such
# cables, the mesh file in shape.yaml.
shape_of()
{
    local shape=$1 n=$2 i from to
    declare -A nics=()
    for ((i = 0; i < n; i++)); do
        managed_node n$i 10.9.2.$((i + 1))/24
        nics[$i]="      - {netdev: mgmt, addresses: [10.9.2.$((i + 1))/24], role: management}"$'\n'
    done
    for ((i = 0; i < n; i++)); do
        case $shape in
            ring) from=$i to=$(((i + 1) % n)) ;;
            line) from=$i to=$((i + 1)) ;;
            star) from=0 to=$((i + 1)) ;;
        esac
        [ $to -lt $n ] || continue
        cable n$from l${i}a 10.3.$i.0/31 n$to l${i}b 10.3.$i.1/31
        nics[$from]+="      - {netdev: l${i}a, addresses: [10.3.$i.0/31]}"$'\n'
        nics[$to]+="      - {netdev: l${i}b, addresses: [10.3.$i.1/31]}"$'\n'
    done
    printf 'version: 1\nnodes:\n' >shape.yaml
    for ((i = 0; i < n; i++)); do
        printf '  - name: n%s\n    nics:\n%s' "$i" "${nics[$i]}" >>shape.yaml
    done
}

# devices_of NODE: its cables' as the double of libibverbs wants them.
devices_of()
{
    ip -n "$NS-$1" -j addr show | jq -r '[.[] | select(.ifname | startswith("l") and . != "lo") |
        "dev=r\(.ifname):\(.ifname):\(.addr_info[0].local)"] | join(",")'
}

# like_nccl RANKS: a rank in each, which connects as NCCL does. What they say is in pairs.N.
like_nccl()
{
    local n=$1 i pids=() failed=0
    for ((i = 0; i < n; i++)); do
        on n$i env MESHNET_NODE=n$i MESHNET_CONFIG="$PWD/shape.yaml" \
            FAKEVERBS="shm=$PWD/fabric,$(devices_of n$i)" timeout -k 1 120 "$BUILD/tests/nccl_pairs" \
            "$BUILD/lib/libnccl-net-mesh.so" $i $n 10.9.2.1 18660 >pairs.$i 2>&1 &
        pids+=($!)
    done
    for ((i = 0; i < n; i++)); do
        wait "${pids[i]}" || failed=$?
        cat pairs.$i
        [ "$(grep -c '^rank' pairs.$i)" -eq 10 ] || failed=1
    done
    return $failed
}

# no_shape NODES: takes them down.
no_shape()
{
    local i
    rm -f fabric*
    for ((i = 0; i < $1; i++)); do
        ip -n $NS-m link del pn$i
        ip netns del $NS-n$i
    done
}
