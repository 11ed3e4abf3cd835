#!/usr/bin/env bats
# meshnet topo apply: nodes are network namespaces with bare cables, each with a folder for its files
# (MESHNET_ROOT) and a management NIC over which the ssh of these tests has to get there.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    NS=mnap$BASHPID
    ip netns add $NS-me 2>/dev/null || skip "no network namespaces here"
    NODES=()
    cd "$BATS_TEST_TMPDIR"
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_ROOT MESHNET_TOKEN
    fake_ssh
}

teardown()
{
    local node
    # Timers that still run end themselves and undo, in namespaces that go.
    for node in me "${NODES[@]}"; do
        ip netns pids "$NS-$node" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
        ip netns delete "$NS-$node" 2>/dev/null || true
    done
}

# node NAME NUMBER: with the management NIC "mgmt", 192.0.2.NUMBER.
node()
{
    NODES+=("$1")
    ip netns add "$NS-$1"
    ip -n "$NS-$1" link set lo up
    mkdir -p "root.$1"
    ip link add mgmt netns "$NS-$1" type veth peer name "to-$1" netns "$NS-me"
    ip -n "$NS-me" addr add "198.51.100.$2/32" peer "192.0.2.$2" dev "to-$1"
    ip -n "$NS-me" link set "to-$1" up
    ip -n "$NS-$1" addr add "192.0.2.$2/32" peer "198.51.100.$2" dev mgmt
    ip -n "$NS-$1" link set mgmt up
    ip -n "$NS-$1" route add default via "198.51.100.$2"
    echo "192.0.2.$2" >"root.$1/way"
}

# bare NODE NIC MAC NODE NIC MAC: a cable without addresses, its ends down.
bare()
{
    ip link add "$2" netns "$NS-$1" address "$3" type veth peer name "$5" netns "$NS-$4" address "$6"
}

# An ssh that goes into the node's namespace, if a packet gets to its management address: the
# kernel there refuses the connection. What is in ssh.before runs first.
fake_ssh()
{
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	cd "$PWD"
	[ ! -e ssh.before ] || . ./ssh.before
	said=\$(nsenter --net=/run/netns/$NS-me timeout 2 bash -c "echo >/dev/tcp/\$(cat "root.\$2/way")/1" 2>&1)
	[[ "\$said" == *refused* ]] || { echo "no way to \$2: \$said" >&2; exit 255; }
	export MESHNET_NODE=\$2 MESHNET_ROOT=$PWD/root.\$2
	exec nsenter --net=/run/netns/$NS-\$2 sh -c "\$3"
	END
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
}

# Two nodes and a cable, addressed by mesh.yaml.
pair()
{
    node a 1
    node b 2
    bare a p0 02:00:00:00:0a:01 b p1 02:00:00:00:0b:01
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: p0, mac: "02:00:00:00:0a:01", mtu: 9000, addresses: [10.77.0.0/31, "fd77::1/64"]}
	  - name: b
	    nics:
	      - {netdev: p1, mac: "02:00:00:00:0b:01", mtu: 9000, addresses: [10.77.0.1/31, "fd77::2/64"]}
	END
}

# apply OPTION…
apply()
{
    run --separate-stderr timeout 150 "$MESHNET" topo apply --mesh mesh.yaml "$@"
    echo "$output"
    echo "$stderr"
}

# What is set of a node's NICs, without what changes by itself.
state()
{
    ip -n "$NS-$1" -j addr show | jq -c '[.[] | select(.ifname != "lo") | {ifname, mtu,
        up: (.flags | index("UP") != null),
        addrs: [.addr_info[] | select(.scope == "global") | "\(.local)/\(.prefixlen)"] | sort}]'
    ip -n "$NS-$1" route show
}

states()
{
    local node
    for node in "${NODES[@]}"; do state "$node"; done
}

@test "topo apply: a dry run shows what would change on each node, and changes nothing" {
    pair
    states >before
    apply --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"a (script)"*"p0 mtu: 1500 -> 9000"*"p0 link: down -> up"*"p0 address: + 10.77.0.0/31"* ]]
    [[ "$output" == *"b (script)"*"p1 address: + fd77::2/64"*"root.b/etc/meshnet/meshnet-ip.sh (new)"* ]]
    [[ "$output" == *"+ip address replace 10.77.0.1/31 dev 'p1'"* ]]
    [[ "$output" == *"note: nothing is known here that sets NICs up at boot"* ]]
    states | diff before -
    [ -z "$(find root.* -name '*.sh')" ]
    apply --dry-run --json
    [ "$status" -eq 0 ]
    jq -e '.dry_run and .error == null and [.nodes[].node] == ["a", "b"] and
        [.nodes[0].changes[] | .kind] == ["mtu", "link", "address", "address"] and
        .nodes[0].changes[2] == {kind: "address", nic: "p0", what: null, from: null, to: "10.77.0.0/31"} and
        (.nodes[1].files[0] | .mode == "0755" and .from == null)' <<<"$output"
}

@test "topo apply: it is made, checked over each cable, and kept; a second run has nothing to change" {
    pair
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"answers"*"kept"* ]]
    for node in a b; do
        state $node >after.$node
        jq -e '.[] | select(.ifname | startswith("p")) | .mtu == 9000 and .up and (.addrs | length) == 2' \
            <(head -1 after.$node)
        [ -e root.$node/var/lib/meshnet/apply-kept.json ]
        [ ! -e root.$node/var/lib/meshnet/apply-pending.json ]
    done
    apply --yes --json
    [ "$status" -eq 0 ]
    jq -e '[.nodes[] | (.changes, .files) | length] == [0, 0, 0, 0] and has("results") == false' <<<"$output"
    for node in a b; do
        state $node | diff after.$node -
    done
}
