# meshnet relayd on nodes that are namespaces (namespaces.bash: shape_of), and traffic over it, for
# the tests that load this. $PWD is the test's own folder; all have the cluster key of the file "key".

declare -gA RELAYD=() # of each node: its process

# relay_key: the cluster key, and what all of this test's processes are told.
relay_key()
{
    (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >key)
    # Many relays share one host's memory.
    export MESHNET_KEY_FILE=$PWD/key MESHNET_CONFIG=$PWD/shape.yaml MESHNET_RELAY_BUFFERS=${MESHNET_RELAY_BUFFERS:-32M}
}

# of_node NODE COMMAND…: there, as that node. RDMA where $LD_LIBRARY_PATH has the double and the node
# is not one of $TCP_NODES.
of_node()
{
    local node=$1 devices=''
    shift
    [[ -z ${LD_LIBRARY_PATH-} || " ${TCP_NODES-} " == *" $node "* ]] || devices=,$(devices_of $node)
    [ -z "${NARROW-}" ] || devices+=$(sed 's/dev=\([^:]*\):[^,]*/slow=\1:650/g' <<<"$devices"),nap=1000
    # "on" would stay between: this process is to be the command's own.
    exec nsenter --net=/run/netns/$NS-$node env MESHNET_NODE=$node \
        MESHNET_RELAY_SOCKET="$PWD/$node.sock" FAKEVERBS="shm=$PWD/fabric$devices" "$@"
}

# relayd NODE…: one on each; returns when all answer.
relayd()
{
    local node i
    for node; do
        (of_node $node "$MESHNET" relayd ${RELAYD_OPTIONS-}) >>relayd.$node 2>&1 3>&- &
        RELAYD[$node]=$!
    done
    for node; do
        for ((i = 0; i < 200; i++)); do
            ! relay_state $node >/dev/null 2>&1 || continue 2
            kill -0 ${RELAYD[$node]} 2>/dev/null || break
            nap 0.1
        done
        echo "relayd on $node does not answer"
        cat relayd.$node
        return 1
    done
}

# relayd_ends NODE [SIGNAL]: and is not there any more.
relayd_ends()
{
    kill -${2-TERM} ${RELAYD[$1]}
    # One that is stopped would not hear it.
    kill -CONT ${RELAYD[$1]} 2>/dev/null || true
    wait ${RELAYD[$1]} 2>/dev/null || true
    unset "RELAYD[$1]"
}

relays_end()
{
    local node
    for node in "${!RELAYD[@]}"; do
        kill -CONT ${RELAYD[$node]} 2>/dev/null || true
        relayd_ends $node KILL
    done
}

# relay_state NODE: as JSON.
relay_state()
{
    (of_node $1 "$MESHNET" relayd --status --json)
}

# relayed NODE: bytes that it has passed on since it was started.
relayed()
{
    relay_state $1 | jq .counts.bytes
}

# cables_of NODE: their NICs there.
cables_of()
{
    ip -n $NS-$1 -j link show | jq -r '.[].ifname | select(test("^l[0-9]"))'
}

# narrow NODES: all of their cables carry 400 Mb/s each way, and RDMA less (of what is started after this).
# Data is under way all the time, as at full speed, at a part of what that costs, so ends may nap for longer.
# FULL_SPEED=1, by hand: they stay as fast as the host.
narrow()
{
    local i nic
    [ -z "${FULL_SPEED-}" ] || return 0
    NARROW=1 DRIVER_NAP=1000
    for ((i = 0; i < $1; i++)); do
        for nic in $(cables_of n$i); do
            echo "qdisc add dev $nic root tbf rate 400mbit burst 128k latency 50ms"
        done | tc -n $NS-n$i -batch -
    done
}

# bytes_of NODE NIC: out and in.
bytes_of()
{
    ip -n $NS-$1 -s -j link show "$2" | jq '.[0].stats64 | .rx.bytes + .tx.bytes'
}

declare -gA SENDS=() TAKES=() # of each traffic: its ends' processes

# traffic NAME FROM TO OPTION…: tests/traffic between two nodes in the background; what its ends say
# is in NAME.send and NAME.take. Returns when they are connected.
traffic()
{
    local name=$1 from=$2 to=$3 i
    shift 3
    rm -rf handles.$name
    mkdir handles.$name
    (of_node $to "$BUILD/tests/traffic" "$PLUGIN" receive handles.$name "$@") >$name.take 2>&1 3>&- &
    TAKES[$name]=$!
    (of_node $from "$BUILD/tests/traffic" "$PLUGIN" send handles.$name "$@") >$name.send 2>&1 3>&- &
    SENDS[$name]=$!
    for ((i = 0; i < 600; i++)); do
        says_of $name
        [[ $SAYS != *$'\nconnected'* ]] || return 0
        [[ $SAYS != *$'\nfailed'* ]] || break
        nap 0.1
    done
    tail -n 5 $name.send $name.take
    return 1
}

# traffic_ended NAME SECONDS: both ends have ended of themselves; 0 when both say that all was right.
traffic_ended()
{
    local i pid failed=0
    for pid in ${SENDS[$1]} ${TAKES[$1]}; do
        for ((i = 0; i < $2 * 10; i++)); do
            kill -0 $pid 2>/dev/null || break
            nap 0.1
        done
        if kill -KILL $pid 2>/dev/null; then
            echo "$1 hangs: it has not ended within $2 s"
            failed=99
        fi
        wait $pid 2>/dev/null || failed=$((failed ? failed : $?))
    done
    unset "SENDS[$1]" "TAKES[$1]"
    tail -n 4 $1.send $1.take
    return $failed
}

# traffic_moves NAME BYTES: so much more comes through, within a minute. What its receiver has not said
# yet came before: it counts from what is said next.
traffic_moves()
{
    local i old='' before='' now
    for ((i = 0; i < 600; i++)); do
        says_of $1
        now=0
        [[ ! $SAYS =~ .*$'\n'bytes\ ([0-9]+) ]] || now=${BASH_REMATCH[1]}
        old=${old:-$now}
        [ -n "$before" ] || [ $now = $old ] || before=$now
        [ -z "$before" ] || [ $((now - before)) -lt $2 ] || return 0
        [[ ! $SAYS =~ $'\n'(failed|wrong) ]] || break
        nap 0.1
    done
    echo "$1: ${before:-$old} bytes, then $now"
    tail -n 5 $1.send $1.take
    return 1
}

# says_of NAME: what both its ends have said, into SAYS, a newline before each line. Without a process of
# its own: who waits asks for it ten times a second.
says_of()
{
    local send=() take=() IFS=$'\n'
    { mapfile -t send <$1.send && mapfile -t take <$1.take; } 2>/dev/null || true
    SAYS=$'\n'"${send[*]}"$'\n'"${take[*]}"
}

traffic_kill()
{
    local name
    for name in "${!SENDS[@]}"; do
        kill -KILL ${SENDS[$name]} ${TAKES[$name]} 2>/dev/null || true
        wait ${SENDS[$name]} ${TAKES[$name]} 2>/dev/null || true
        unset "SENDS[$name]" "TAKES[$name]"
    done
}

# until_so SECONDS COMMAND…: till it succeeds.
until_so()
{
    local i seconds=$1
    shift
    for ((i = 0; i < seconds * 5; i++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        nap 0.2
    done
    echo "not within $seconds s: $*"
    return 1
}
