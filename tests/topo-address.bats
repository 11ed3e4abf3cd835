#!/usr/bin/env bats
# meshnet topo address: cables of a file get numbers, away from what this host uses; what it uses is a
# network namespace with containers' and VPNs' networks.

load helper

setup()
{
    NS=mnadr$$
    export NO_COLOR=1 MESHNET_NODE=a
    unset MESHNET_CONFIG
    cd "$BATS_TEST_TMPDIR"
    cat >bare.yaml <<-END
	version: 1 # a comment
	nodes:
	  - {name: a, nics: [{netdev: p0, device: r0}, {netdev: p1, device: r1}]}
	  - {name: b, nics: [{netdev: p0, device: r0}, {netdev: p1, device: r1}]}
	  - {name: c, nics: [{netdev: p0, device: r0}, {netdev: p1, device: r1}]}
	links:
	  - {ends: [a/p0, b/p1]}
	  - {ends: [b/p0, c/p1]}
	  - {ends: [c/p0, a/p1]}
	END
}

teardown()
{
    ip netns del $NS 2>/dev/null || true
}

address()
{
    run --separate-stderr "$MESHNET" topo address -m "$@"
    echo "$output"
    echo "$stderr"
}

@test "topo address: numbers every cable, and again changes nothing" {
    address bare.yaml --pool 10.66.0.0/16 -o mesh.yaml
    [ "$status" -eq 0 ]
    "$MESHNET" discover --check mesh.yaml
    "$MESHNET" discover --check mesh.yaml --json | jq -e '[.links[].subnet] | sort ==
        ["10.66.0.0/31", "10.66.1.0/31", "10.66.2.0/31"]'
    grep -c 'mtu: 9000' mesh.yaml
    address mesh.yaml -o again.yaml --json
    [ "$status" -eq 0 ]
    jq -e '.kept == 3 and .new == 0 and .pool == null and .written == "again.yaml" and
        ([.cables[] | .state] | unique == ["kept"])' <<<"$output"
    diff mesh.yaml again.yaml
    for node in a b c; do
        "$MESHNET" topo emit netplan --mesh mesh.yaml --node $node | grep -c '10\.66\..*/31'
    done
}

@test "topo address: a node that is added changes no other" {
    address bare.yaml --pool 10.66.0.0/16 -o mesh.yaml
    # It comes first by name, in the file too.
    sed 's/^nodes:/&\n  - {name: "0", nics: [{netdev: p0}]}/; s/\(name: a\b.*\)/\1/; s/^links:/&\n  - {ends: ["0\/p0", c\/p2]}/' \
        mesh.yaml >more.yaml
    sed -i '/name: c$/,/links:/s/^    nics:/&\n      - netdev: p2/' more.yaml
    cat more.yaml
    address more.yaml -o after.yaml --json
    [ "$status" -eq 0 ]
    jq -e '.kept == 3 and .new == 1' <<<"$output"
    for addr in $(grep -o '10\.66\.[0-9.]*/31' mesh.yaml); do
        grep -q "$addr" after.yaml
    done
    grep -q '10\.66\.3\.0/31' after.yaml
}

@test "topo address: writes nothing unasked, and over nothing" {
    cp bare.yaml before
    address bare.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"Nothing is written"* ]]
    address bare.yaml -o bare.yaml
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"bare.yaml exists already"* ]]
    diff before bare.yaml
    [ -z "$(find . -newer bare.yaml -name '*.yaml' ! -name bare.yaml)" ]
    address bare.yaml --force
    [ "$status" -eq 0 ]
    [[ "$output" == *"Wrote bare.yaml"* ]]
    "$MESHNET" discover --check bare.yaml --json | jq -e '[.links[] | select(.subnet == null)] == []'
}

@test "topo address: wrong words, ranges that do not do, a pool that is too small" {
    address bare.yaml --pool 10.9.0.0/30
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"3 cables need a /31 each, and beside what is in use it has room for 2; expected a /29 or wider"* ]]
    address bare.yaml --pool nonsense
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--pool: "*nonsense* ]]
    address bare.yaml --pool 10.9.0.0/16 --ipv6
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"expected one of IPv6"* ]]
    address bare.yaml --prefix 24
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"expected /31 or /30"* ]]
    address bare.yaml --avoid 10.0.0.0/8,x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--avoid: "* ]]
    address bare.yaml --check --renumber
    [ "$status" -eq 2 ]
    address bare.yaml more
    [ "$status" -eq 2 ]
    address bare.yaml --agents
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--agents is for --hosts: which ones?" ]]
    address bare.yaml --port 1
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--port belongs to --agents: add it" ]]
    echo 'version: 1' >none.yaml
    address none.yaml
    [ "$status" -eq 2 ]
    address absent.yaml
    [ "$status" -eq 2 ]
    [ "$(find . -name '*.yaml' | wc -l)" -eq 2 ]
}

@test "topo address: away from addresses and routes of this host, but for its cables" {
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    ip netns add $NS
    ip -n $NS link set lo up
    for nic in p0 wg0 tun0; do
        ip -n $NS link add $nic type veth peer name ${nic}far
        ip -n $NS link set $nic up
        ip -n $NS link set ${nic}far up
    done
    # A cable's end, as it is set up already, and a route to what lies behind it.
    ip -n $NS addr add 10.66.1.0/31 dev p0
    ip -n $NS route add 10.66.9.0/31 via 10.66.1.1
    inside() { nsenter --net=/run/netns/$NS "$MESHNET" topo address -m bare.yaml --json "$@"; }
    [ "$(inside | jq -r .pool)" = 10.66.0.0/16 ]
    ip -n $NS addr add 10.66.200.1/24 dev wg0
    [ "$(inside | jq -r .pool)" = 10.67.0.0/16 ]
    ip -n $NS route add 10.67.0.0/24 dev tun0 table 52
    [ "$(inside | jq -r .pool)" = 10.68.0.0/16 ]
    ip -n $NS route add blackhole 10.68.3.0/24
    [ "$(inside | jq -r .pool)" = 10.69.0.0/16 ]
    [ "$(inside --avoid 10.69.1.1,10.70.0.0/16 | jq -r .pool)" = 10.71.0.0/16 ]
    # In a range that was named what is used is left out.
    inside --pool 10.68.2.0/23 | jq -e '[.cables[].a_address] == ["10.68.2.0/31", "10.68.2.4/31", "10.68.2.3/31"]'
    inside --pool 10.66.200.0/23 -o mesh.yaml
    inside --ipv6 | jq -e '.pool | test("^fd[0-9a-f]{2}:.*/48$")'

    ip -n $NS addr add 10.66.201.77/24 dev tun0
    run nsenter --net=/run/netns/$NS "$MESHNET" topo address -m mesh.yaml --check
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"something else uses the cable's addresses"* ]]
    [[ "$output" == *"10.66.201.0/24: tun0 on "* ]]
}

@test "topo address: away from what other nodes use, by a recorded survey or by asking them" {
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    ip netns add $NS
    ip -n $NS link set lo up
    for nic in p0 docker0 tun0; do
        ip -n $NS link add $nic type veth peer name ${nic}far
        ip -n $NS link set $nic up
        ip -n $NS link set ${nic}far up
    done
    # b has a cable that is set up already, containers, a VPN, and nobody here knows of it.
    ip -n $NS addr add 10.66.1.1/31 dev p0
    ip -n $NS route add 10.66.9.0/31 via 10.66.1.0
    ip -n $NS addr add 10.66.200.1/24 dev docker0
    ip -n $NS route add 10.67.0.0/16 dev tun0
    ip -n $NS route add blackhole 10.68.7.0/24
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	[ \$2 != c ] || { echo "ssh: connect to host c port 22: No route to host" >&2; exit 255; }
	MESHNET_NODE=\$2 exec nsenter --net=/run/netns/$NS sh -c "\$3"
	END
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh HOME=$PWD
    address bare.yaml --json
    [ "$(jq -r .pool <<<"$output")" = 10.66.0.0/16 ]
    address bare.yaml --hosts b --json
    [ "$status" -eq 0 ]
    [ "$(jq -r .pool <<<"$output")" = 10.69.0.0/16 ]
    # The same of a survey, which the probe makes, too; its cables lead nowhere.
    nsenter --net=/run/netns/$NS env MESHNET_NODE=b "$MESHNET" discover --neighbors --wait 1s \
        --save-survey survey.json || [ $? -eq 1 ]
    jq -c '.nodes[0].taken[]' survey.json
    address bare.yaml --survey survey.json --json
    [ "$status" -eq 0 ]
    [ "$(jq -r .pool <<<"$output")" = 10.69.0.0/16 ]
    address bare.yaml --pool 10.67.0.0/16 -o mesh.yaml
    address mesh.yaml --check
    [ "$status" -eq 0 ]
    address mesh.yaml --check --survey survey.json
    [ "$status" -eq 1 ]
    [[ "$output" == *"10.67.0.0/16: a route of tun0 on b"* ]]
    # Who is asked has to answer.
    address bare.yaml --hosts b,c -o no.yaml
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"c: "*"No route to host"* ]]
    [[ "$stderr" == *"what those hosts use is not known"* ]]
    [ ! -e no.yaml ]
    echo '{' >broken.json
    address bare.yaml --survey broken.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"broken.json: it is no JSON"* ]]
}

@test "topo address: --check tells bare cables from good ones" {
    address bare.yaml --check --json
    [ "$status" -eq 1 ]
    jq -e '[.findings[].id] == ["cable-without-address", "cable-without-address", "cable-without-address"]' <<<"$output"
    address bare.yaml -o mesh.yaml
    address mesh.yaml --check
    [ "$status" -eq 0 ]
    [[ "$output" == *"No findings."* ]]
    address bare.yaml --pool 172.20.0.0/16 -o docker.yaml
    address docker.yaml --check
    [ "$status" -eq 0 ]
    [[ "$output" == *"Docker's networks"* ]]
}

@test "topo address: whoever meets bare cables names it" {
    run "$MESHNET" discover --check bare.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"nothing goes over them: a-b, b-c, c-a. meshnet topo address"* ]]
    run --separate-stderr "$MESHNET" discover --check bare.yaml --json
    jq -e '.n_bare_links == 3 and ([.links[].subnet] | unique == [null])' <<<"$output"
    run --separate-stderr "$MESHNET" env --mesh bare.yaml
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"nothing goes: a-b, b-c, c-a; meshnet topo address"* ]]
    export MESHNET_TOKEN=00112233445566778899aabbccddeeff
    run --separate-stderr "$MESHNET" bench --links --mesh bare.yaml --hosts a,b,c
    echo "$stderr"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"no cable of the mesh file has addresses yet (a-b, b-c, c-a): meshnet topo address"* ]]
    # Numbered, they are no longer spoken of.
    "$MESHNET" topo address -m bare.yaml -o mesh.yaml
    run "$MESHNET" discover --check mesh.yaml
    [[ "$output" != *"topo address"* ]]
    run --separate-stderr "$MESHNET" env --mesh mesh.yaml
    [[ "$stderr" != *"topo address"* ]]
}

@test "topo address: a pool of loopback, multicast, link-local or reserved addresses is refused" {
    local pool
    for pool in 127.0.0.0/8 224.0.0.0/4 0.0.0.0/1 240.0.0.0/4 169.254.0.0/16; do
        address bare.yaml --pool "$pool" -o mesh.yaml
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"the pool $pool holds addresses that are "* ]]
    done
    for pool in ff00::/8 ::/16 fe80::/64; do
        address bare.yaml --ipv6 --pool "$pool" -o mesh.yaml
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"the pool $pool holds addresses that are "* ]]
    done
    [ ! -e mesh.yaml ]
}
