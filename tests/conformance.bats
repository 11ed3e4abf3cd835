#!/usr/bin/env bats
# The transport conformance suite on loopback in every ABI version, and what its system calls say:
# nothing in the plugin sleeps in the kernel.

load helper

setup()
{
    export NCCL_SOCKET_IFNAME=lo
    unset MESHNET_CONFIG MESHNET_NODE
    cd "$BATS_TEST_TMPDIR"
    CONFORMANCE=$BUILD/tests/conformance
    [ -x "$CONFORMANCE" ] || skip "conformance driver is not built"
}

suite()
{
    run timeout 300 "$CONFORMANCE" --lib "$PLUGIN" "$@"
    grep -v '^# NET' <<<"$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok ' <<<"$output")" -eq "$("$CONFORMANCE" --list | wc -l)" ]
}

# Calls of a trace that may sleep, or that make a socket on which a call could.
sleeping()
{
    grep -E \
        -e '(nanosleep|select|pselect6|pause|rt_sigtimedwait|FUTEX_WAIT|FUTEX_LOCK_PI)' \
        -e '(poll|epoll_wait|epoll_pwait)\(.*[], ] ?(-1|[1-9][0-9]*)(, NULL, [0-9]+)?\) +=' \
        -e 'ppoll\(.*(NULL|tv_sec=[1-9]|tv_nsec=[1-9])' \
        -e 'fcntl\([0-9]+, F_SETFL, ' "$1" | grep -vE 'F_SETFL, .*O_NONBLOCK'
    grep -E ' (socket\(AF_(INET6?|UNIX)|accept4?\()' "$1" | grep -v 'SOCK_NONBLOCK'
    grep -E ' (socket|accept4?)\(' "$1" | grep -v 'SOCK_CLOEXEC'
    return 0
}

# expect STATUS PLUGIN ARGUMENT...: of the test plugins.
expect()
{
    run timeout 100 "$CONFORMANCE" --lib "$BUILD/tests/broken/libnccl-net-$2.so" "${@:3}"
    echo "$2:"
    grep -v '^# ' <<<"$output"
    [ "$status" -eq "$1" ]
}

# verify-plugin drives the other versions too.
@test "conformance: versions old and new, both ends in one thread" {
    versions=$(nm -D --defined-only "$PLUGIN" | sed -n 's/.*ncclNetPlugin_v//p' | sort -n | xargs)
    [ "$versions" = "4 5 6 7 8 9 10 11 12" ]
    for version in 4 8 12; do
        echo "v$version"
        suite --version "$version"
        # v4 has no groups, and its connect cannot be given up; traffic classes came with v10.
        [ "$(grep -c ' # SKIP ' <<<"$output")" -eq $((version == 4 ? 6 : version < 10)) ]
    done
}

@test "conformance: called as RCCL calls" {
    for version in 6 12; do
        suite --rccl --version "$version"
    done
    [ -e "$BUILD/tests/broken/libnccl-net-ref.so" ] || skip "test plugins are not built"
    # What NCCL does not notice is found where RCCL has 4 bytes of its own.
    expect 0 fault-WRITES_DEVICE_HANDLE --only every-size
    expect 1 fault-WRITES_DEVICE_HANDLE --only every-size --rccl
    [[ "$output" == *"device-handle argument"* ]]
}

@test "conformance: four sockets on a cable" {
    MESHNET_SOCKETS_PER_LINK=4 suite --version 10
}

@test "conformance: IPv6" {
    NCCL_SOCKET_FAMILY=AF_INET6 suite
}

@test "conformance: over the double of libibverbs, two queue pairs on a cable, late and out of order" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs FAKEVERBS=seed=1,strict=0,delay=20,reorder=1
    [ -e "$LD_LIBRARY_PATH/libibverbs.so.1" ] || skip "the double is not built"
    MESHNET_ALLOW_TCP=false MESHNET_QPS_PER_LINK=2 suite
}

# fork_inits LIBRARY SETTINGS [VARIABLE…]: how often ibv_fork_init was called.
fork_inits()
{
    local library=$BUILD/tests/$1 settings=$2
    shift 2
    run env LD_LIBRARY_PATH="$library" FAKEVERBS="stats=$PWD/stats,$settings" MESHNET_ALLOW_TCP=false \
        "$@" timeout 100 "$CONFORMANCE" --lib "$PLUGIN" --only forked
    echo "$output"
    [ "$status" -eq 0 ]
    calls=$(awk '$1 == "fork_inits" { print $2 }' stats)
}

@test "conformance: libibverbs is readied for fork() before its first use, unless told not to" {
    [ -e "$BUILD/tests/fakeverbs/libibverbs.so.1" ] || skip "the double is not built"
    unset RDMAV_FORK_SAFE IBV_FORK_SAFE
    fork_inits fakeverbs ''
    [ "$calls" -eq 1 ]
    [[ "$output" != *'fork()'* ]]
    fork_inits fakeverbs '' RDMAV_FORK_SAFE=0
    [ "$calls" -eq 0 ]
    fork_inits fakeverbs '' RDMAV_FORK_SAFE=0 IBV_FORK_SAFE=1
    [ "$calls" -eq 1 ]
    # What cannot be had is a warning for who asked for it.
    fork_inits fakeverbs forkless=22
    [ "$calls" -eq 1 ]
    [[ "$output" != *'fork()'* ]]
    fork_inits fakeverbs forkless=22 IBV_FORK_SAFE=1
    [[ "$output" == *'IBV_FORK_SAFE asks for it, but libibverbs '*'cannot be readied for fork() (Invalid argument)'* ]]
    fork_inits fakeverbs-old '' RDMAV_FORK_SAFE=
    [ "$calls" -eq 0 ]
    [[ "$output" == *'cannot be readied for fork() (Function not implemented)'* ]]
}

@test "conformance: two host names in one network namespace are one host" {
    unshare --uts true || skip "a UTS namespace needs root"
    cd "$BATS_TEST_TMPDIR"
    export NCCL_SOCKET_IFNAME=lo
    timeout -k 1 60 unshare --uts bash -c 'hostname elsewhere && exec "$@"' - \
        "$BUILD/tests/stream" "$PLUGIN" receive handle 16 >received 2>&1 3>&- &
    run timeout -k 1 60 "$BUILD/tests/stream" "$PLUGIN" send handle 16
    wait $!
    echo "$output"
    cat received
    [ "$status" -eq 0 ]
    grep -q '^done 16' received
}

# A connection creates its queues, looks at its ports (one query at each end) and asks for nothing else
# that was read before.
@test "conformance: with eight devices a connection asks them at most four questions" {
    local devices=''
    for i in 1 2 3 4 5 6 7 8; do
        devices+=,dev=fv$i:lo:127.0.0.$i
    done
    run --separate-stderr env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" FAKEVERBS="leaks=1$devices" \
        NCCL_SOCKET_IFNAME=lo timeout -k 1 90 "$BUILD/tests/setup" "$PLUGIN" 32 60
    echo "$output" "$stderr"
    [ "$status" -eq 0 ]
    grep -q '^create_qp 64 ' <<<"$output"
    [ "$(awk '/^query/ { n += $2 } END { print n }' <<<"$output")" -le $((4 * 32)) ]
}

# counted NAME…: what the double has counted, as NAME=COUNT.
counted()
{
    awk -v names="$*" 'BEGIN { n = split(names, list, " ") } { count[$1] = $2 }
        END { for (i = 1; i <= n; i++) printf("%s%s=%d", (i > 1 ? " " : ""), list[i], count[list[i]]) }' stats
}

@test "conformance: what is set for NCCL's own transport is taken, said, and below what is ours" {
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs FAKEVERBS=seed=1,stats=$PWD/stats
    [ -e "$LD_LIBRARY_PATH/libibverbs.so.1" ] || skip "the double is not built"
    export MESHNET_ALLOW_TCP=false
    pass()
    {
        run env "$@" timeout 60 "$CONFORMANCE" --lib "$PLUGIN" --only connect-first
        echo "$output"
        counted rtr class.106 class.84 level.3 timeout.18 retries.5
    }
    pass NCCL_IB_TC=0x6a NCCL_IB_SL=3 NCCL_IB_TIMEOUT=18 NCCL_IB_RETRY_CNT=5
    [ "$status" -eq 0 ]
    n=$(counted rtr) n=${n#rtr=}
    [ "$n" -ge 2 ]
    [ "$(counted class.106 level.3 timeout.18 retries.5)" = "class.106=$n level.3=$n timeout.18=$n retries.5=$n" ]
    # Sooner than rdma_silence is told.
    [[ "$output" == *'ack_timeout 18 and 5 retries: an RDMA device gives a link up after about 6.4 s'* ]]
    # The receiver's end alone has the class of announcements.
    pass NCCL_IB_TC=106 NCCL_IB_FIFO_TC=84
    [ "$(counted class.106 class.84)" = "class.106=$((n / 2)) class.84=$((n / 2))" ]
    # Ours counts.
    pass NCCL_IB_TC=106 MESHNET_TRAFFIC_CLASS=84
    [ "$(counted class.106 class.84)" = "class.106=0 class.84=$n" ]
    # A wrong value is named and left out, as NCCL does.
    pass NCCL_IB_TC=300
    [ "$status" -eq 0 ]
    [[ "$output" == *'NCCL_IB_TC="300" is not used: expected a whole number from 0 to 255'* ]]
    # The double has one partition key.
    pass NCCL_IB_PKEY=1
    [ "$status" -eq 1 ]
    [[ "$output" == *'with partition 1 of its table'* ]]
}

@test "conformance: a peer that accepts after a handshake's time is asked again" {
    MESHNET_HANDSHAKE=1s run timeout 100 "$CONFORMANCE" --lib "$PLUGIN" --only accept-late
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"state hello"*"trying again"* ]]
}

@test "conformance: three seeds" {
    for seed in 2 3 0xfeedface; do
        run timeout 100 "$CONFORMANCE" --lib "$PLUGIN" --only random-order --seed "$seed"
        echo "$output"
        [ "$status" -eq 0 ]
    done
}

@test "conformance: an unknown case and a missing library are usage errors" {
    run "$CONFORMANCE" --lib "$PLUGIN" --only no-such-case
    [ "$status" -eq 2 ]
    run "$CONFORMANCE" --lib ./no-such-plugin.so
    [ "$status" -eq 2 ]
    [[ "$output" == *no-such-plugin.so* ]]
}

@test "no call of the plugin sleeps in the kernel" {
    command -v strace >/dev/null || skip "strace is not installed"
    export MESHNET_FAILOVER=off
    run timeout 300 strace -f -qq -o trace "$CONFORMANCE" --lib "$PLUGIN" --skip child \
        --skip forked --skip thousand
    grep '^not ' <<<"$output" || true
    [ "$status" -eq 0 ]
    [ "$(grep -c ' accept4(' trace)" -gt 10 ]
    [ "$(grep -c ' connect(' trace)" -gt 10 ]
    found=$(sleeping trace)
    echo "$found"
    [ -z "$found" ]
    # One thread drives both ends: with none beside it nothing can be waited for out of sight.
    run grep -E ' (clone|clone3|fork|vfork)\(' trace
    echo "$output"
    [ "$status" -eq 1 ]
}

# The process's door has a thread then, which sleeps, and a lock that is held for a moment.
@test "no call of the plugin sleeps in the kernel with failover, but for the lock of the door" {
    command -v strace >/dev/null || skip "strace is not installed"
    MESHNET_FAILOVER=on run timeout 300 strace -f -qq -o trace "$CONFORMANCE" --lib "$PLUGIN" --skip child \
        --skip forked --skip thousand
    grep '^not ' <<<"$output" || true
    [ "$status" -eq 0 ]
    [ "$(grep -c ' connect(' trace)" -gt 10 ]
    grep "^$(sed -n '1s/ .*//p' trace) " trace >caller
    found=$(sleeping caller |
        grep -vE 'futex\(.*FUTEX_WAIT_PRIVATE, 2, NULL|(socket|accept4?)\(.*<unfinished') || true
    echo "$found"
    [ -z "$found" ]
}

@test "each kind of sleeping call is found in a trace" {
    while read -r line; do
        echo "12 $line" >planted
        echo "$line"
        [ -n "$(sleeping planted)" ]
    done <<'END'
socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_IP) = 3
socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) = 3
accept4(3, NULL, NULL, SOCK_CLOEXEC) = 4
accept(3, NULL, NULL) = 4
clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=0, tv_nsec=1000}, NULL) = 0
poll([{fd=3, events=POLLIN}], 1, 100) = 0 (Timeout)
poll([{fd=3, events=POLLIN}], 1, -1) = 1 ([{fd=3, revents=POLLIN}])
ppoll([{fd=3, events=POLLIN}], 1, {tv_sec=1, tv_nsec=0}, NULL, 8) = 0 (Timeout)
epoll_wait(5, [], 8, 20) = 0
epoll_pwait(5, [], 8, 20, NULL, 8) = 0
select(4, [3], NULL, NULL, {tv_sec=1, tv_usec=0}) = 0 (Timeout)
futex(0x7f0000000000, FUTEX_WAIT_PRIVATE, 2, NULL) = 0
fcntl(3, F_SETFL, O_RDWR) = 0
END
    cat >planted <<'END'
12 poll([{fd=3, events=POLLIN}], 1, 0) = 0 (Timeout)
12 epoll_wait(5, [], 8, 0) = 0
12 futex(0x7f0000000000, FUTEX_WAKE_PRIVATE, 1) = 0
12 socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, IPPROTO_IP) = 3
12 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
END
    found=$(sleeping planted)
    echo "$found"
    [ -z "$found" ]
}

@test "the suite fails on a faulty plugin, at the case that looks for the fault" {
    [ -e "$BUILD/tests/broken/libnccl-net-ref.so" ] || skip "test plugins are not built"
    # NCCL does not ask that a sender learns of a message too long: the reference does not tell it.
    # Nor does it look at sockets that somebody else disconnects.
    expect 0 ref --skip thousand --skip too-long --skip reset
    while read -r fault name; do
        expect 1 "fault-$fault" --only "$name"
    done <<'END'
DROPS_LAST_BYTE every-size
GUARD_OVERRUN every-size
SIZE_POSTED true-size
IGNORES_TAGS group-permutations
EQUAL_REVERSED group-equal-tags
SKIPS_HEAD group-head-waits
END
}
