#!/usr/bin/env bats
# Strangers at the plugin's ports while one good peer connects, on loopback, over TCP and over the
# double of libibverbs. These are short; the long form is tests/drivers/flood.c without options and
# with --within 2000.

load helper

setup()
{
    export NCCL_SOCKET_IFNAME=lo NCCL_SOCKET_FAMILY=AF_INET
    unset MESHNET_CONFIG MESHNET_NODE
    FLOOD=$BUILD/tests/flood
    [ -x "$FLOOD" ] || skip "the driver is not built"
}

# flood ARGUMENT…: all connect, in one attempt or more, and the strangers cost next to nothing.
flood()
{
    run timeout 200 "$FLOOD" --lib "$PLUGIN" --times 5 "$@"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"connected: 5 of 5,"* ]]
    [[ "$output" =~ at\ most\ ([0-9]+)$'\n'memory:\ peak\ [0-9]+\ KiB,\ (-?[0-9]+)\ KiB ]]
    # A share of the 1024 descriptors, and no memory but the tables' of listeners.
    [ "${BASH_REMATCH[1]}" -lt 400 ]
}

@test "hostile: HELLOs without the handle, silent sockets and half frames: a peer connects, over TCP" {
    flood --ports 8 --silent 40 --half 200 --hellos 1000
}

@test "hostile: the same over verbs, and at the door for control connections that come back" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs FAKEVERBS=seed=1
    [ -e "$LD_LIBRARY_PATH/libibverbs.so.1" ] || skip "the double is not built"
    MESHNET_ALLOW_TCP=false flood --ports 8 --silent 40 --half 200 --hellos 1000
    [[ "$output" =~ at\ the\ door:\ [1-9] ]]
}

@test "hostile: more silent sockets than the process has descriptors" {
    flood --ports 16 --silent 66 --half 0 --hellos 0
}
