#!/usr/bin/env bats
# What an application and its host do to a connection that has two cables, over TCP and over RDMA on
# the double: signals, children, a wall clock that jumps, a process that is stopped, limits that are
# reached, also while a cable comes back. Every byte is compared; nothing here measures time.

load helper
load namespaces
load cables

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    STREAM=$BUILD/tests/stream
    NS=mnx$$
    unset MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    export STREAM_SIZES=all STREAM_END=end
    cd "$BATS_TEST_TMPDIR"
    RECEIVER='' SENDER='' BOTHERS=''
}

teardown()
{
    for NS in $NS ${NS}tcp ${NS}rdma; do
        take_down
    done
}

# ends_down: both ends are gone, and what they wrote.
ends_down()
{
    local process
    for process in $RECEIVER $SENDER; do # timeout, and what it runs
        kill -9 $(pgrep -P "$process") "$process" 2>/dev/null || true
    done
    wait
    RECEIVER='' SENDER=''
    rm -f handle end pulled muted received sent received.log sent.log
    return 0
}

take_down()
{
    ends_down
    cables_end
    return 0
}

# ends_of KIND [VARIABLE…]: two cables of that kind; a receives, b sends; returns when data flows.
ends_of()
{
    local kind=$1
    shift
    cables_up $kind 2
    (of_node a timeout -k 1 200 env $BOTHERS "$@" "$STREAM" "$PLUGIN" receive handle 0) >received 2>received.log 3>&- &
    RECEIVER=$!
    (of_node b timeout -k 1 200 env $BOTHERS "$@" "$STREAM" "$PLUGIN" send handle 0) >sent 2>sent.log 3>&- &
    SENDER=$!
    more
}

# more [COUNT]: some more messages come.
more()
{
    local until
    heard
    until=$((COUNT + ${1-512}))
    for _ in {1..900}; do
        [ -z "$COUNT" ] || [ "$COUNT" -lt $until ] || return 0
        [[ $HEARD != *$'\nfailed'* ]] || break
        nap 0.1
        heard
    done
    tail -n 3 received sent
    cat received.log sent.log
    return 1
}

# says WHO TEXT [COUNT]: in its log, so often at least.
says()
{
    for _ in {1..600}; do
        [ "$(grep -c "$2" "$1.log")" -lt "${3-1}" ] || return 0
        nap 0.2
    done
    cat received.log sent.log
    return 1
}

# A cable goes and comes back, at both ends.
GONE='link mesh1 .*\(is given up\|out\): '
BACK='link mesh1 .*is back after'
a_cable_goes_and_returns()
{
    pull 1
    says sent "$GONE"
    says received "$GONE"
    more
    plug 1
    says sent "$BACK"
    says received "$BACK"
    more
}

# The stream is ended, and all of it has arrived.
survived()
{
    touch end
    wait $RECEIVER || true
    wait $SENDER || true
    cat received.log sent.log
    tail -n 1 received sent
    [ "$(tail -n 1 received)" = "$(tail -n 1 sent)" ]
    grep -q '^done' received
}

# over_both FUNCTION: it, with tcp and with rdma, at once: each in a folder and namespaces of its own.
over_both()
{
    local kind failed=0
    local -A runs=()
    for kind in tcp rdma; do
        (
            trap take_down EXIT
            NS+=$kind
            mkdir $kind
            cd $kind
            $1 $kind
        ) >$kind.said 2>&1 3>&- &
        runs[$kind]=$!
    done
    for kind in tcp rdma; do
        wait ${runs[$kind]} || failed=1
        sed "s/^/$kind: /" $kind.said
    done
    return $failed
}

# bothered WORDS: a connection is made, moves data, loses a cable and takes it back under all that,
# over either transport.
bothered()
{
    local kind
    for kind in tcp rdma; do
        BOTHERS="LD_PRELOAD=$BUILD/tests/bother.so BOTHER=$1"
        ends_of $kind
        a_cable_goes_and_returns
        survived
        for log in received.log sent.log; do
            # Nothing else is told than that the cable went and returned.
            run ! grep -vE 'link mesh1 .*(is given up|out|is back after)|port is DOWN|^bother: ' $log
            grep '^bother: ' $log | tail -n 1 >bothers.$log
        done
        take_down
    done
}

@test "host: a signal every 100 us, in whatever a call waits for" {
    bothered alarm
    cat bothers.*
    for log in bothers.*; do
        [ "$(grep -oE '[0-9]+ signals' $log | cut -d' ' -f1)" -gt 1000 ]
    done
}

@test "host: children of the application change nothing, and what they become has none of the plugin's descriptors" {
    bothered fork
    cat bothers.*
    for log in bothers.*; do
        [ "$(grep -oE '[0-9]+ children' $log | cut -d' ' -f1)" -gt 10 ]
        grep ', 0 leaks' $log
    done
}

@test "host: a wall clock that jumps is of no concern" {
    bothered clock
    cat bothers.*
    for log in bothers.*; do
        [ "$(grep -oE '[0-9]+ jumps' $log | cut -d' ' -f1)" -gt 0 ]
    done
}

# process END: of the stream itself.
process()
{
    pgrep -P "$1"
}

stopped()
{
    local end
    ends_of $1
    for end in $RECEIVER $SENDER; do
        kill -STOP $(process $end)
        sleep "${MESHNET_LONG-6}" # links beside others that are silent for 2.5 s are given up
        kill -CONT $(process $end)
        more
    done
    survived
    run ! grep -E 'given up|: out: ' received.log sent.log
}

@test "host: a process that is stopped for a while is slow: neither end gives anything up for it" {
    over_both stopped
}

# until_back: no end has mesh0 out, for which a busy host is enough where silence is short.
until_back()
{
    local log away
    for _ in $(seq 600); do
        away=0
        for log in received.log sent.log; do
            away=$((away + $(grep -Ec 'link mesh0 .*(is given up|out): ' $log || true) - \
                $(grep -c 'link mesh0 .* is back' $log || true)))
        done
        [ $away -gt 0 ] || return 0
        sleep 0.1
    done
    return 1
}

# A cable goes and returns while it is stopped, so that what its peer asks about it is not answered. The
# double's device stops with its process: one that does nothing for four times rdma_silence is an error.
stopped_as_a_cable_goes()
{
    local end
    [ -n "${MESHNET_LONG-}" ] || export MESHNET_SILENCE=2s MESHNET_RDMA_SILENCE=4s
    ends_of $1
    for end in $RECEIVER $SENDER; do
        until_back
        kill -STOP $(process $end)
        pull 1
        sleep "${MESHNET_LONG-8}"
        plug 1
        kill -CONT $(process $end)
        more
    done
    says sent "$GONE"
    says sent "$BACK" "$(grep -c "$GONE" sent.log)"
    says received "$BACK"
    more
    survived
    # In the short form a link is given up for a silence of 0.2 s, which a busy host alone may bring about.
    [ -z "${MESHNET_LONG-}" ] || run ! grep 'link mesh0 .*\(is given up\|out\): ' received.log sent.log
}

@test "host: a process that is stopped for many times what a silent peer has is waited for, and answers about a cable later" {
    over_both stopped_as_a_cable_goes
}

# descriptors SOFT: what both ends may have from now on.
descriptors()
{
    prlimit --pid $(process $SENDER) --nofile="$1":
    prlimit --pid $(process $RECEIVER) --nofile="$1":
}

NO_MORE='opening a connection that was lost again.*ulimit -n.*; trying on'

@test "host: no descriptors for a link that comes back: it is said, and it comes back when there are some" {
    ends_of tcp
    descriptors 3
    pull 1
    says sent "$GONE"
    plug 1
    says sent "$NO_MORE"
    more 2048
    [ "$(grep -c 'is back' sent.log)" -eq 0 ]
    descriptors 1024
    says sent "$BACK"
    more
    survived
    [ "$(grep -c "$NO_MORE" sent.log)" -le 5 ] # a socket each
}

# no_control: the kernel resets b's control connection.
no_control()
{
    [ -n "$(on b ss -HtnK state established)" ] || skip "this kernel destroys no sockets (ss -K)"
    says sent 'control connection is lost' $1
}

@test "host: no descriptors for a control connection: RDMA goes on without it, and has it again when there are some" {
    ends_of rdma
    descriptors 3
    no_control 1
    says sent "$NO_MORE"
    more
    descriptors 1024
    says sent 'control connection was opened again'
    # The thread that dials is there now.
    descriptors 3
    no_control 2
    says sent "$NO_MORE" 2
    more
    descriptors 1024
    says sent 'control connection was opened again' 2
    more
    a_cable_goes_and_returns
    survived
}

LIMIT='there may be no more threads (see ulimit -u'

# without_a_thread WHICH: a short stream to both ends of which this thread of theirs is refused.
without_a_thread()
{
    local with="env LD_PRELOAD=$BUILD/tests/bother.so BOTHER=thread=$1"
    (of_node a timeout -k 1 200 $with "$STREAM" "$PLUGIN" receive handle 200) >received 2>received.log 3>&- &
    RECEIVER=$!
    (of_node b timeout -k 1 200 $with "$STREAM" "$PLUGIN" send handle 200) >sent 2>sent.log 3>&- || :
    # A receiver whose sender was not accepted waits for the next one.
    if grep "^failed 0 .*$LIMIT" sent && [[ $1 != *+ ]]; then
        says received "$LIMIT"
        (of_node b timeout -k 1 200 "$STREAM" "$PLUGIN" send handle 200) >sent 2>&1 3>&- || true
    fi
    if [[ $1 != *+ ]] || grep '^done' sent; then
        wait $RECEIVER || true
        tail -n 1 received sent
        grep -qx 'done 200' received
        grep -qx 'done 200' sent
    else
        grep "^failed 0 .*$LIMIT" sent
        says received "$LIMIT"
    fi
    for log in received.log sent.log; do
        if grep ' [1-9][0-9]* threads refused' $log; then
            grep "$LIMIT" $log
        fi
    done
}

@test "host: a thread that cannot be had, whichever it is: all goes on, or the error names the limit" {
    local kind n which refused
    for kind in tcp rdma; do
        refused=0
        cables_up $kind 2
        for ((n = 1; n < 10; n++)); do
            for which in $n $n+; do
                without_a_thread $which
                ! grep -q ', [1-9][0-9]* threads refused' received.log sent.log || refused=$n
                ends_down
                rm -f fabric
            done
            [ "$refused" -eq $n ] || break
        done
        take_down
        [ $n -gt 2 ]
        [ $n -lt 10 ]
    done
}

# no_threads END: from now on; a thread that is there and has nothing to do goes.
no_threads()
{
    touch nothreads.$(process $1)
    for _ in $(seq 300); do
        grep -qs mn-verbs-work /proc/$(process $1)/task/*/comm || return 0
        sleep 0.1
    done
    return 1
}

returns_without_threads()
{
    BOTHERS="LD_PRELOAD=$BUILD/tests/bother.so BOTHER=nothreads"
    ends_of $1 MESHNET_RDMA_SILENCE=10s
    no_threads $SENDER
    no_threads $RECEIVER
    pull 1
    says sent "$GONE"
    more
    plug 1
    says sent "$LIMIT"
    more
    run ! grep "$BACK" sent.log
    rm nothreads.$(process $SENDER)
    if [ $1 = rdma ]; then # which makes queue pairs at both ends
        says received "$LIMIT"
        more
        run ! grep "$BACK" received.log
    fi
    rm nothreads.$(process $RECEIVER)
    says sent "$BACK"
    says received "$BACK"
    more
    survived
    [ "$(grep -c "$LIMIT" sent.log)" -le 2 ] # for a cable's sockets, each
    [ "$(grep -c "$LIMIT" received.log)" -le 1 ]
}

@test "host: no threads for a link that comes back: it is said, and it comes back when there are some" {
    over_both returns_without_threads
}
