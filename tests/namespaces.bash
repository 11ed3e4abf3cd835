# Nodes as network namespaces $NS-NODE with cables between them, for the tests that load this.

# cable NODE NIC ADDRESS NODE NIC ADDRESS
cable()
{
    ip -n "$NS-$1" -batch - <<-END && ip -n "$NS-$4" -batch - <<-END
	link add $2 type veth peer name $5 netns $NS-$4
	addr add $3 dev $2
	link set $2 up
	END
	addr add $6 dev $5
	link set $5 up
	END
}

# nap SECONDS: without a process of its own, of which a loop that waits would start thousands. ci/soak and
# ci/bench sleep so, too, in a temporary folder.
nap()
{
    local fifo=${BATS_TEST_TMPDIR:-$PWD}/nap

    # Subshells beside each other share the folder: one of them makes it.
    [ -p "$fifo" ] || mkfifo "$fifo" 2>/dev/null || [ -p "$fifo" ]
    read -rt "$1" <>"$fifo" || true
}

# heard: what both ends of a stream have said in the files received and sent, into HEARD, a
# newline before and after each line, and the count of messages that have come, into COUNT. No process is
# started for it: who waits asks often.
heard()
{
    local here=() there=() IFS=$'\n'
    { mapfile -t here <received && mapfile -t there <sent; } 2>/dev/null || true
    HEARD=$'\n'"${here[*]}"$'\n'
    COUNT=''
    [[ ! $HEARD =~ .*$'\n'([0-9]+)$'\n' ]] || COUNT=${BASH_REMATCH[1]}
    HEARD+=$'\n'"${there[*]}"$'\n'
}

# managed PREFIX NODE…: namespaces whose NIC "mgmt", PREFIX.1/24 and on, is at a bridge that they share.
managed()
{
    local prefix=$1 i=0 node
    shift
    ip netns add "$NS-m"
    printf 'link add br0 type bridge\nlink set br0 up\n' | ip -n "$NS-m" -batch -
    for node; do
        i=$((i + 1))
        managed_node "$node" "$prefix.$i/24"
    done
}

# managed_node NODE ADDRESS: one more.
managed_node()
{
    ip netns add "$NS-$1"
    ip -n "$NS-$1" -batch - <<-END
	link set lo up
	link add mgmt type veth peer name p$1 netns $NS-m
	addr add $2 dev mgmt
	link set mgmt up
	END
    ip -n "$NS-m" link set "p$1" master br0 up
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

# sshd_at NODE: a server in the node's namespace that lets this test in; returns when it listens, which is
# before its file is there. Its shells read no file of whoever
# runs the tests: some start programs for seconds, and one after another.
sshd_at()
{
    cat >"sshd.$1" <<-END
	Port 2222
	HostKey $PWD/key
	AuthorizedKeysFile $PWD/key.pub
	StrictModes no
	UsePAM no
	PidFile $PWD/sshd.$1.pid
	SetEnv MESHNET_NODE=$1 HOME=$PWD
	END
    mkdir -p /run/sshd
    on "$1" /usr/sbin/sshd -f "$PWD/sshd.$1" 3>&-
    for _ in $(seq 300); do
        [ ! -s "sshd.$1.pid" ] || return 0
        sleep 0.1
    done
    return 1
}

# shape_of ring|line|star NODES: namespaces n0, n1, … with a management network (of managed) and such
# cables, the mesh file in shape.yaml. One ip for each namespace: for each NIC they would be hundreds.
shape_of()
{
    local shape=$1 n=$2 i from to all='' bridge=''
    declare -A nics=() node=()
    for ((i = 0; i < n; i++)); do
        all+="netns add $NS-n$i"$'\n'
        bridge+="link set pn$i master br0 up"$'\n'
        node[$i]="link set lo up"$'\n'"addr add 10.9.2.$((i + 1))/24 dev mgmt"$'\n'"link set mgmt up"$'\n'
        nics[$i]="      - {netdev: mgmt, addresses: [10.9.2.$((i + 1))/24], role: management}"$'\n'
    done
    for ((i = 0; i < n; i++)); do
        all+="link add mgmt netns $NS-n$i type veth peer name pn$i netns $NS-m"$'\n'
        case $shape in
            ring) from=$i to=$(((i + 1) % n)) ;;
            line) from=$i to=$((i + 1)) ;;
            star) from=0 to=$((i + 1)) ;;
        esac
        [ $to -lt $n ] || continue
        all+="link add l${i}a netns $NS-n$from type veth peer name l${i}b netns $NS-n$to"$'\n'
        node[$from]+="addr add 10.3.$i.0/31 dev l${i}a"$'\n'"link set l${i}a up"$'\n'
        node[$to]+="addr add 10.3.$i.1/31 dev l${i}b"$'\n'"link set l${i}b up"$'\n'
        nics[$from]+="      - {netdev: l${i}a, addresses: [10.3.$i.0/31]}"$'\n'
        nics[$to]+="      - {netdev: l${i}b, addresses: [10.3.$i.1/31]}"$'\n'
    done
    ip -batch - <<<"$all" && ip -n "$NS-m" -batch - <<<"$bridge" || return
    printf 'version: 1\nnodes:\n' >shape.yaml
    for ((i = 0; i < n; i++)); do
        ip -n "$NS-n$i" -batch - <<<"${node[$i]}" || return
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
        printf 'link del pn%s\n' $i
    done | ip -n $NS-m -batch -
    for ((i = 0; i < $1; i++)); do
        printf 'netns del %s\n' $NS-n$i
    done | ip -batch -
}
