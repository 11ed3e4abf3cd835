#!/usr/bin/env bats
# What ci/soak looks at can fail: its driver and a round of it over plugins of which each has one fault.

load helper

setup()
{
    cd "$BATS_TEST_TMPDIR"
    unset "${!MESHNET_@}" "${!NCCL_@}"
}

teardown()
{
    kill -KILL $(jobs -p) 2>/dev/null || true
}

# begin FAULT OPTION…: both ends over that plugin; what they say is in take and send.
begin()
{
    local plugin=$BUILD/tests/broken/libnccl-net-$1.so
    shift
    rm -rf handles
    mkdir handles
    timeout -k 1 120 "$BUILD/tests/traffic" "$plugin" receive handles seed=3 "$@" >take 2>&1 3>&- &
    TAKE=$!
    timeout -k 1 120 "$BUILD/tests/traffic" "$plugin" send handles seed=3 "$@" >send 2>&1 3>&- &
    SEND=$!
}

# They have ended; STATUS: the receiver's.
ended()
{
    STATUS=0
    wait $TAKE || STATUS=$?
    wait $SEND || true
    cat take send
}

@test "soak: its driver finds nothing wrong with a plugin without a fault, and says what calls took" {
    begin ref flows=2 messages=40 leaks=1
    ended
    [ "$STATUS" -eq 0 ]
    [ "$(grep -c '^has ' take)" -eq 2 ]
    grep -q '^longest irecv [0-9]*$' take
    grep -q '^longest isend [0-9]*$' send
}

@test "soak: its driver sees what is written around a receive, and after it is done" {
    begin fault-GUARD_OVERRUN messages=40
    ended
    [ "$STATUS" -eq 3 ]
    grep -q '^wrong: .*bytes after it were written' take
    begin fault-LATE_WRITE seconds=60
    ended
    [ "$STATUS" -eq 3 ]
    grep -q '^wrong: .* written' take
}

@test "soak: its driver sees what is left behind" {
    begin fault-FD_LEAK flows=4 messages=10 leaks=1
    ended
    [ "$STATUS" -eq 3 ]
    grep -q '^wrong: left behind: .* descriptors' take
    # It may crash when it is unloaded.
    begin fault-THREAD_LEAK flows=4 messages=10 leaks=1
    ended
    grep -q '^wrong: left behind: .* threads' send
}

# stop: the receiver, for longer than a call may take.
stop()
{
    for _ in $(seq 300); do
        ! grep -q '^bytes' take || break
        sleep 0.1
    done
    pkill -STOP -P $TAKE
    sleep 4
    pkill -CONT -P $TAKE
}

@test "soak: its driver tells a call that waits for its peer; to be stopped by a signal is no such wait" {
    begin fault-WIRE_BLOCKS seconds=7
    stop
    ended
    [ "$STATUS" -eq 0 ]
    # Whichever comes to a full socket first.
    awk '/^longest (isend|test)/ && $3 > 300 { found = 1 } END { exit !found }' send
    awk '/^longest/ && $3 > 1000 { exit 1 }' take
}

@test "soak: a round fails in which a call takes long or an end has more and more, and says how it is run again" {
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    mkdir build build/tests
    ln -s "$BUILD/bin" "$BUILD/lib" build
    # An end that says so.
    cat >build/tests/traffic <<-END
	#!/bin/bash
	"$BUILD/tests/traffic" "\$@" | awk '/^has / && n++ { sub("[0-9]+ queue", "99 queue") }
	    { sub("^longest isend .*", "longest isend 1234"); print; fflush() }'
	exit \${PIPESTATUS[0]}
	END
    chmod +x build/tests/traffic
    TMPDIR=$PWD MESHNET_BUILD=$PWD/build run env -u BATS_TEST_TMPDIR "$BATS_TEST_DIRNAME/../ci/soak" \
        --failover --rounds 1 --seed 176
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"isend took 1234 ms, more than 1000"* ]]
    [[ "$output" == *"leaks queue pairs: 0, now 99"* ]]
    [[ "$output" == *"again: ci/soak --failover --rounds 1 --seed 176;"* ]]
}
