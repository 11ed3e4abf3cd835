#!/usr/bin/env bats
# From bare cables to a checked mesh: discover --neighbors, topo address, topo apply, bench --links, on
# machines whose NICs have no addresses. A ring; LAB_SHAPES=all: a line and a full mesh of four as well.
# Then what apply promises: a machine that is started anew comes up as applied, and one that cuts off its
# own way comes back.

load helper
load traffic

NODES='spark-a spark-b spark-c spark-d'

setup()
{
    cd "$BATS_TEST_TMPDIR"
}

teardown()
{
    lab_down
}

# mesh_of SHAPE: a mesh file for ci/lab, whose addresses go again (bare).
mesh_of()
{
    local cable a b n=0
    declare -A nics
    case $1 in
    ring) set -- a:b b:c c:d d:a ;;
    line) set -- a:b b:c c:d ;;
    full) set -- a:b a:c a:d b:c b:d c:d ;;
    esac
    for cable; do
        n=$((n + 1))
        a=${cable%:*} b=${cable#*:}
        nics[$a]+="      - {netdev: p$n, device: rxe$n, addresses: [10.9.$n.1/24]}"$'\n'
        nics[$b]+="      - {netdev: p$n, device: rxe$n, addresses: [10.9.$n.2/24]}"$'\n'
    done
    printf 'version: 1\nnodes:\n'
    for a in a b c d; do
        printf -- '  - name: spark-%s\n    nics:\n%s' "$a" "${nics[$a]}"
    done
}

# boot SHAPE: its machines, with cables and without addresses.
boot()
{
    local node
    mesh_of "$1" >lab.yaml
    lab_up "$PWD/lab.yaml"
    for node in $NODES; do
        bare_on $node
    done
}

# bare_on NODE: no addresses on its cables, and an agent that may change that.
bare_on()
{
    on "$1" 'for nic in $(cd /sys/class/net && ls -d p*); do ip addr flush dev $nic scope global; done'
    agent_on "$1"
}

# agent_on NODE: meshnet serve, without a mesh file or with the one that it has been given.
agent_on()
{
    on "$1" "! [ -e /root/agent ] || kill \$(</root/agent)
        (umask 077; echo $TOKEN >/root/token)
        rm -f /root/serve.out
        $SLOW setsid $MESHNET serve --listen 0.0.0.0 --manage --clients 4 \
            --token-file /root/token >/root/serve.out 2>&1 &
        echo \$! >/root/agent
        for i in {1..300}; do
            ! grep -q listening /root/serve.out || exit 0
            sleep 0.1
        done
        cat /root/serve.out
        exit 1"
}

ALL='--hosts spark-a,10.255.0.2,10.255.0.3,10.255.0.4 --agents --token-file /root/token'

# at_a WORD…: meshnet on the first node.
at_a()
{
    run --separate-stderr on spark-a "cd /root && $SLOW $MESHNET $*"
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
}

# state_on NODE: of its cables.
state_on()
{
    on "$1" 'ip -j addr show' | jq -c '[.[] | select(.ifname | startswith("p")) | {ifname, mtu,
        addrs: [.addr_info[] | select(.scope == "global") | "\(.local)/\(.prefixlen)"]}]'
    on "$1" 'ip route show | grep -v "dev mgmt" | sed "s/ proto static//; s/ *$//" | sort
        cat /proc/sys/net/ipv4/conf/p*/{forwarding,rp_filter}'
}

# to_bench SHAPE CABLES: the four commands.
to_bench()
{
    local node
    boot "$1"
    at_a discover --neighbors $ALL -o bare.yaml
    at_a topo address --mesh bare.yaml -o mesh.yaml
    at_a topo apply --mesh mesh.yaml $ALL --yes --rollback 120s
    [ "$(grep -c ' kept' <<<"$output")" -eq 4 ]
    [ "$(grep -c ' answers ' <<<"$output")" -eq $((2 * $2)) ]
    at_a push mesh.yaml $ALL --to /etc/meshnet/mesh.yaml
    for node in $NODES; do
        agent_on $node
    done
    at_a bench --links $ALL --sizes 16K --iters 8 --warmup 1 --json
    jq -e --argjson n "$2" '[.. | objects | select(.mode? == "link")] | length == $n and
        all(.[]; .status == "ok" and .transport == "RDMA")' <<<"$output"
}

@test "bare: a ring of four, from cables to bench; a node that is started anew; one that cuts itself off" {
    to_bench ring 4
    state_on spark-b >applied
    on spark-b cat /etc/meshnet/meshnet-ip.sh >boot.sh
    grep -q '"spark-b"' <<<"$(on spark-a cat /root/mesh.yaml | sed 's/name: \(spark-b\)$/"\1"/')"

    # Its memory is all that it writes into: what a disk would have kept is put back.
    lab kill spark-b
    lab start spark-b
    on spark-b 'for nic in $(cd /sys/class/net && ls -d p*); do ip addr flush dev $nic scope global; done'
    lab sync
    # The lab's kernel may have no nf_tables, with which the script ends.
    on spark-b "sh $PWD/boot.sh || ! nft list tables"
    state_on spark-b | diff applied -
    agent_on spark-b

    # Another address for the NIC by which it is reached.
    state_on spark-b >before
    on spark-b 'ip addr show dev mgmt | grep inet' >before.mgmt
    on spark-a 'sed "/name: spark-b$/,/nics:/s/nics:/&\n      - {netdev: mgmt, addresses: [10.254.0.2\/24]}/" /root/mesh.yaml' >cut.yaml
    lab sync
    run --separate-stderr on spark-a "cd /root && $MESHNET topo apply --mesh $PWD/cut.yaml $ALL \
        --yes --rollback 20s --take spark-b/mgmt"
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"1 node could not be told to undo it: waiting for its timer"* ]]
    [[ "$output" == *"spark-b "*"undone: nobody confirmed it in time"* ]]
    state_on spark-b | diff before -
    on spark-b 'ip addr show dev mgmt | grep inet' | diff before.mgmt -
}

@test "bare: a line of four" {
    [ "${LAB_SHAPES-}" = all ] || skip "by hand: LAB_SHAPES=all"
    to_bench line 3
}

@test "bare: a full mesh of four" {
    [ "${LAB_SHAPES-}" = all ] || skip "by hand: LAB_SHAPES=all"
    to_bench full 6
}
