#!/usr/bin/env bats
# meshnet discover --hosts: nodes in namespaces, each asked by a script in the place of ssh.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    unset MESHNET_CONFIG MESHNET_TOKEN
    # localhost is this node, and not one of the mesh.
    export NO_COLOR=1 MESHNET_NODE=elsewhere XDG_CONFIG_HOME=/nonexistent
    NS=mndh$$
    cd "$BATS_TEST_TMPDIR"
    for node in a b c; do
        ip netns add "$NS-$node"
        ip -n "$NS-$node" link set lo up
    done
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	[ "\$2" != gone ] || { echo "no route to host" >&2; exit 255; }
	node=\${2%.twin}
	MESHNET_NODE=\$node exec nsenter --net=/run/netns/$NS-\$node sh -c "\$3"
	END
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
    cable a to-b 10.81.1.0/31 b to-a 10.81.1.1/31
    cable b to-c 10.81.2.1/30 c to-b 10.81.2.2/30
    cable a to-c 10.81.3.1/24 c to-a 10.81.3.2/24
}

teardown()
{
    [ -z "${SERVER:-}" ] || { kill "$SERVER" 2>/dev/null; wait "$SERVER"; } || true
    printf "netns del $NS-%s\n" a b c | ip -force -batch - 2>/dev/null || true
}

discover()
{
    run --separate-stderr timeout -k 1 100 "$MESHNET" discover "$@"
    echo "$output"
    echo "$stderr"
}

# as_by_hand FILE: what each host writes and --merge puts together, but for the order of nodes.
as_by_hand()
{
    for node in a b c; do
        on $node "$MESHNET" discover --node $node -o hand.$node.yaml >/dev/null
    done
    "$MESHNET" discover --merge -o hand.yaml hand.{a,b,c}.yaml >/dev/null
    "$MESHNET" discover --check hand.yaml | sed 's/^File: .*//' >hand
    "$MESHNET" discover --check "$1" | sed 's/^File: .*//' | diff hand -
}

@test "discover --hosts: one file with what each host would write" {
    discover --hosts a,b,c -o mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"Wrote mesh.yaml: 3 nodes, 3 links, full mesh"* ]]
    as_by_hand mesh.yaml
    # Nothing is written over without being told, and that is known before anybody is asked.
    cp mesh.yaml before
    discover --hosts gone -o mesh.yaml
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"mesh.yaml exists; --merge adds to it, --force replaces it"* ]]
    [[ "$stderr" != *"no route"* ]]
    cmp before mesh.yaml
    discover --hosts b,a --force -o mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"Wrote mesh.yaml: 2 nodes, 1 link, pair"* ]]
}

@test "discover --hosts: without a file the mesh is shown" {
    discover --hosts a,b,c --json
    [ "$status" -eq 0 ]
    jq -e '.shape == "full mesh" and ([.nodes[].node] == ["a", "b", "c"]) and (.links | length) == 3' <<<"$output"
    [ -z "$(ls ./*.yaml 2>/dev/null)" ]
}

@test "discover --hosts: a host that fails is named, and the file is written with --partial alone" {
    discover --hosts a,gone,b -o mesh.yaml
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"gone: ssh did not get there: no route to host"* ]]
    [[ "$stderr" == *"mesh.yaml is not written: 1 host failed; --partial writes it with the others"* ]]
    [ ! -e mesh.yaml ]
    discover --hosts a,gone,b -o mesh.yaml --partial
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"gone: "* ]]
    [[ "$output" == *"Wrote mesh.yaml: 2 nodes, 1 link, pair"* ]]
    discover --hosts gone -o none.yaml --partial
    [ "$status" -eq 1 ]
    [ ! -e none.yaml ]
}

@test "discover --hosts: JSON has the hosts that failed" {
    discover --hosts a,gone,b --json
    [ "$status" -eq 1 ]
    jq -e '[.nodes[].node] == ["a", "b"] and [.failed[].host] == ["gone"] and
        (.failed[0].error | startswith("gone: ssh did not get there"))' <<<"$output"
    discover --hosts a,b --json
    jq -e '.failed == []' <<<"$output"
}

@test "discover --hosts: --merge does not put another machine of the same name in a node's place" {
    discover --hosts a,b -o mesh.yaml
    cp mesh.yaml before.yaml
    # Another a, at other cables.
    for nic in to-b to-c; do
        mac=$(ip -n $NS-a -j link show $nic | jq -r '.[].address')
        ip -n $NS-a link set $nic address "02:77${mac:5}"
    done
    discover --hosts a,c -o mesh.yaml --merge
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"a calls itself a, and is another machine than the a of mesh.yaml: "*--force* ]]
    diff before.yaml mesh.yaml
    discover --hosts a,c -o mesh.yaml --merge --force
    [ "$status" -eq 0 ]
    grep -q '02:77' mesh.yaml
}

@test "discover --hosts: --merge keeps what the file has, its roles, too" {
    discover --hosts a,b -o mesh.yaml
    printf 'transport:\n  silence: 30s\n' >>mesh.yaml
    sed -i '0,/netdev: to-c/s//&\n        role: management/' mesh.yaml
    "$MESHNET" discover --check mesh.yaml --json >before
    managed=$(jq -r '[.nics[] | select(.role == "management") | .node + "/" + .nic] | join(" ")' before)
    [ "$managed" = a/to-c ]
    discover --hosts a,c -o mesh.yaml --merge
    [ "$status" -eq 0 ]
    grep -q 'silence: 30s' mesh.yaml
    "$MESHNET" discover --check mesh.yaml --json >after
    [ "$(jq -r '[.nodes[].node] | sort | join(" ")' after)" = "a b c" ]
    [ "$(jq -r '[.nics[] | select(.role == "management") | .node + "/" + .nic] | join(" ")' after)" = "$managed" ]
    [ "$(jq '.links | length' after)" -eq 2 ]
    discover --hosts a,c -o mesh.yaml --merge --take a/to-c
    [ "$status" -eq 0 ]
    [ "$("$MESHNET" discover --check mesh.yaml --json | jq '.links | length')" -eq 3 ]
}

@test "discover --hosts: --skip and --take, and names that nobody has" {
    discover --hosts a,b,c -o mesh.yaml --skip to-c
    [ "$status" -eq 0 ]
    [ "$("$MESHNET" discover --check mesh.yaml --json | jq -r '[.nics[] | .node + "/" + .nic] | join(" ")')" = \
        "a/to-b b/to-a c/to-b c/to-a" ]
    discover --hosts a,b -o other.yaml --skip nothing
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--skip nothing: no host has such a NIC"* ]]
    discover --hosts a,b -o other.yaml --take nothing
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--take nothing: no file has such a NIC"* ]]
    [ ! -e other.yaml ]
}

@test "discover --hosts: two hosts of one name, and addresses that two have" {
    discover --hosts a,a.twin -o mesh.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"a and a.twin both call themselves a; expected one host under one name"* ]]
    ip -n $NS-c addr add 10.81.1.1/31 dev to-b
    discover --hosts a,b,c -o mesh.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"c, merged with those before it: "*10.81.1.1* ]]
    [ ! -e mesh.yaml ]
}

@test "discover --hosts: options that go with others" {
    for bad in "--hosts a --node x -o m" "--hosts a --check m" "--hosts a --merge" "--hosts a m" \
        "--hosts a --wait 1s" "--agents" "--partial" "--wait 1s" "--hosts a --sysfs /sys"; do
        # shellcheck disable=SC2086
        discover $bad
        [ "$status" -eq 2 ]
    done
}

@test "discover --hosts: by agents; push, too, where they may change their host, to its place alone" {
    export MESHNET_TOKEN=00112233445566778899aabbccddeeff
    mkdir -p home/meshnet
    port=$(free_port)
    start_server serve.out serve.err on a env MESHNET_NODE=a MESHNET_CONFIG="$PWD/home/meshnet/mesh.yaml" \
        timeout -k 1 120 "$MESHNET" serve --listen 10.81.1.0 --port "$port" --manage
    run --separate-stderr on b env MESHNET_NODE=b timeout 60 "$MESHNET" discover --hosts 10.81.1.0,localhost \
        --agents --port "$port" -o mesh.yaml
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [[ "$output" == *"Wrote mesh.yaml: 2 nodes, 1 link, pair"* ]]
    run --separate-stderr on b env MESHNET_NODE=b timeout 60 "$MESHNET" push mesh.yaml --hosts 10.81.1.0 \
        --agents --port "$port" --json
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq -r '.hosts[0] | .had + " " + .now + " " + .node' <<<"$output")" = "none written a" ]
    cmp mesh.yaml home/meshnet/mesh.yaml
    # No path that whoever asks names.
    echo '{"path": "'"$PWD"'/stolen.yaml", "text": "version: 1"}' >ask
    run --separate-stderr on b env MESHNET_NODE=b timeout 60 "$MESHNET" node put-mesh-at --hosts 10.81.1.0 \
        --agents --port "$port" <ask
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$(jq -r .error <<<"$output")" == *"is not for a meshnet serve to do: ask over ssh"* ]]
    [ ! -e stolen.yaml ]
}
