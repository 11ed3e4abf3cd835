#!/usr/bin/env bats
# meshnet serve by itself; tests/bench.bats has it with clients.

load helper

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN
    cd "$BATS_TEST_TMPDIR"
}

serve()
{
    run --separate-stderr timeout 20 "$MESHNET" serve "$@"
    echo "$output"
    echo "$stderr"
}

# SIGINT ends it, with 0. It was started without timeout(1), which a signal ends with 130 as long as it has
# not come back from its fork, though its child listens by then.
interrupt_server()
{
    kill -INT "$SERVER"
    timeout 60 tail --pid="$SERVER" -f /dev/null
    wait "$SERVER"
}

# served OUT ERR OPTION…: until it listens, then it is interrupted.
served()
{
    start_server "$1" "$2" "$MESHNET" serve "${@:3}"
    interrupt_server
    cat "$1" "$2"
}

@test "serve: an address that is not this host's fails with the address" {
    serve --listen 198.51.100.7
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"198.51.100.7 port 18515"* ]]
}

@test "serve: wrong usage" {
    serve --listen nonsense
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--listen nonsense: no such host"* ]]
    serve --port 70000
    [ "$status" -eq 2 ]
    serve --clients 0
    [ "$status" -eq 2 ]
    serve operand
    [ "$status" -eq 2 ]
}

@test "serve: a plugin that cannot be loaded is refused at the start, a device that is not there is told" {
    serve --plugin nope --port "$(free_port)" --listen 127.0.0.1
    [ "$status" -eq 2 ]
    [[ "$stderr" == "meshnet serve: the plugin nope cannot be loaded: "* ]]
    [[ "$output" != *listening* ]]
    serve --plugin "$MESHNET" --port "$(free_port)" --listen 127.0.0.1
    [ "$status" -eq 2 ]
    export NCCL_SOCKET_IFNAME=lo
    served out err --device 99 --port "$(free_port)" --listen 127.0.0.1
    [ "$(cat err)" = "meshnet serve: --device 99: the plugin offers 1 devices now, from 0 on" ]
    served out err --plugin "$PLUGIN" --abi 8 --port "$(free_port)" --listen 127.0.0.1
    [ ! -s err ]
}

@test "serve: a token file that is none is named" {
    echo "too short" >"$BATS_TEST_TMPDIR/token"
    serve --token-file "$BATS_TEST_TMPDIR/token"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$BATS_TEST_TMPDIR/token"*"32 hexadecimal"* ]]
    serve --token-file "$BATS_TEST_TMPDIR/none"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$BATS_TEST_TMPDIR/none"* ]]
}

@test "serve: without a token file it prints a fresh token each time, and ends on SIGINT" {
    for n in 1 2; do
        served $n err --port "$(free_port)" --listen 127.0.0.1
        grep -Eq '^token [0-9a-f]{32} ' $n
    done
    [ "$(grep ^token 1)" != "$(grep ^token 2)" ]
}

@test "serve: a token is printed when it listens, and not before" {
    serve --listen 198.51.100.7
    [ "$status" -eq 1 ]
    [[ "$output" != *token* ]]
    served out err --port "$(free_port)" --listen 127.0.0.1
    grep -A 1 ^listening out | tail -n 1 | grep -Eq '^token [0-9a-f]{32} .*MESHNET_TOKEN.*--token-file'
}

@test "serve: takes MESHNET_TOKEN, and says of a bad one what it is and both ways to give it" {
    export MESHNET_TOKEN=00112233445566778899aabbccddeeff NCCL_SOCKET_IFNAME=lo
    port=$(free_port)
    start_server out err timeout 60 "$MESHNET" serve --port "$port" --listen 127.0.0.1 --once
    run --separate-stderr timeout 60 "$MESHNET" bench --peer 127.0.0.1 --port "$port" --sizes 8 --iters 3
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
    wait "$SERVER"
    cat out err
    run ! grep token out
    MESHNET_TOKEN=short serve --listen 127.0.0.1
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"MESHNET_TOKEN: no token: "*"32 hexadecimal"*"--token-file FILE"* ]]
    echo short >file
    serve --listen 127.0.0.1 --token-file file
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--token-file: no token: file: "*"32 hexadecimal"*"MESHNET_TOKEN"* ]]
    unset MESHNET_TOKEN
    run --separate-stderr timeout 60 "$MESHNET" bench --peer 127.0.0.1
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"which token?"*"MESHNET_TOKEN"*"--token-file FILE"* ]]
}

@test "serve: without a mesh file it says why it listens on loopback only, and what to do" {
    port=$(free_port)
    served out err --port "$port"
    grep -q "^listening at 127.0.0.1 port $port" out
    grep -q 'no mesh file.*loopback only.*--listen ADDRESS.*meshnet discover' err
    # Who says where has decided it.
    served out err --port "$(free_port)" --listen 127.0.0.1
    run ! grep loopback err
}

@test "serve: of more addresses than it takes the first are listened at, and it says so" {
    export MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_NODE=a
    local i nic
    printf 'version: 1\nnodes:\n  - name: a\n    nics:\n' >mesh.yaml
    for nic in 1 2 3 4; do
        echo "      - {netdev: n$nic, addresses: [127.0.$nic.1/24, 127.0.$nic.2/24, 127.0.$nic.3/24, 127.0.$nic.4/24, 127.0.$nic.5/24]}" >>mesh.yaml
    done
    for i in '' '--listen a'; do
        served out err --port "$(free_port)" $i
        [ "$(grep -c ^listening out)" -eq 16 ]
        grep -q 'listens at the first 16 of 20 addresses .*--listen ADDRESS' err
    done
    # Who says which is asked nothing more.
    served out err --port "$(free_port)" --listen 127.0.4.5
    [ ! -s err ]
}

@test "serve: an address of a single link in the mesh file is passed over" {
    export MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_NODE=a
    echo 'version: 1
nodes: [{name: a, nics: [{netdev: lo, addresses: ["fe80::1/64", 127.0.0.1/8]}]}]' >mesh.yaml
    local port option
    for option in '' '--listen a'; do
        port=$(free_port)
        served out err --port "$port" $option
        [ "$(grep ^listening out)" = "listening at 127.0.0.1 port $port" ]
        [ ! -s err ]
    done
}

@test "serve: an address of the mesh file that this host does not have is said, and it goes on with the others" {
    export MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_NODE=a
    port=$(free_port)
    echo 'version: 1
nodes: [{name: a, nics: [{netdev: lo, addresses: [198.51.100.7/24, 127.0.0.1/8]}]}]' >mesh.yaml
    served out err --port "$port"
    [ "$(grep ^listening out)" = "listening at 127.0.0.1 port $port" ]
    grep -q '^meshnet serve: goes on without an address of the mesh file: listening at 198.51.100.7 port' err
    # Without any other it cannot.
    sed -i 's|, 127.0.0.1/8||' mesh.yaml
    serve --port "$port"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"198.51.100.7 port $port"* ]]
    # Nor may what is another's be left out.
    echo 'version: 1
nodes: [{name: a, nics: [{netdev: lo, addresses: [127.0.0.1/8, 127.0.0.2/32]}]}]' >mesh.yaml
    start_server out err "$MESHNET" serve --port "$port" --listen 127.0.0.2
    serve --port "$port"
    interrupt_server
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"127.0.0.2 port $port"* ]]
}
