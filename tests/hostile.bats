#!/usr/bin/env bats
# Strangers at the plugin's ports while one good peer connects, on loopback, over TCP and over the
# double of libibverbs. These are short; the long form is tests/drivers/flood.c without options and
# with --within 2000 (over RDMA also --cut 1). And strangers at relayd's doors: fleet/relay/engine_stranger_test.c has them
# beside flows that pass through it.

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
    MESHNET_ALLOW_TCP=false flood --ports 8 --silent 40 --half 200 --hellos 1000 --cut 1
    [[ "$output" =~ at\ the\ door:\ [1-9] ]]
}

@test "hostile: more silent sockets than the process has descriptors" {
    flood --ports 16 --silent 66 --half 0 --hellos 0
}

# relay_flood UID: as that user, all kinds of strangers at the doors of relayd, held open: "held N" when
# they are, and until its standard input ends.
relay_flood()
{
    cat >strangers.py <<-'END'
	import os, resource, socket, sys
	resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
	os.setuid(int(sys.argv[1]))
	greeting = b"MNRL\1\0\0\0" + bytes(range(16))
	held = []
	def stranger(address, family, words):
	    s = socket.socket(family)
	    s.settimeout(2)
	    try:
	        s.connect(address)
	        s.sendall(words)
	    except OSError:
	        pass  # it has been closed at once, or the queue is full
	    held.append(s)
	for i in range(400):
	    for words in b"", greeting[:11], greeting, greeting + bytes(29), os.urandom(300):
	        stranger(("127.0.0.1", int(sys.argv[2])), socket.AF_INET, words)
	    for words in b"", b"sig", b"state", b"sign" + bytes(36) + b"\1" + bytes(12), os.urandom(300):
	        if i < 300:
	            stranger(sys.argv[3], socket.AF_UNIX, words)
	print("held", len(held), flush=True)
	sys.stdin.read()
	END
    python3 strangers.py "$@"
}

# of_relayd: its descriptors, and its memory in KiB.
of_relayd()
{
    echo "$(ls /proc/"$SERVER"/fd | wc -l) $(awk '$1 == "VmRSS:" { print $2 }' /proc/"$SERVER"/status)"
}

@test "hostile: thousands of strangers at relayd's doors, and a user without rights: it answers others, and stays small" {
    [ "$(id -u)" -eq 0 ] || skip "other users want root"
    PLACE=$(mktemp -d)
    chmod 755 "$PLACE"
    cd "$PLACE"
    (umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' ' >key)
    export MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_NODE=a
    port=$(free_port)
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - {name: a, nics: [{netdev: lo, addresses: [127.0.0.1/8]}]}
	  - {name: b, nics: [{netdev: x, addresses: [127.0.0.2/8]}]}
	plugin: {key_file: $PWD/key}
	relay: {socket: $PWD/sock, port: $port, buffers: 8M}
	END
    start_server out err "$MESHNET" relayd
    read -r descriptors memory < <(of_relayd)
    mkfifo hold
    relay_flood 4711 "$port" "$PWD/sock" <hold >held 3>&- &
    flood=$!
    exec 4>hold
    # While they come, and when they are all there.
    until grep -q held held; do
        # Each waits for 2 s: less than a busy host may take.
        "$MESHNET" relayd --status --json >state || "$MESHNET" relayd --status --json >state
        kill -0 "$flood"
    done
    "$MESHNET" relayd --status --json >state
    cat held state
    [ "$(jq -r .node state)" = a ]
    read -r now grown < <(of_relayd)
    echo "descriptors: $descriptors, with strangers $now; memory: $memory KiB, with strangers $grown KiB"
    exec 4>&-
    wait "$flood"
    kill "$SERVER"
    wait "$SERVER"
    cat err
    rm -rf "$PLACE"
    # 512 that are greeted, 64 at the local socket, and the few that have said half a word.
    [ "$now" -lt 700 ]
    [ $((grown - memory)) -lt 16384 ]
}
