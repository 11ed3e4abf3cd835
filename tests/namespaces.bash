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
    tc -n "$NS-$1" qdisc add dev "$2" root netem loss "$3%" 2>/dev/null || on "$1" nft -f - <<-END
	table netdev lossy {
	  chain $2 {
	    type filter hook ingress device "$2" priority 0;
	    numgen random mod 100 < $3 drop
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
