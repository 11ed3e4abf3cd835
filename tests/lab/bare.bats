#!/usr/bin/env bats
# From bare cables to a checked mesh: discover --neighbors, topo address, topo apply, bench --links, on
# machines whose NICs have no addresses. A ring; LAB_SHAPES=all: a line and a full mesh of four as well.
# Then what apply promises: a machine that is started anew comes up as applied, and one that cuts off its
# own way comes back.

load helper
load traffic
load shapes

setup()
{
    cd "$BATS_TEST_TMPDIR"
}

teardown()
{
    lab_down
}

# state_on NODE: of its cables.
state_on()
{
    on "$1" 'ip -j addr show' | jq -c '[.[] | select(.ifname | startswith("p")) | {ifname, mtu,
        addrs: [.addr_info[] | select(.scope == "global") | "\(.local)/\(.prefixlen)"]}]'
    on "$1" 'ip route show | grep -v "dev mgmt" | sed "s/ proto static//; s/ *$//" | sort
        cat /proc/sys/net/ipv4/conf/p*/{forwarding,rp_filter}'
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
    by_hand
    to_bench line 3
}

@test "bare: a full mesh of four" {
    by_hand
    to_bench full 6
}
