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
    local all=(me "${NODES[@]}") pids
    # Timers that still run end themselves and undo, in namespaces that go.
    pids=$(printf "netns pids $NS-%s\n" "${all[@]}" | ip -force -batch - 2>/dev/null) || true
    [ -z "$pids" ] || kill -9 $pids 2>/dev/null || true
    printf "netns delete $NS-%s\n" "${all[@]}" | ip -force -batch - 2>/dev/null || true
}

# node NAME NUMBER: with the management NIC "mgmt", 192.0.2.NUMBER.
node()
{
    NODES+=("$1")
    mkdir -p "root.$1"
    ip -batch - <<-END
	netns add $NS-$1
	link add mgmt netns $NS-$1 type veth peer name to-$1 netns $NS-me
	END
    ip -n "$NS-me" -batch - <<-END
	addr add 198.51.100.$2/32 peer 192.0.2.$2 dev to-$1
	link set to-$1 up
	END
    ip -n "$NS-$1" -batch - <<-END
	link set lo up
	addr add 192.0.2.$2/32 peer 198.51.100.$2 dev mgmt
	link set mgmt up
	route add default via 198.51.100.$2
	END
    echo "192.0.2.$2" >"root.$1/way"
}

# bare NODE NIC MAC NODE NIC MAC: a cable without addresses, its ends down.
bare()
{
    ip link add "$2" netns "$NS-$1" address "$3" type veth peer name "$5" netns "$NS-$4" address "$6"
}

# An ssh that goes into the node's namespace, if a packet gets to its management address: see
# tests/drivers/way. What is in ssh.before runs first.
fake_ssh()
{
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	cd "$PWD"
	[ ! -e ssh.before ] || . ./ssh.before
	export MESHNET_NODE=\$2 MESHNET_ROOT=$PWD/root.\$2
	exec $BUILD/tests/way /run/netns/$NS-me "\$(<root.\$2/way)" /run/netns/$NS-\$2 sh -c "\$3"
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

# nothing_to_change: another one finds all as it is wanted.
nothing_to_change()
{
    apply --yes --json
    [ "$status" -eq 0 ]
    jq -e '[.nodes[] | (.changes, .files) | length] | add == 0' <<<"$output"
}

# state NODE…: what is set of their NICs, without what changes by itself.
state()
{
    local node
    for node; do ip -n "$NS-$node" -j addr show; done | jq -c '[.[] | select(.ifname != "lo") | {ifname, mtu,
        up: (.flags | index("UP") != null),
        addrs: [.addr_info[] | select(.scope == "global") | "\(.local)/\(.prefixlen)"] | sort}]'
    for node; do ip -n "$NS-$node" route show; done
}

states()
{
    state "${NODES[@]}"
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

@test "topo apply: what is kept though the report could not be written is said" {
    pair
    states >before
    for how in --dry-run "--dry-run --json"; do
        run bash -c '"$0" topo apply --mesh mesh.yaml "$@" 2>&1 >/dev/full' "$MESHNET" $how
        echo "$how: $status $output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"the report could not be written; nothing was changed"* ]]
        states | diff before -
    done
    run bash -c '"$0" topo apply --mesh mesh.yaml --yes 2>&1 >/dev/full' "$MESHNET"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"it is kept on a, b; only the report could not be written"* ]]
    nothing_to_change
}

# The state of all nodes becomes that of the file before; waits for the timers.
back()
{
    local node
    for node in "${NODES[@]}"; do
        wait_for "root.$node/run/meshnet/apply.last"
    done
    states | diff before -
}

# held VERB: the ssh to node a waits at this verb, and says so, until the file "go" is there.
held()
{
    cat >ssh.before <<-END
	if [ "\$2" = a ] && [[ "\$3" == *"node $1 "* || "\$3" == *"node $1'"* || "\$3" == *"node $1"* ]]; then
	    touch held
	    for _ in \$(seq 300); do [ -e go ] && break; sleep 0.2; done
	fi
	END
}

# wait_for FILE: until it is there.
wait_for()
{
    for _ in $(seq 200); do
        [ ! -e "$1" ] || return 0
        sleep 0.3
    done
    cat err
    false
}

# apply_until VERB OPTION…: one in the background, its process in job, that has come to this verb; it
# goes on with the file "go".
apply_until()
{
    held "$1"
    shift
    "$MESHNET" topo apply --mesh mesh.yaml --yes "$@" >out 2>err 3>&- &
    job=$!
    wait_for held
}

# killed PID…: those of them that are there still; returns when they have gone, which is some time after
# the signal: their locks are free then.
killed()
{
    local pid
    for pid in "$@"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    for pid in "$@"; do
        for _ in $(seq 200); do
            [[ $(ps -o stat= "$pid") == [^Z]* ]] || break
            sleep 0.05
        done
    done
}

# abandon: whoever asked is killed, and whom it asked goes on.
abandon()
{
    kill -KILL $job
    touch go
    rm ssh.before
    wait $job || true
}

# goes_on: the one in the background, to its end; what it said is shown.
goes_on()
{
    touch go
    status=0
    wait $job || status=$?
    cat out err
}

@test "topo apply: that cuts off its own way is undone by the node, and everywhere else; it is said" {
    pair
    sed -i '/netdev: p0/a\      - {netdev: mgmt, addresses: [10.99.0.1/24]}' mesh.yaml
    states >before
    apply --yes --rollback 10s
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"mgmt: the mesh file wants it changed, and it has the default route"*"--take mgmt"* ]]
    states | diff before -
    apply --yes --rollback 20s --take a/mgmt
    [ "$status" -eq 1 ]
    [[ "$output" == *"mgmt route: - 0.0.0.0/0 via 198.51.100.1"*"mgmt address: - 192.0.2.1/32 peer 198.51.100.1/32"* ]]
    [[ "$stderr" == *"1 node could not be told to undo it: waiting for its timer"* ]]
    [[ "$output" == *"a "*"undone: nobody confirmed it in time"*"b "*"undone"* ]]
    [[ "$stderr" == *"no way to a"* ]]
    states | diff before -
    [ -z "$(find root.* -name 'apply-*.json')" ]
}

@test "topo apply: Ctrl-C in the middle undoes it on all nodes" {
    pair
    states >before
    held apply-check
    timeout --foreground 100 "$MESHNET" topo apply --mesh mesh.yaml --yes >out 2>err 3>&- &
    job=$!
    wait_for held
    run ! diff <(states) before
    kill -INT $(pgrep -P $job -x meshnet)
    status=0
    wait $job || status=$?
    cat out err
    [ "$status" -eq 1 ]
    grep -q interrupted err
    [ "$(grep -c '^[ab]  *undone$' out)" -eq 2 ]
    states | diff before -
}

@test "topo apply: whoever asked is killed: the nodes undo it by themselves" {
    pair
    states >before
    apply_until apply-check --rollback 20s
    abandon
    run ! diff <(states) before
    back
    [ -z "$(find root.* -name 'apply-*.json')" ]
    grep -q 'nobody confirmed it in time' root.a/run/meshnet/apply.last
}

@test "topo apply: a connection that breaks before the answer undoes it on all nodes" {
    pair
    states >before
    cat >ssh.before <<-END
	if [ "\$2" = b ] && [[ "\$3" == *"node apply"* && "\$3" != *"node apply-"* ]]; then
	    MESHNET_NODE=b MESHNET_ROOT=$PWD/root.b nsenter --net=/run/netns/$NS-b sh -c "\$3" >/dev/null
	    echo broken >&2
	    exit 255
	fi
	END
    apply --yes
    [ "$status" -eq 1 ]
    [[ "$stderr" == *broken* ]]
    states | diff before -
    [ "$(grep -c '^[ab]  *undone$' <<<"$output")" -eq 2 ]
}

@test "topo apply: while one is under way another is refused, and told whose it is" {
    pair
    apply_until apply-check
    rm ssh.before
    apply --yes
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"another apply is under way there: by "*", process $job, since "* ]]
    # It may have planned before the other began.
    jq -n --rawfile mesh mesh.yaml '{mesh: $mesh, id: ("0" * 32), who: "late", rollback_ms: 10000, changes: []}' >ask
    run on a env MESHNET_NODE=a MESHNET_ROOT="$PWD/root.a" "$MESHNET" node apply <ask
    [ "$status" -ne 0 ]
    touch go
    wait $job
    cat out
    [ "$(grep -c '^[ab]  *kept$' out)" -eq 2 ]
}

@test "topo apply: without root it says what it takes, and changes nothing" {
    pair
    states >before
    mkdir user
    cp "$MESHNET" user/
    chmod -R a+rX .
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	export MESHNET_NODE=\$2 MESHNET_ROOT=$PWD/root.\$2 PATH=/usr/sbin:/usr/bin:/sbin:/bin
	exec nsenter --net=/run/netns/$NS-\$2 setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "\$3"
	END
    apply --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 mtu: 1500 -> 9000"* ]]
    apply --yes
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'apply' needs root: allow sudo without a password"*NOPASSWD* ]]
    states | diff before -
}

@test "topo apply: a change whose timer was killed is said, and undone by the next apply" {
    pair
    states >before
    apply_until apply-check
    abandon
    # The namespaces' processes are the keepers, and what the ssh still runs.
    killed $(ip netns pids $NS-a; ip netns pids $NS-b)
    sed -i 's/10.77.0.0/10.77.0.2/; s/10.77.0.1/10.77.0.3/' mesh.yaml
    apply --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"an unconfirmed change stands, by "*"its timer is gone"* ]]
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"a: an unconfirmed change stands"*"it is undone first"* ]]
    states >after
    grep -q 10.77.0.2/31 after
    run ! grep 10.77.0.1/31 after
}

@test "topo apply: what was written gives the same state after a boot" {
    pair
    apply --yes
    [ "$status" -eq 0 ]
    states >after
    for node in a b; do
        killed $(ip netns pids "$NS-$node")
        ip netns delete "$NS-$node"
    done
    ip netns delete $NS-me
    ip netns add $NS-me
    NODES=()
    node a 1
    node b 2
    bare a p0 02:00:00:00:0a:01 b p1 02:00:00:00:0b:01
    for node in a b; do
        on $node sh root.$node/etc/meshnet/meshnet-ip.sh
    done
    states | diff after -
}

@test "topo apply: old addresses go, with the routes by them, and --undo brings all back" {
    pair
    ip -n $NS-a link set p0 up
    ip -n $NS-b link set p1 up
    ip -n $NS-a addr add 10.55.0.1/24 dev p0
    ip -n $NS-a route add 10.56.0.0/16 via 10.55.0.7 metric 7
    states >before
    # Its name is another by now.
    sed -i 's/netdev: p0/netdev: enp1s0/' mesh.yaml
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 address: + 10.77.0.0/31"*"p0 route: - 10.56.0.0/16 via 10.55.0.7 metric 7"*"p0 address: - 10.55.0.1/24"* ]]
    run ! grep -q 'dev enp1s0' root.a/etc/meshnet/meshnet-ip.sh
    grep -q "dev 'p0'" root.a/etc/meshnet/meshnet-ip.sh
    states >after
    apply --undo --yes
    [ "$status" -eq 0 ]
    states | diff before -
    [ ! -e root.a/etc/meshnet/meshnet-ip.sh ]
    apply --undo --yes
    [ "$status" -eq 0 ]
    states | diff after -
}

@test "topo apply: a neighbour that does not answer over its cable undoes it everywhere" {
    node a 1
    node b 2
    bare a p0 02:00:00:00:0a:01 b p0 02:00:00:00:0b:01
    bare a p1 02:00:00:00:0a:02 b p1 02:00:00:00:0b:02
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: p0, mac: "02:00:00:00:0a:01", addresses: [10.77.0.0/31]}
	      - {netdev: p1, mac: "02:00:00:00:0a:02", addresses: ["fd78::1/64"]}
	  - name: b
	    nics:
	      - {netdev: p0, mac: "02:00:00:00:0b:01", addresses: ["fd78::2/64"]}
	      - {netdev: p1, mac: "02:00:00:00:0b:02", addresses: [10.77.0.1/31]}
	END
    states >before
    apply --yes --rollback 10s
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"a: b answers at 10.77.0.1 over p0 by another NIC than the mesh file has for cable a-b"* ]]
    [ "$(grep -c 'wrong NIC' <<<"$output")" -eq 2 ]
    [ "$(grep -c 'silent' <<<"$output")" -eq 2 ]
    states | diff before -
}

@test "topo apply: files go where the distribution has them, and who keeps them is told" {
    pair
    mkdir -p root.a/{etc/netplan,usr/sbin} root.b/{run/systemd/netif,etc/systemd/network,usr/bin}
    printf '#!/bin/sh\necho "$0 $*" >>%s/told\n' "$PWD" | tee root.a/usr/sbin/netplan >root.b/usr/bin/networkctl
    chmod +x root.a/usr/sbin/netplan root.b/usr/bin/networkctl
    touch root.b/run/systemd/netif/state
    printf '# Written by meshnet topo emit networkd for node b.\n' >root.b/etc/systemd/network/60-meshnet-gone.network
    printf '# by hand\n' >root.b/etc/systemd/network/60-meshnet-hand.network
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"a (netplan)"*"b (systemd-networkd)"* ]]
    [[ "$output" == *"kept; told: netplan generate"*"kept; told: networkctl reload"* ]]
    [ "$(stat -c %a root.a/etc/netplan/60-meshnet.yaml)" = 600 ]
    grep -q 'Address=fd77::2/64' root.b/etc/systemd/network/60-meshnet-p1.network
    [ ! -e root.b/etc/systemd/network/60-meshnet-gone.network ]
    [ -e root.b/etc/systemd/network/60-meshnet-hand.network ]
    grep -q 'netplan generate$' told
    grep -q 'networkctl reload$' told
}

# failing_manager NODE: who keeps its files, and does not take them.
failing_manager()
{
    mkdir -p root.$1/{run/systemd/netif,usr/bin}
    touch root.$1/run/systemd/netif/state
    printf '#!/bin/sh\nexit 3\n' >root.$1/usr/bin/networkctl
    chmod +x root.$1/usr/bin/networkctl
}

@test "topo apply: one node cannot keep it: it is undone on those that have" {
    pair
    failing_manager b
    states >before
    apply --yes
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"b: "*"networkctl: exit code 3"* ]]
    states | diff before -
    [ -z "$(find root.* -name '*.sh' -o -name '*.network' -o -name 'apply-*.json')" ]
}

@test "topo apply: --root writes a node's files and changes nothing here" {
    pair
    states >before
    mkdir -p image/etc/systemd/system
    for _ in 1 2; do
        run --separate-stderr "$MESHNET" topo apply --mesh mesh.yaml --root image --node b --json
        [ "$status" -eq 0 ]
    done
    jq -e '.manager == "systemd" and .files == []' <<<"$output"
    grep -q "10.77.0.1/31 dev 'p1'" image/etc/meshnet/meshnet-ip.sh
    grep -q 'After=sys-subsystem-net-devices-p1.device' image/etc/systemd/system/meshnet-ip.service
    grep -q Wants=meshnet-ip.service image/etc/systemd/system/multi-user.target.d/60-meshnet.conf
    states | diff before -
    run "$MESHNET" topo apply --mesh mesh.yaml --root image --hosts b
    [ "$status" -eq 2 ]
    touch file
    for root in imaeg file; do
        run "$MESHNET" topo apply --mesh mesh.yaml --root $root --node b
        [ "$status" -eq 2 ]
        [[ "$output" == *"--root $root: no such folder"* ]]
    done
    [ ! -e imaeg ]
    run bash -c '"$0" topo apply --mesh mesh.yaml --root image --node a 2>&1 >/dev/full' "$MESHNET"
    [ "$status" -eq 1 ]
    [[ "$output" == *"the report could not be written; the files are"* ]]
}

@test "topo apply: what it cannot mean is wrong usage" {
    pair
    apply </dev/null
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"nobody can be asked here"*--dry-run*--yes* ]]
    apply --yes --take p9
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--take p9: no node of the mesh file has such a NIC"* ]]
    apply --yes --hosts a,b --rollback 9s
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"expected 10 s to 1 h" ]]
    apply --yes --hosts a,b --port 1
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--port belongs to --agents: add it"* ]]
    apply --yes --node a
    [ "$status" -eq 2 ]
    sed -i 's/0b:01/0b:99/' mesh.yaml
    apply --yes
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"b: p1: no NIC of this host has the MAC 02:00:00:00:0b:99"* ]]
}

# line: a, b between, and c, in namespaces; mesh.yaml.
line()
{
    node a 1
    node b 2
    node c 3
    bare a p0 02:00:00:00:0a:01 b p0 02:00:00:00:0b:01
    bare b p1 02:00:00:00:0b:02 c p0 02:00:00:00:0c:01
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics: [{netdev: p0, mac: "02:00:00:00:0a:01", addresses: [10.77.0.0/31]}]
	  - name: b
	    nics:
	      - {netdev: p0, mac: "02:00:00:00:0b:01", addresses: [10.77.0.1/31]}
	      - {netdev: p1, mac: "02:00:00:00:0b:02", addresses: [10.77.0.2/31]}
	  - name: c
	    nics: [{netdev: p0, mac: "02:00:00:00:0c:01", addresses: [10.77.0.3/31]}]
	END
}

# passes: packets get from a to c.
passes()
{
    run on a timeout 5 bash -c 'echo >/dev/tcp/10.77.0.3/1'
    [[ "$output" == *refused* ]]
}

# What a node has been told beside addresses.
settings()
{
    on "$1" sh -c 'cd /proc/sys/net/ipv4/conf && head -v p*/rp_filter p*/forwarding p*/arp_ignore'
    on "$1" nft list ruleset | sed 's/packets.*accept/accept/'
}

@test "topo apply: what lies between cables is set up too: routes, sysctls, rules; and undone" {
    line
    on b nft list tables >/dev/null || skip "no nftables here"
    # As Docker has it.
    on b nft -f - <<-END
	table inet mine { chain forward { type filter hook forward priority 10; policy accept; }; }
	END
    states >before
    for node in a b c; do settings $node; done >before.settings
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 route: + 10.77.0.2/31 via 10.77.0.1"* ]]
    [[ "$output" == *"net/ipv4/conf/{p0,p1}/forwarding sysctl: 0 -> 1"* ]]
    [[ "$output" == *"+ transit between cables"* ]]
    passes
    on b nft list table inet meshnet
    on b nft list table inet mine
    nothing_to_change
    apply --undo --yes
    [ "$status" -eq 0 ]
    states | diff before -
    for node in a b c; do settings $node; done | diff before.settings -
}

# line, of IPv6 alone.
line6()
{
    line
    sed -i 's/10.77.0.\([0-3]\).31/"fd77::\1\/127"/' mesh.yaml
}

@test "topo apply: IPv6 is passed on: routers are believed as before, and other interfaces get their own back" {
    line6
    # It is no concern of a script what others call their NICs.
    sed -i "/netdev: p0, mac: \"02:00:00:00:0b:01\"/i\\      - {netdev: \"';id>INJ;'\", role: management, addresses: [192.0.2.77/24]}" mesh.yaml
    grep -q 'INJ' mesh.yaml
    ip -n $NS-b link add docker0 type bridge
    on b sysctl -qw net.ipv6.conf.docker0.forwarding=1 net.ipv6.conf.default.forwarding=1 net.ipv6.conf.mgmt.accept_ra=1
    on b sh -c 'head -v /proc/sys/net/ipv6/conf/*/forwarding /proc/sys/net/ipv6/conf/*/accept_ra' >before
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"net/ipv6/conf/{"*"mgmt}/accept_ra sysctl: 1 -> 2"*"net/ipv6/conf/all/forwarding sysctl: 0 -> 1"* ]]
    [ "$(on b sysctl -n net.ipv6.conf.mgmt.accept_ra)" = 2 ]
    [ "$(on b sysctl -n net.ipv6.conf.p0.forwarding)" = 1 ]
    [ -z "$(find / -xdev -maxdepth 1 -name INJ; find . -name INJ)" ]
    run ! grep -r INJ root.b/etc
    nothing_to_change
    apply --undo --yes
    [ "$status" -eq 0 ]
    on b sh -c 'head -v /proc/sys/net/ipv6/conf/*/forwarding /proc/sys/net/ipv6/conf/*/accept_ra' | diff before -
}

@test "topo apply: another way to the same cable takes the place of the first: a line becomes a ring" {
    line
    node d 4
    bare c p1 02:00:00:00:0c:02 d p0 02:00:00:00:0d:01
    bare d p1 02:00:00:00:0d:02 a p1 02:00:00:00:0a:02
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: p0, mac: "02:00:00:00:0a:01", addresses: [10.77.0.0/31]}
	      - {netdev: p1, mac: "02:00:00:00:0a:02", addresses: [10.77.0.7/31]}
	  - name: b
	    nics:
	      - {netdev: p0, mac: "02:00:00:00:0b:01", addresses: [10.77.0.1/31]}
	      - {netdev: p1, mac: "02:00:00:00:0b:02", addresses: [10.77.0.2/31]}
	  - name: c
	    nics:
	      - {netdev: p0, mac: "02:00:00:00:0c:01", addresses: [10.77.0.3/31]}
	      - {netdev: p1, mac: "02:00:00:00:0c:02", addresses: [10.77.0.4/31]}
	  - name: d
	    nics:
	      - {netdev: p0, mac: "02:00:00:00:0d:01", addresses: [10.77.0.5/31]}
	      - {netdev: p1, mac: "02:00:00:00:0d:02", addresses: [10.77.0.6/31]}
	END
    cp mesh.yaml ring.yaml
    sed -i '/10.77.0.[67]/d' mesh.yaml
    apply --yes
    [ "$status" -eq 0 ]
    states >before
    cp ring.yaml mesh.yaml
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 route: - 10.77.0.4/31 via 10.77.0.1"*"p1 route: + 10.77.0.4/31 via 10.77.0.6"* ]]
    [ "$(on a ip route show 10.77.0.4/31 | wc -l)" -eq 1 ]
    nothing_to_change
    apply --undo --yes
    [ "$status" -eq 0 ]
    states | diff before -
}

@test "topo apply: a node that is no longer in between gets back what it was, and its files go" {
    line
    mkdir -p root.b/run/systemd/netif
    touch root.b/run/systemd/netif/state
    settings b >before
    apply --yes
    [ "$status" -eq 0 ]
    [ -e root.b/etc/meshnet/transit.sh ]
    run ! diff before <(settings b)
    sed -i '/0b:02/d; /name: c/,$d' mesh.yaml
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 route: - 10.77.0.2/31 via 10.77.0.1"* ]]
    settings b | diff before -
    find root.b -type f
    [ -z "$(find root.b/etc -name '*transit*' -o -name 60-meshnet.conf)" ]
    [ -z "$(on a ip route show 10.77.0.2/31)" ]
    nothing_to_change
    apply --undo --yes
    [ "$status" -eq 0 ]
    [ -e root.b/etc/meshnet/transit.sh ]
    run ! diff before <(settings b)
}

@test "topo apply: what is undone leaves the rules of the apply before" {
    line
    on b nft list tables >/dev/null || skip "no nftables here"
    node d 4
    bare b p2 02:00:00:00:0b:03 d p0 02:00:00:00:0d:01
    apply --yes
    [ "$status" -eq 0 ]
    on b nft list table inet meshnet | sed 's/packets.*accept/accept/' >before.rules
    cat >>mesh.yaml <<-END
	  - name: d
	    nics: [{netdev: p0, mac: "02:00:00:00:0d:01", addresses: [10.77.0.9/31]}]
	END
    sed -i '/0b:02/a\      - {netdev: p2, mac: "02:00:00:00:0b:03", addresses: [10.77.0.8/31]}' mesh.yaml
    apply --yes
    [ "$status" -eq 0 ]
    run ! diff before.rules <(on b nft list table inet meshnet | sed 's/packets.*accept/accept/')
    apply --undo --yes
    [ "$status" -eq 0 ]
    on b nft list table inet meshnet | sed 's/packets.*accept/accept/' | diff before.rules -
}

# kill_keeper NODE: the process there that holds the lock of what is tried.
kill_keeper()
{
    local pid keepers=()
    for pid in $(ip netns pids "$NS-$1"); do
        [ "$(ps -o sid= "$pid" | tr -d ' ')" != "$pid" ] || keepers+=("$pid")
    done
    [ ${#keepers[@]} -gt 0 ]
    killed "${keepers[@]}"
}

@test "topo apply: a timer that is killed during the check does not save its changes" {
    pair
    states >before
    apply_until apply-check
    kill_keeper a
    goes_on
    [ "$status" -eq 1 ]
    states | diff before -
    [ "$(grep -c '^[ab]  *undone' out)" -eq 2 ]
    [ -z "$(find root.* -name 'apply-*.json')" ]
}

@test "topo apply: a timer that is killed while it makes does not save its changes" {
    line
    on b nft list tables >/dev/null || skip "no nftables here"
    states >before
    mkdir fakebin
    printf '#!/bin/sh\n[ "$1" = list ] && exec %s "$@"\ntouch %s/innft\nexec sleep 30\n' \
        "$(command -v nft)" "$PWD" >fakebin/nft
    chmod +x fakebin/nft
    cat >ssh.before <<-END
	if [ "\$2" = b ] && [[ "\$3" == *"node apply"* && "\$3" != *"node apply-"* ]]; then
	    export MESHNET_NODE=b MESHNET_ROOT=$PWD/root.b
	    exec unshare -m sh -c 'mount --bind $PWD/fakebin /usr/local/sbin; exec nsenter --net=/run/netns/$NS-b sh -c "\$1"' sh "\$3"
	fi
	END
    "$MESHNET" topo apply --mesh mesh.yaml --yes >out 2>err 3>&- &
    job=$!
    wait_for innft
    kill_keeper b
    status=0
    wait $job || status=$?
    cat out err
    [ "$status" -eq 1 ]
    states | diff before -
    grep -q '^b  *undone' out
    [ -z "$(find root.* -name 'apply-*.json')" ]
}

@test "topo apply: what cannot be undone at once is tried until it can be" {
    pair
    states >before
    apply_until apply-check --rollback 10s
    abandon
    # The NIC is away, as while its driver is loaded anew.
    ip netns add $NS-x
    NODES+=(x)
    ip -n $NS-a link set p0 netns $NS-x
    wait_for root.b/run/meshnet/apply.last
    ip -n $NS-x link set p0 netns $NS-a
    wait_for root.a/run/meshnet/apply.last
    grep -q '"undone: nobody confirmed it in time"}' root.a/run/meshnet/apply.last
    [ -z "$(find root.* -name 'apply-*.json')" ]
    # Addresses that it lost on its way are none of the old ones here.
    ip netns delete $NS-x
    unset 'NODES[-1]'
    states | diff before -
}

@test "topo apply: recovery puts back what it can where something cannot be" {
    pair
    state a >before.a
    apply_until apply-check
    abandon
    kill_keeper a
    mkdir -p root.a/etc/meshnet/meshnet-ip.sh
    run on a env MESHNET_NODE=a MESHNET_ROOT="$PWD/root.a" "$MESHNET" node apply-undo <<<'{"orphan":true}'
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *meshnet-ip.sh* ]]
    state a | diff before.a -
    [ -e root.a/var/lib/meshnet/apply-pending.json ]
}

@test "topo apply: one node cannot keep it, and one that has does not hear it at once: undone on both" {
    pair
    failing_manager b
    states >before
    cat >ssh.before <<-END
	if [ "\$2" = a ] && [[ "\$3" == *"node apply-undo"* ]] && [ ! -e once ]; then
	    touch once
	    echo "no route" >&2
	    exit 255
	fi
	END
    apply --yes
    [ "$status" -eq 1 ]
    [ -e once ]
    [ "$(grep -c '^[ab]  *undone' <<<"$output")" -eq 2 ]
    states | diff before -
    [ -z "$(find root.* -name '*.sh' -o -name '*.network' -o -name 'apply-*.json')" ]
}

@test "topo apply: a terminal that goes while it is kept leaves no node behind" {
    pair
    apply_until apply-keep
    kill -HUP $job
    touch go
    wait $job || true
    cat out err
    for node in a b; do
        [ -e root.$node/var/lib/meshnet/apply-kept.json ]
        [ ! -e root.$node/var/lib/meshnet/apply-pending.json ]
    done
}

@test "topo apply: nobody else can hold its lock" {
    pair
    mkdir -p root.a/run/meshnet
    touch root.a/run/meshnet/apply.lock
    chmod 644 root.a/run/meshnet/apply.lock
    apply --yes
    [ "$status" -eq 0 ]
    for node in a b; do
        [ "$(stat -c '%a %s' root.$node/run/meshnet/apply.lock)" = "600 0" ]
    done
}

@test "topo apply: routes that go with an address are named, of all tables and NICs, and come back" {
    pair
    sed -i 's/10.77.0.[01]\/31, //' mesh.yaml
    ip -n $NS-a link set p0 up
    ip -n $NS-b link set p1 up
    ip -n $NS-a addr add 10.55.0.1/24 dev p0
    ip -n $NS-a route add 10.60.0.0/16 dev p0
    ip -n $NS-a route add default via 10.55.0.9 dev p0 table 101
    ip -n $NS-a route add 10.70.0.0/16 via 198.51.100.1 src 10.55.0.1
    states >before
    on a ip route show table 101 >before.101
    [ -s before.101 ]
    apply --yes
    [ "$status" -eq 0 ]
    for route in "p0 route: - 10.60.0.0/16" "p0 route: - 0.0.0.0/0 via 10.55.0.9" \
        "mgmt route: - 10.70.0.0/16 via 198.51.100.1 src 10.55.0.1"; do
        [[ "$output" == *"$route"* ]]
    done
    [ -z "$(on a ip route show table 101)" ]
    apply --undo --yes
    [ "$status" -eq 0 ]
    states | diff before -
    on a ip route show table 101 | diff before.101 -
    # The default route of another NIC, by an address of this one.
    ip -n $NS-a route replace default via 198.51.100.1 src 10.55.0.1
    apply --yes
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"p0: the mesh file wants it changed, and the default route goes with its address"* ]]
}

@test "topo apply: --undo leaves a NIC alone that has the default route by now, and names the routes that go" {
    pair
    apply --yes
    [ "$status" -eq 0 ]
    ip -n $NS-a route add 10.99.0.0/16 via 10.77.0.1 dev p0
    ip -n $NS-a route replace default via 10.77.0.1 dev p0
    states >before
    apply --undo --yes
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"p0: undoing changes it, and it has the default route"*"--take p0"* ]]
    states | diff before -
    ip -n $NS-a route replace default via 198.51.100.1 dev mgmt
    states >before
    apply --undo --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 route: - 10.99.0.0/16 via 10.77.0.1"* ]]
    apply --undo --yes
    [ "$status" -eq 0 ]
    states | diff before -
}

@test "topo apply: a firewall that drops what passes, whatever others accept, is named" {
    line
    on b nft -f - <<-END || skip "no nftables here"
	table inet mine { chain forward { type filter hook forward priority 10; policy drop; }; }
	END
    apply --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"packets do not pass between its cables"*"chain forward of table inet mine"*"from p0 to p1"* ]]
    on b nft add rule inet mine forward iifname '{ p0, p1 }' oifname '{ p0, p1 }' accept
    apply --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" != *"packets do not pass"* ]]
}

@test "topo apply: what has lost its timer is not undone before the person says so" {
    pair
    apply_until apply-check
    abandon
    kill_keeper a
    kill_keeper b
    states >stands
    run timeout 60 script -qec "'$MESHNET' topo apply --mesh mesh.yaml" /dev/null <<<n
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"a: an unconfirmed change stands, by "*"Undo this first"* ]]
    states | diff stands -
    [ -e root.a/var/lib/meshnet/apply-pending.json ]
}

@test "topo apply: what is in files is shown where it is asked for" {
    pair
    mkdir -p root.b/etc/meshnet
    printf '#!/bin/sh\n' >root.b/etc/meshnet/meshnet-ip.sh
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"root.a/etc/meshnet/meshnet-ip.sh (new, "*" lines)"* ]]
    [[ "$output" == *"root.b/etc/meshnet/meshnet-ip.sh ("*" lines change)"* ]]
    [[ "$output" != *"+ip address"* ]]
    sed -i 's/9000/8000/' mesh.yaml
    apply --yes --verbose
    [ "$status" -eq 0 ]
    [[ "$output" == *"+ip link set dev 'p0' mtu 8000"* ]]
}

@test "topo apply: another file about the same NIC is named" {
    pair
    mkdir -p root.a/etc/netplan root.b/etc/systemd/network
    printf 'network:\n  ethernets:\n    p0:\n      dhcp4: true\n' >root.a/etc/netplan/40-cx7.yaml
    printf 'network:\n  ethernets:\n    p01:\n      dhcp4: true\n' >root.a/etc/netplan/50-more.yaml
    printf '[Match]\nMACAddress=02:00:00:00:0B:01\n' >root.b/etc/systemd/network/10-cable.network
    apply --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"note: "*"/root.a/etc/netplan/40-cx7.yaml is about p0 too"* ]]
    [[ "$output" == *"note: "*"/root.b/etc/systemd/network/10-cable.network is about p1 too"* ]]
    [[ "$output" != *50-more* ]]
}

@test "topo apply: a file that was edited since it was shown is not written over" {
    pair
    states >before
    mkdir -p root.a/etc/meshnet
    printf '#!/bin/sh\n' >root.a/etc/meshnet/meshnet-ip.sh
    cat >ssh.before <<-END
	if [ "\$2" = a ] && [[ "\$3" == *"node apply"* && "\$3" != *"node apply-"* ]]; then
	    echo '# by hand' >>root.a/etc/meshnet/meshnet-ip.sh
	fi
	END
    apply --yes
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"a: "*"no longer what was shown"* ]]
    grep -q 'by hand' root.a/etc/meshnet/meshnet-ip.sh
    states | diff before -
}

# breaks NODE COMMAND…: what happens there between the change and its check.
breaks()
{
    local node=$1
    shift
    rm -f broken
    # No other node is asked before.
    cat >ssh.before <<-END
	if [[ "\$3" == *"node apply-check"* ]]; then
	    if [ "\$2" = $node ]; then
	        nsenter --net=/run/netns/$NS-$node $*
	        touch broken
	    fi
	    for _ in \$(seq 150); do [ -e broken ] && break; sleep 0.2; done
	fi
	END
}

# undone_everywhere TEXT: nothing was kept, for this reason.
undone_everywhere()
{
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"$1"* ]]
    states | diff before -
    [ -z "$(find root.* -name 'apply-*.json')" ]
}

@test "topo apply: packets have to pass the node in between, both ways; who does not let them is named" {
    line
    states >before
    breaks b sysctl -qw net.ipv4.conf.p0.forwarding=0
    apply --yes --rollback 12s
    undone_everywhere "a: packets to c at 10.77.0.3, or their answers, do not pass b: at b net/ipv4/conf/p0/forwarding is 0"
    # The way back alone.
    breaks c ip route del 10.77.0.0/31
    apply --yes --rollback 12s
    undone_everywhere "do not pass b: at c the route 10.77.0.0/31 via 10.77.0.2 over p0 has gone"
    rm ssh.before
    apply --yes --json
    [ "$status" -eq 0 ]
    jq -e '.far == [] and .far_answers == 2 and .far_left_out == 0' <<<"$output"
}

@test "topo apply: a firewall between that drops what passes undoes it, and is named" {
    line
    on b nft -f - <<-END || skip "no nftables here"
	table inet mine { chain forward { type filter hook forward priority 10; policy drop; }; }
	END
    states >before
    apply --yes --rollback 12s
    undone_everywhere "do not pass b: at b the policy of chain forward of table inet mine drops what goes from p0 to p1"
    on b nft flush ruleset
    on b nft -f - <<-END
	table inet mine { chain forward { type filter hook forward priority 10; reject with icmpx admin-prohibited; }; }
	END
    apply --yes --rollback 12s
    undone_everywhere "do not pass b: b sends them back; at b chain forward of table inet mine drops"
}

@test "topo apply: IPv6 is to pass the node in between, too" {
    line6
    states >before
    breaks b sysctl -qw net.ipv6.conf.all.forwarding=0
    apply --yes --rollback 16s
    undone_everywhere "a: packets to c at fd77::3, or their answers, do not pass b: at b net/ipv6/conf/all/forwarding is 0"
    rm ssh.before
    apply --yes --json
    [ "$status" -eq 0 ]
    jq -e '.far == [] and .far_answers == 2' <<<"$output"
}

@test "topo apply: a node that answers nobody is not taken for one that is not reached" {
    line
    on c nft -f - <<-END || skip "no nftables here"
	table inet mine { chain input { type filter hook input priority 0; policy drop; iifname mgmt accept; ct state established,related accept; }; }
	END
    apply --yes --rollback 30s --json
    [ "$status" -eq 0 ]
    jq -e '.far_answers == 1 and ([.far[] | {node, far, state, path}] == [{node: "a", far: "c", state: "asks itself", path: "b"}])' <<<"$output"
}

# user_checks: what looks whether it carries has no more rights than a user.
user_checks()
{
    chmod -R a+rX .
    sed -i "s/^exec \(.*\) sh -c/as=; [[ \"\$3\" != *'node apply-check'* ]] || as='setpriv --reuid=65534 --regid=65534 --clear-groups'\nexec \1 \$as sh -c/" ssh
    grep -q setpriv ssh
}

@test "topo apply: who looks without root's rights takes no firewall at the end for one in between" {
    line
    # Only who may open raw sockets, or is of the group, can ask by ICMP.
    for node in a c; do
        on $node nft -f - <<-END || skip "no nftables here"
		table inet mine { chain input { type filter hook input priority 0; ip saddr { 10.77.0.0, 10.77.0.3 } udp dport 9 drop; }; }
		END
        on $node sysctl -qw net.ipv4.ping_group_range='1 0'
    done
    user_checks
    states >before
    # What is known to be in the way counts.
    breaks b sysctl -qw net.ipv4.conf.p0.forwarding=0
    apply --yes --rollback 12s
    undone_everywhere "or their answers, do not pass b: at b net/ipv4/conf/p0/forwarding is 0"
    rm ssh.before
    apply --yes --rollback 30s --json
    [ "$status" -eq 0 ]
    jq -e '.far_answers == 0 and ([.far[] | {node, far, state}] ==
        [{node: "a", far: "c", state: "cannot be told"}, {node: "c", far: "a", state: "cannot be told"}])' <<<"$output"
    apply --undo --yes
    [ "$status" -eq 0 ]
    for node in a c; do on $node sysctl -qw net.ipv4.ping_group_range='0 2147483647'; done
    apply --yes --rollback 30s --json
    [ "$status" -eq 0 ]
    jq -e '.far == [] and .far_answers == 2' <<<"$output"
}

@test "topo apply: nodes behind those that are not asked are not asked for" {
    line
    apply --yes --hosts a,c --json
    [ "$status" -eq 0 ]
    jq -e '.far == [] and .far_answers == 0' <<<"$output"
}

@test "topo apply: a NIC that loses its carrier by the change undoes it; one that had none does not" {
    pair
    # A NIC that is switched off loses its IPv6 addresses, which would be another reason.
    sed -i 's/, "fd77::[12].64"//' mesh.yaml
    ip -n $NS-a link set p0 up
    ip -n $NS-b link set p1 up
    states >before
    breaks b ip link set p1 down
    apply --yes --rollback 12s
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"a: p0 had a carrier before the change and has none since"* ]]
    [[ "$output" == *"no carrier"* ]]
    ip -n $NS-b link set p1 up
    states | diff before -
    # It comes back: that is waited for, for half of the time.
    breaks b sh -c "'ip link set p1 down; (sleep 9; ip link set p1 up) >/dev/null 2>&1 3>&- &'"
    apply --yes --rollback 30s
    [ "$status" -eq 0 ]
    rm ssh.before
    apply --undo --yes
    [ "$status" -eq 0 ]
    ip -n $NS-b link set p1 down
    apply --hosts a --yes --rollback 12s
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 mtu: 1500 -> 9000"* ]]
}

# all_of NODE: addresses and routes with all that is set of them, lifetimes as whether there are any.
all_of()
{
    on "$1" ip -o address show | grep -v ' fe80:' | sed -E 's/_lft [0-9]+sec/_lft some/g; s/^[0-9]+: //' | sort
    { on "$1" ip route show table all; on "$1" ip -6 route show table all; } |
        grep -v -e 'table local' -e ^fe80: -e ff00: | sort
}

@test "topo apply: addresses come back with all that was set of them" {
    pair
    ip -n $NS-a link set p0 up
    ip -n $NS-b link set p1 up
    ip -n $NS-a addr add 10.55.0.1/24 brd 10.55.0.255 label p0:x metric 77 dev p0
    ip -n $NS-a addr add 10.56.0.1/24 scope link noprefixroute valid_lft 9000 preferred_lft 8000 dev p0
    ip -n $NS-a addr add 10.57.0.1 peer 10.58.0.1/24 dev p0
    ip -n $NS-a addr add 10.57.0.1 peer 10.59.0.1/24 dev p0
    ip -n $NS-a addr add fd55::1/64 metric 78 nodad dev p0
    all_of a >before
    grep -q 'metric 77.*p0:x' before
    apply_until apply-check --rollback 10s
    abandon
    wait_for root.a/run/meshnet/apply.last
    all_of a | diff before -
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 address: - 10.55.0.1/24 brd 10.55.0.255 label p0:x metric 77"* ]]
    [[ "$output" == *"p0 address: - 10.56.0.1/24 scope 253 noprefixroute valid_lft "*" preferred_lft "* ]]
    apply --undo --yes
    [ "$status" -eq 0 ]
    all_of a | diff before -
}

# mtus NODE NIC…
mtus()
{
    local node=$1 nic
    shift
    for nic; do ip -n "$NS-$node" -j link show "$nic" | jq -r '.[].mtu'; done | tr '\n' ' '
}

@test "topo apply: what lies on a NIC gets its MTU back, and can be raised together with it" {
    pair
    sed -i 's/9000/1400/' mesh.yaml
    ip -n $NS-a link set p0 up mtu 9000
    ip -n $NS-b link set p1 up mtu 9000
    on a ip link add link p0 name mv0 type macvlan
    on a ip link add link p0 name mv1 type macvlan
    on a ip link set mv0 mtu 8000
    on a ip link set mv1 mtu 1300
    vlan=
    # Not every kernel has them.
    if on a ip link add link mv0 name mv0.5 type vlan id 5; then
        vlan=mv0.5
        on a ip link set mv0.5 mtu 7000
    fi
    mtus a p0 mv0 mv1 $vlan >before
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"mv0 mtu: 8000 -> 1400"*"p0 mtu: 9000 -> 1400"* ]]
    [ "$(mtus a p0 mv0 mv1)" = "1400 1400 1300 " ]
    apply --undo --yes
    [ "$status" -eq 0 ]
    mtus a p0 mv0 mv1 $vlan | diff before -
    # In the file what lies on the NIC comes before it.
    sed -i '/netdev: p0/i\      - {netdev: mv0, mtu: 9200, addresses: [10.78.0.1/24]}' mesh.yaml
    sed -i 's/1400/9500/' mesh.yaml
    apply --yes
    [ "$status" -eq 0 ]
    [ "$(mtus a p0 mv0)" = "9500 9200 " ]
    apply --undo --yes
    [ "$status" -eq 0 ]
    mtus a p0 mv0 mv1 $vlan | diff before -
}

@test "topo apply: routes over several ways come back, and what else was set of a route" {
    pair
    sed -i 's/10.77.0.[01]\/31, //' mesh.yaml
    ip -n $NS-a link set p0 up
    ip -n $NS-b link set p1 up
    ip -n $NS-a addr add 10.55.0.1/24 dev p0
    ip -n $NS-a -6 addr add fd55::1/64 nodad dev p0
    ip -n $NS-a route add 10.61.0.0/16 metric 9 nexthop via 10.55.0.7 dev p0 weight 3 nexthop via 10.55.0.8 dev p0
    ip -n $NS-a route add 10.62.0.0/16 via 10.99.0.1 dev p0 onlink mtu lock 1400 advmss 1300 initcwnd 20
    ip -n $NS-a -6 route add fd61::/64 nexthop via fd55::7 dev p0 nexthop via fd55::8 dev p0 weight 2
    # One way alone is over the cable: the other one stays.
    ip -n $NS-a route add 10.63.0.0/16 nexthop via 10.55.0.7 dev p0 nexthop via 198.51.100.1 dev mgmt
    all_of a >before
    apply --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"p0 route: - 10.61.0.0/16 metric 9 proto boot nexthop via 10.55.0.7 dev p0 weight 3 nexthop via 10.55.0.8 dev p0 weight 1"* ]]
    [[ "$output" == *"p0 route: - 10.62.0.0/16 via 10.99.0.1 proto boot onlink 1 lock 4 mtu 1400 advmss 1300 initcwnd 20"* ]]
    [ -z "$(on a ip route show 10.61.0.0/16)" ]
    on a ip route show 10.63.0.0/16 | grep -q 198.51.100.1
    apply --undo --yes
    [ "$status" -eq 0 ]
    all_of a | diff before -
}

@test "topo apply: routes by their TOS, and over several NICs that all lose their addresses, come back" {
    pair
    bare a p2 02:00:00:00:0a:02 b p3 02:00:00:00:0b:02
    sed -i 's/10.77.0.[01]\/31, //' mesh.yaml
    sed -i '/netdev: p0/a\      - {netdev: p2, mac: "02:00:00:00:0a:02", addresses: ["fd78::1/64"]}' mesh.yaml
    sed -i '/netdev: p1/a\      - {netdev: p3, mac: "02:00:00:00:0b:02", addresses: ["fd78::2/64"]}' mesh.yaml
    for nic in p0 p2; do ip -n $NS-a link set $nic up; done
    for nic in p1 p3; do ip -n $NS-b link set $nic up; done
    ip -n $NS-a addr add 10.55.0.1/24 dev p0
    ip -n $NS-a addr add 10.56.0.1/24 dev p2
    ip -n $NS-a route add 10.61.0.0/16 nexthop via 10.55.0.7 dev p0 weight 3 nexthop via 10.56.0.8 dev p2
    ip -n $NS-a route add 10.62.0.0/16 tos 0x10 via 10.55.0.9 dev p0
    all_of a >before
    apply --yes --json
    [ "$status" -eq 0 ]
    jq -e '[.nodes[] | select(.node == "a") | .changes[] | select(.kind == "route") | .from] == [
        "10.61.0.0/16 proto boot nexthop via 10.55.0.7 dev p0 weight 3 nexthop via 10.56.0.8 dev p2 weight 1",
        "10.62.0.0/16 via 10.55.0.9 proto boot tos 16"]' <<<"$output"
    [ -z "$(on a ip route show 10.61.0.0/16)$(on a ip route show 10.62.0.0/16 tos 0x10)" ]
    apply --undo --yes
    [ "$status" -eq 0 ]
    all_of a | diff before -
}

@test "topo apply: a route that could not be put back is named, and nothing is changed" {
    pair
    sed -i 's/10.77.0.[01]\/31, //' mesh.yaml
    ip -n $NS-a link set p0 up
    ip -n $NS-b link set p1 up
    ip -n $NS-a addr add 10.55.0.1/24 dev p0
    ip -n $NS-a nexthop add id 5 via 10.55.0.9 dev p0 || skip "no nexthop objects here"
    ip -n $NS-a route add 10.61.0.0/16 nhid 5
    all_of a >before
    apply --yes
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"p0: the route 10.61.0.0/16 via 10.55.0.9 "*" would go with the addresses and could not be put back: it is by a nexthop object; nothing was changed"* ]]
    all_of a | diff before -
    # Where the kernel says an object's number alone, of several ways too.
    if on a sysctl -qw net.ipv4.nexthop_compat_mode=0; then
        on a ip route show 10.61.0.0/16
        apply --yes
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"p0: the route 10.61.0.0/16 via 10.55.0.9 "*": it is by a nexthop object; nothing was changed"* ]]
        ip -n $NS-a route del 10.61.0.0/16
        ip -n $NS-a nexthop add id 7 via 10.55.0.8 dev p0
        ip -n $NS-a nexthop add id 8 group 5/7
        ip -n $NS-a route add 10.61.0.0/16 nhid 8
        apply --yes
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"p0: the route 10.61.0.0/16 "*" nexthop via 10.55.0.9 dev p0 "*"it is by a nexthop object"* ]]
        on a ip route show 10.61.0.0/16 | grep -q 'nhid 8'
        on a sysctl -qw net.ipv4.nexthop_compat_mode=1
        ip -n $NS-a nexthop del id 8
        ip -n $NS-a nexthop del id 7
        ip -n $NS-a route add 10.61.0.0/16 nhid 5
    fi
    ip -n $NS-a route del 10.61.0.0/16
    ip -n $NS-a -6 addr add fd55::1/64 nodad dev p0
    ip -n $NS-a route add 10.62.0.0/16 via inet6 fd55::9 dev p0
    all_of a >before
    apply --yes
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"p0: the route 10.62.0.0/16 "*"could not be put back: its gateway is of another family"* ]]
    all_of a | diff before -
    ip -n $NS-a route del 10.62.0.0/16
    # What goes over another NIC is no reason.
    ip -n $NS-a nexthop add id 6 via 198.51.100.1 dev mgmt
    ip -n $NS-a route add 10.63.0.0/16 nhid 6
    apply --yes
    [ "$status" -eq 0 ]
    on a ip route show 10.63.0.0/16 | grep -q 'nhid 6'
}

@test "topo apply: its timer is in a scope of its own where systemd is, and the last to go for want of memory" {
    [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ] || skip "processes have other numbers here than systemd's"
    pair
    mkdir -p root.a/{run/systemd/system,usr/bin}
    printf '#!/bin/sh\nprintf "%%s|" "$@" >>%s/told\nwhile read -r word value; do [ "$word" != SigBlk: ] || echo "$value"; done </proc/$$/status >%s/blocked\n' "$PWD" "$PWD" >root.a/usr/bin/busctl
    printf '#!/bin/sh\n' >root.a/usr/bin/systemctl
    chmod +x root.a/usr/bin/{busctl,systemctl}
    apply_until apply-check
    keeper=
    for pid in $(ip netns pids "$NS-a"); do
        [ "$(ps -o sid= "$pid" | tr -d ' ')" != "$pid" ] || keeper=$pid
    done
    cat told
    [[ "$(cat told)" == *"|org.freedesktop.systemd1.Manager|StartTransientUnit|ssa(sv)a(sa(sv))|meshnet-apply-"????????".scope|fail|4|"*"|PIDs|au|1|$keeper|0|" ]]
    # Its own mask is not handed on; a shell that starts others has one of its own meanwhile.
    grep -qE '^0+$' blocked
    [ "$(cat /proc/$keeper/oom_score_adj)" = "$(sh -c 'echo -1000 >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj' 2>/dev/null)" ]
    touch go
    wait $job
    [ "$(grep -c '^[ab]  *kept' out)" -eq 2 ]
}

@test "topo apply: what is the same for many NICs is a line, and so is its own record, but with --verbose" {
    line
    apply --dry-run
    [ "$status" -eq 0 ]
    [ "$(grep -c '  net/ipv4/conf/{p0,p1}/rp_filter sysctl: 0 -> 2' <<<"$output")" -eq 1 ]
    [ "$(grep -c '  net/ipv4/conf/p0/rp_filter sysctl: 0 -> 2' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^  net/ipv4/conf/p1/' <<<"$output")" -eq 0 ]
    [[ "$output" == *"transit.json (new, "*" lines; what apply has set, for itself)"* ]]
    [[ "$output" != *'"kind":'* ]]
    apply --dry-run --verbose
    [ "$status" -eq 0 ]
    [[ "$output" == *'"kind":'* ]]
    apply --dry-run --json
    jq -e '[.nodes[] | select(.node == "b") | .changes[] | select(.what | strings | endswith("/rp_filter"))] | length == 2' <<<"$output"
}

@test "topo apply: what stands, what was kept last and what --undo goes back to is told" {
    pair
    apply_until apply-check
    on a env MESHNET_NODE=a MESHNET_ROOT="$PWD/root.a" "$MESHNET" node apply-state <<<'{}' >state
    jq -e '.stands == "tried" and (.stands_by | contains("undone at the latest 60 s after")) and .kept == null' state
    goes_on
    [ "$status" -eq 0 ]
    on a env MESHNET_NODE=a MESHNET_ROOT="$PWD/root.a" "$MESHNET" node apply-state <<<'{}' >state
    jq -e '.stands == "none" and (.kept | (.by | contains("process ")) and .since > 0 and has("id") == false)' state
    apply --undo --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"note: this goes back to before the apply of 20"*", process $job; what those before it replaced is not kept"* ]]
}
