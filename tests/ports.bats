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

serve()
{
    local node=$1
    shift
    start_server serve.out serve.err nsenter --net=/run/netns/$NS-"$node" \
        timeout -k 1 120 "$MESHNET" serve --token-file token "$@"
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
