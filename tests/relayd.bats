#!/usr/bin/env bats
# meshnet relayd by itself: what it needs, says and takes, and what a service manager sees of it.
# tests/relay.bats has it with traffic.

load helper
load namespaces

setup_file()
{
    export NS=mrd$$
    ip netns add $NS-b 2>/dev/null || return 0
    ip netns add $NS-a
    cable b ba 10.47.1.2/24 a ab 10.47.1.1/24
    cable b bc 10.47.2.2/24 a cb 10.47.2.3/24
}

teardown_file()
{
    ip -n $NS-b link del ba 2>/dev/null || true
    ip -n $NS-b link del bc 2>/dev/null || true
    ip netns del $NS-a 2>/dev/null || true
    ip netns del $NS-b 2>/dev/null || true
}

setup()
{
    ip netns exec $NS-b true 2>/dev/null || skip "network namespaces need root"
    export MESHNET_NODE=b NO_COLOR=1
    unset MESHNET_LOG NOTIFY_SOCKET LISTEN_FDS LISTEN_PID WATCHDOG_USEC
    RELAYD=
    # For users that are not root.
    PLACE=$(mktemp -d)
    cd "$PLACE"
    chmod 755 .
    export MESHNET_CONFIG=$PWD/mesh.yaml
    SOCKET=$PWD/relay.sock
    (umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' ' >key)
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - {name: a, nics: [{netdev: ab, addresses: [10.47.1.1/24]}]}
	  - {name: b, nics: [{netdev: ba, addresses: [10.47.1.2/24]}, {netdev: bc, addresses: [10.47.2.2/24]}]}
	  - {name: c, nics: [{netdev: cb, addresses: [10.47.2.3/24]}]}
	plugin: {key_file: $PWD/key}
	relay: {socket: $SOCKET, buffers: 32M}
	END
}

teardown()
{
    if [ -n "$RELAYD" ]; then
        kill -9 "$RELAYD" 2>/dev/null || true
    fi
    rm -rf "${PLACE:-}"
    ip -n $NS-b link set away name bc 2>/dev/null || true
    ip -n $NS-b link set bc up 2>/dev/null || true
    ip -n $NS-b addr replace 10.47.2.2/24 dev bc 2>/dev/null || true
}

relayd()
{
    run --separate-stderr on b timeout 20 "$MESHNET" relayd "$@"
    echo "status $status"
    echo "$output"
    echo "$stderr"
}

# start OPTION…: in the background, its process in RELAYD; returns when it listens.
start()
{
    start_server out err nsenter --net=/run/netns/$NS-b "$MESHNET" relayd "$@"
    RELAYD=$SERVER
}

# stop SIGNAL: it ends well.
stop()
{
    kill -"$1" "$RELAYD"
    wait "$RELAYD"
    RELAYD=
}

@test "relayd: says what it listens at, its buffers and who may ask; ends well by SIGTERM and by SIGINT" {
    for signal in TERM INT; do
        start --users nobody,7
        cat out err
        grep -qx "node b of $MESHNET_CONFIG" out
        grep -qx 'listening at 10.47.1.2 port 18525' out
        grep -qx 'listening at 10.47.2.2 port 18525' out
        grep -q '^buffers 32M' out
        grep -qx "local socket $SOCKET, for root, nobody ([0-9]*), user 7" out
        [ ! -s err ]
        [ "$(stat -c %a "$SOCKET")" = 666 ]
        stop $signal
        [ ! -e "$SOCKET" ]
    done
}

@test "relayd: without a cluster key, a mesh file or a node of it, it says what to do" {
    sed -i /key_file/d mesh.yaml
    relayd
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$MESHNET_CONFIG has no cluster key"*"/dev/urandom"*"plugin: {key_file:"* ]]
    MESHNET_KEY_FILE=$PWD/none relayd
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$PWD/none"* ]]
    echo short >short
    MESHNET_KEY_FILE=$PWD/short relayd
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$PWD/short"*"32 hexadecimal"* ]]
    MESHNET_NODE=d relayd
    [ "$status" -eq 2 ]
    HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent MESHNET_CONFIG='' relayd
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"no mesh file"*"meshnet discover"* ]]
    [ ! -e "$SOCKET" ]
}

@test "relayd: wrong usage" {
    for words in operand "--users no-such-user" "--users -3" "--users 99999999999" \
        "--anyone --users root" "--check --status" "--json" "--status --anyone" "--socket relative"; do
        relayd $words
        [ "$status" -eq 2 ]
    done
    relayd --users no-such-user
    [[ "$stderr" == *"--users no-such-user: no user of this host"* ]]
    relayd --mesh "$PWD/none.yaml"
    [ "$status" -ne 0 ]
    [[ "$stderr" == *"$PWD/none.yaml"* ]]
}

@test "relayd: --check says what it would use and starts nothing" {
    relayd --check --anyone
    [ "$status" -eq 0 ]
    [[ "$output" == *"for every user of this host"*"2 of 2 addresses"* ]]
    [ ! -e "$SOCKET" ]
    ip -n $NS-b addr del 10.47.2.2/24 dev bc
    relayd --check
    [ "$status" -eq 0 ]
    [[ "$output" == *"1 of 2 addresses"*"10.47.2.2/24 (bc)"* ]]
    sed -i /key_file/d mesh.yaml
    relayd --check
    [ "$status" -eq 2 ]
}

@test "relayd: --status is tables, or JSON; without one it says how to start it" {
    relayd --status
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"$SOCKET: no relayd of this node listens there"*"systemctl enable --now meshnet-relayd"* ]]
    start
    relayd --status
    [ "$status" -eq 0 ]
    grep -Eq '^node +b$' <<<"${output//:/ }"
    [[ "$output" == *"10.47.1.2"*"18525"* ]]
    relayd --status --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '.node, (.flows | length)' <<<"$output" | xargs)" = "b 0" ]
    # No more than it may have; less by what makes no whole buffer.
    [ "$(jq .buffers.bytes <<<"$output")" -le $((32 << 20)) ]
    [ "$(jq .buffers.bytes <<<"$output")" -gt $((31 << 20)) ]
    [ "$(jq -r '.listening[] | "\(.address) \(.port)"' <<<"$output" | sort | xargs)" = \
        "10.47.1.2 18525 10.47.2.2 18525" ]
    [[ "$(jq -r .mesh <<<"$output")" =~ ^[0-9a-f]{16}$ ]]
    # Anybody may, and its key is in none of it.
    run -0 setpriv --reuid=4711 --clear-groups "$MESHNET" relayd --status --json
    [[ "$output" != *"$(cat key)"* ]]
    stop TERM
}

@test "relayd: meshnet env says where none runs that is needed" {
    run --separate-stderr on b "$MESHNET" env --json
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$(jq -r '.warnings[].text' <<<"$output")" == *"by meshnet relayd: $SOCKET: no relayd of this node"* ]]
    start
    run --separate-stderr on b "$MESHNET" env --json
    [[ "$(jq -r '.warnings[].text' <<<"$output")" != *"no relayd of this node"* ]]
    stop TERM
}

@test "relayd: doctor hears whether it runs, its mesh file, and what its key makes of a challenge" {
    ask_doctor()
    {
        jq -n --rawfile mesh mesh.yaml '{$mesh, only: ["relay", "mesh"],
            challenge: "00112233445566778899aabbccddeeff"}' | on b "$MESHNET" node doctor | tee answer
    }
    ask_doctor
    [[ "$(jq -r .relay.error answer)" == *"no relayd of this node"* ]]
    start
    ask_doctor
    [ "$(jq -r '.relay | "\(.flows) \(.waiting) \(.memlock)"' answer)" = "0 0 -1" ]
    [ "$(jq -r .relay.version answer)" = "$("$MESHNET" --version | cut -d' ' -f2)" ]
    # Of the same file, however each writes it down.
    [ "$(jq -r .relay.mesh answer)" = "$(jq -r .mesh.hash answer)" ]
    first=$(jq -r .relay.key answer)
    [[ "$first" =~ ^[0-9a-f]{32}$ ]]
    [ "$first" != "$(cat key)" ]
    stop TERM
    start
    ask_doctor
    [ "$(jq -r .relay.key answer)" = "$first" ]
    stop TERM
    od -An -N16 -tx1 /dev/urandom | tr -d ' ' >key
    start
    ask_doctor
    [[ "$(jq -r .relay.key answer)" =~ ^[0-9a-f]{32}$ ]]
    [ "$(jq -r .relay.key answer)" != "$first" ]
    stop TERM
}

@test "relayd: one that was killed leaves a socket that the next one replaces; a live one is left alone" {
    start
    relayd
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"18525"* || "$stderr" == *"$SOCKET: another relayd"* ]]
    relayd --status
    [ "$status" -eq 0 ]
    kill -9 "$RELAYD"
    wait "$RELAYD" || true
    [ -S "$SOCKET" ]
    start
    relayd --status
    [ "$status" -eq 0 ]
    stop TERM
    echo mine >"$SOCKET"
    relayd
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$SOCKET is a file and no socket"* ]]
    [ "$(cat "$SOCKET")" = mine ]
}

@test "relayd: a user without rights is told so, those with --users and everybody with --anyone are not" {
    # "sign" and a hello, to which the answer is text or begins with a byte 1.
    cat >ask.py <<-'END'
	import os, socket, sys
	os.setuid(int(sys.argv[2]))
	s = socket.socket(socket.AF_UNIX)
	s.settimeout(10)
	s.connect(sys.argv[1])
	s.sendall(b"sign" + bytes(36) + b"\1" + bytes(12))
	got = b""
	while True:
	    more = s.recv(4096)
	    if not more:
	        break
	    got += more
	print("signed", len(got)) if got[:1] == b"\1" else print(got.decode())
	END
    start --users 4712
    run -0 python3 ask.py "$SOCKET" 4711
    [[ "$output" == *"user 4711 may not use the relay of this node"*"--users 4711"* ]]
    run -0 python3 ask.py "$SOCKET" 4712
    [ "$output" = "signed 98" ]
    run -0 python3 ask.py "$SOCKET" 0
    [ "$output" = "signed 98" ]
    stop TERM
    start --anyone
    run -0 python3 ask.py "$SOCKET" 4711
    [ "$output" = "signed 98" ]
    stop TERM
}

@test "relayd: runs as a user that is not root, where it may write its socket" {
    mkdir own
    chown 4713 own key
    start_server out err nsenter --net=/run/netns/$NS-b setpriv --reuid=4713 --clear-groups \
        "$MESHNET" relayd --socket "$PWD/own/sock"
    RELAYD=$SERVER
    grep -q 'for root, user 4713' out
    relayd --status --socket "$PWD/own/sock"
    [ "$status" -eq 0 ]
    stop TERM
}

@test "relayd: waits for a cable, and uses an address that comes later" {
    ip -n $NS-b addr del 10.47.1.2/24 dev ba
    ip -n $NS-b addr del 10.47.2.2/24 dev bc
    nsenter --net=/run/netns/$NS-b "$MESHNET" relayd >out 2>err 3>&- &
    RELAYD=$!
    for _ in $(seq 300); do
        ! grep -q 'waits for an address' err || break
        sleep 0.1
    done
    grep -q 'waits for an address of its cables: 10.47.1.2/24 (ba), 10.47.2.2/24 (bc)' err
    ip -n $NS-b addr add 10.47.1.2/24 dev ba
    for _ in $(seq 300); do
        ! grep -q '^listening at 10.47.1.2' out || break
        sleep 0.1
    done
    grep -q 'goes on without 10.47.2.2/24 (bc)' err
    ip -n $NS-b addr add 10.47.2.2/24 dev bc
    heard_by_a
    # What it could not know of a NIC that was not there it does from a second start on.
    for _ in $(seq 300); do
        [ "$(grep -c '^listening at 10.47.2.2' out)" -lt 2 ] || break
        sleep 0.1
    done
    cat out err
    [ "$(grep -c '^listening at 10.47.2.2' out)" -eq 2 ]
    stop TERM
}

# heard_by_a: node b listens on its second cable.
heard_by_a()
{
    on a timeout 20 bash -c 'until echo >/dev/tcp/10.47.2.2/18525; do sleep 0.1; done' 2>/dev/null
}

@test "relayd: started while a cable is out, it listens there as soon as it is back" {
    ip -n $NS-b link set bc down
    start
    grep -q 'goes on without 10.47.2.2/24 (bc): down, or' err
    ip -n $NS-b link set bc up
    heard_by_a
    stop TERM
}

@test "relayd: started while a NIC is not there, it listens at its address as soon as it is" {
    ip -n $NS-b link set bc down
    ip -n $NS-b link set bc name away
    ip -n $NS-b addr flush dev away
    start
    grep -q 'goes on without 10.47.2.2/24 (bc)' err
    ip -n $NS-b link set away name bc
    ip -n $NS-b link set bc up
    ip -n $NS-b addr add 10.47.2.2/24 dev bc
    heard_by_a
    stop TERM
}

@test "relayd: tells a service manager that it is ready, goes on and ends" {
    cat >manager.py <<-'END'
	import os, socket, sys
	s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
	s.bind("notify")
	s.settimeout(60)
	open("manager.ready", "w").close()
	while True:
	    text = s.recv(4096).decode()
	    print(text, flush=True)
	    if "STOPPING=1" in text:
	        break
	END
    python3 manager.py >told 3>&- &
    manager=$!
    while [ ! -e manager.ready ]; do sleep 0.05; done
    export NOTIFY_SOCKET=$PWD/notify WATCHDOG_USEC=300000
    start
    unset NOTIFY_SOCKET WATCHDOG_USEC
    for _ in $(seq 300); do
        [ "$(grep -c WATCHDOG=1 told)" -lt 3 ] || break
        sleep 0.1
    done
    stop TERM
    wait $manager
    cat told
    grep -qx READY=1 told
    grep -qx 'STATUS=.*flow.*' told
    [ "$(grep -c WATCHDOG=1 told)" -ge 3 ]
    grep -qx STOPPING=1 told
}

@test "relayd: takes the local socket that systemd hands over, and leaves it there" {
    cat >hand.py <<-'END'
	import os, socket, sys
	s = socket.socket(socket.AF_UNIX)
	s.bind(sys.argv[1])
	s.listen(8)
	os.chmod(sys.argv[1], 0o666)
	os.dup2(s.fileno(), 3)
	os.set_inheritable(3, True)
	os.environ["LISTEN_PID"] = str(os.getpid())
	os.environ["LISTEN_FDS"] = "1"
	os.execv(sys.argv[2], sys.argv[2:])
	END
    start_server out err nsenter --net=/run/netns/$NS-b python3 hand.py "$SOCKET" "$MESHNET" relayd
    RELAYD=$SERVER
    relayd --status
    [ "$status" -eq 0 ]
    stop TERM
    [ -S "$SOCKET" ]
    LISTEN_PID=$$ LISTEN_FDS=1 relayd --check # another's
    [ "$status" -eq 0 ]
}

# worked: hundredths of a second of a processor that it has had, and how often it was woken.
worked()
{
    sed 's/.*) //' /proc/$RELAYD/stat | awk '{ print $12 + $13 }'
    cat /proc/$RELAYD/task/*/status | awk '/^voluntary_ctxt/ { n += $2 } END { print n }'
}

@test "relayd: an idle one sleeps" {
    local before after
    start
    sleep 1
    before=($(worked))
    sleep 3
    after=($(worked))
    echo "before: ${before[*]}, after: ${after[*]}"
    # Nothing, or a look now and then: a loop that spins has a processor, one that naps wakes thousands of times.
    [ ${before[1]} -gt 0 ]
    [ $((after[0] - before[0])) -lt 20 ]
    [ $((after[1] - before[1])) -lt 200 ]
    stop TERM
}
