#!/usr/bin/env bats
# Ports and firewalls between network namespaces: what plugin.port_range lets through, and what is
# said of a port that does not answer.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mno$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN "${!NCCL_@}"
    export NO_COLOR=1
    cd "$BATS_TEST_TMPDIR"
    echo 00112233445566778899aabbccddeeff >token
    for node in a b; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    cable a ab 10.1.0.0/31 b ba 10.1.0.1/31
    # An address that was there a while ago is asked after at once, not in 5 s.
    ip -n $NS-a ntable change name arp_cache dev ab delay_probe 100
    ip -n $NS-b ntable change name arp_cache dev ba delay_probe 100
    SERVER=''
}

teardown()
{
    [ -z "$SERVER" ] || kill $SERVER 2>/dev/null || true
    wait
    for node in a b; do
        ip netns del $NS-$node 2>/dev/null || true
    done
}

# firewall NODE: lets nothing in but answers; skips where this kernel has none.
firewall()
{
    on "$1" nft "add table inet filter; add chain inet filter input \
        { type filter hook input priority 0; policy drop; }; \
        add rule inet filter input ct state established,related accept; \
        add rule inet filter input meta l4proto { icmp, ipv6-icmp } accept" ||
        skip "this kernel has no nftables"
}

# readme_rules FIRST_WORD: the lines of the README that begin with it.
readme_rules()
{
    sed -n "/^## Ports/,/^## GPU/p" "$BATS_TEST_DIRNAME/../README.md" | grep "^$1 "
}

@test "ports: with the README's rules a firewall lets bench through, within plugin.port_range" {
    firewall a
    firewall b
    readme_rules nft >rules
    [ "$(wc -l <rules)" -eq 2 ]
    on a sh -e rules
    on b sh -e rules
    export MESHNET_PORT_RANGE
    MESHNET_PORT_RANGE=$(readme_rules nft | grep -o '[0-9]*-[0-9]*')
    serve b --listen 10.1.0.1
    run on a timeout 60 "$MESHNET" bench --token-file token --peer 10.1.0.1 --sizes 8 \
        --tests bandwidth --iters 10
    echo "$output"
    [ "$status" -eq 0 ]
}

bench()
{
    run --separate-stderr on a env "${@:2}" timeout 60 "$MESHNET" bench --token-file token \
        --peer "$1" --sizes 8 --tests bandwidth --iters 10 --timeout 8s
    echo "$output$stderr"
}

# What a firewall does that drops a port, without one: answers from there find no way back.
silent_from_port()
{
    ip -n "$NS-$1" rule add ipproto tcp sport "$2" blackhole
}

@test "ports: refused, no answer, no carrier, no route and nobody there are told apart" {
    bench 10.1.0.1
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 10.1.0.1 port 18515: connection refused: is meshnet serve running there?"* ]]
    silent_from_port b 18515
    bench 10.1.0.1
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 10.1.0.1 port 18515: no answer in time while connecting; its host is there (ARP) and silent at port 18515: a firewall?"* ]]
    bench 10.2.0.1
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 10.2.0.1 port 18515: this host has no route there"* ]]
    ip -n $NS-a route add prohibit 10.3.0.0/24
    bench 10.3.0.1
    [[ "$stderr" == *"peer 10.3.0.1 port 18515: this host forbids it"* ]]
    ip -n $NS-a route add blackhole 10.4.0.0/24
    bench 10.4.0.1
    [[ "$stderr" == *"peer 10.4.0.1 port 18515: this host drops it"* ]]
    ip -n $NS-b addr del 10.1.0.1/31 dev ba
    ip -n $NS-a neigh flush dev ab
    bench 10.1.0.1
    [[ "$stderr" == *"peer 10.1.0.1 port 18515: nobody answers (No route to host); not even for the address (no answer to ARP): "* ]]
    ip -n $NS-b link set ba down
    for _ in $(seq 100); do
        ! ip -n $NS-a -o link show ab | grep -q "state UP" || sleep 0.1
    done
    bench 10.1.0.1
    [[ "$stderr" == *"peer 10.1.0.1 port 18515: "*"; ab has no carrier: the cable is out"* ]]
}

@test "ports: the control connection's port answers, the plugin's does not: bench says which, either way" {
    local port=$((40000 + RANDOM % 10000))
    start_server serve.out serve.err nsenter --net=/run/netns/$NS-b env MESHNET_PORT_RANGE=$port-$port \
        timeout -k 1 120 "$MESHNET" serve --token-file token --listen 10.1.0.1
    silent_from_port b $port
    bench 10.1.0.1
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 10.1.0.1 port $port over ab: nobody answers; its host is there (ARP) and silent at port $port: a firewall?"* ]]
    [[ "$stderr" == *"Port 18515 there answers, $port does not: a firewall? Let plugin.port_range through it"* ]]
    [[ "$stderr" != *GID* ]]
    ip -n $NS-b rule del ipproto tcp sport $port blackhole
    silent_from_port a $port
    bench 10.1.0.1 MESHNET_PORT_RANGE=$port-$port
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 10.1.0.0 port $port over ba: nobody answers; its host is there (ARP) and silent at port $port: a firewall?"* ]]
    [[ "$stderr" != *GID* ]]
}
