#!/usr/bin/env bats
# meshnet verify-plugin --peer: the two ends of a rule on two machines, here as two processes or two
# network namespaces.

load helper

setup()
{
    PLUGINS=$BUILD/tests/broken
    MESH=$PLUGIN
    [ -e "$PLUGINS/libnccl-net-ref.so" ] || skip "test plugins are not built"
    export NO_COLOR=1
    unset MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
    SERVER='' NS=''
}

teardown()
{
    kill $SERVER 2>/dev/null || true
    wait
    [ -z "$NS" ] || for end in a b; do
        ip netns del $NS-$end 2>/dev/null || true
    done
}

verify()
{
    run --separate-stderr timeout 300 "$MESHNET" verify-plugin "$@"
    echo "status $status"
    echo "$output"
    echo "$stderr"
}

fault()
{
    echo "$PLUGINS/libnccl-net-fault-$1.so"
}

# A free port, and meshnet serve at it with eight places and the plugin given.
start_serve()
{
    PORT=$(free_port)
    echo 00112233445566778899aabbccddeeff >token
    start_server serve.log serve.log timeout 200 "$MESHNET" serve --listen 127.0.0.1 --port "$PORT" \
        --clients 8 --token-file token --plugin "$1"
}

@test "verify-plugin: the second process of a rule may be another machine's" {
    local rules=handshake.processes,death.sender_killed,death.receiver_killed,death.sender_stopped
    rules+=,death.receiver_stopped,death.mid_message,death.survivor
    export NCCL_SOCKET_IFNAME=lo
    for library in "$PLUGINS/libnccl-net-ref.so" "$MESH"; do
        start_serve "$library"
        verify --json --timeout 60s --rule $rules --peer 127.0.0.1 --port "$PORT" --token-file token "$library"
        kill "$SERVER"
        wait "$SERVER" || true
        [ "$status" -eq 0 ]
        jq -e '.totals.pass == .totals.rules and .totals.rules >= 7' <<<"$output"
        grep -q "done" serve.log
    done
}

@test "verify-plugin: what the process over there finds fails the rule here, and the command says where" {
    start_serve "$(fault RECEIVER_GONE_SILENT)"
    verify --peer 127.0.0.1 --port "$PORT" --token-file token --rule handshake.processes \
        "$BUILD/tests/hostile/libnccl-net-hostile.so"
    [[ "$output" == *"skip  handshake.processes"* ]]
    kill "$SERVER"
    wait "$SERVER" || true
    HOSTILE=crash start_serve "$BUILD/tests/hostile/libnccl-net-hostile.so"
    verify --peer 127.0.0.1 --port "$PORT" --token-file token --version v8 \
        --rule handshake.processes "$PLUGINS/libnccl-net-ref.so"
    kill "$SERVER"
    wait "$SERVER" || true
    [ "$status" -eq 1 ]
    [[ "$output" == *"seen:     at the peer 127.0.0.1 port $PORT: crashed with SIGSEGV in step \"init\""* ]]
    [[ "$output" == *"again:    meshnet verify-plugin --version v8 --peer 127.0.0.1 --port $PORT --token-file token --rule handshake.processes "* ]]
}

@test "verify-plugin: a peer that is not there, or has another token, is said before anything runs" {
    echo 00112233445566778899aabbccddeeff >token
    verify --peer 127.0.0.1 --port 1 --token-file token "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 1 ]
    [ -z "$output" ]
    [[ "$stderr" == *"127.0.0.1 port 1"* ]]
    verify --peer 127.0.0.1 "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--token-file"* ]]
    start_serve "$MESH"
    echo ffeeddccbbaa99887766554433221100 >other
    verify --peer 127.0.0.1 --port "$PORT" --token-file other "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 1 ]
    [ -z "$output" ]
    verify --peer 127.0.0.1 --port "$PORT" --token-file token --rule load "$MESH"
    kill "$SERVER"
    wait "$SERVER" || true
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"two ends (--peer)"* ]]
}

# Two nodes and a cable.
two_nodes()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnp$$
    ip netns add $NS-a
    ip netns add $NS-b
    ip link add mesh0 netns $NS-a type veth peer name mesh0 netns $NS-b
    for end in a b; do
        ip -n $NS-$end link set lo up
        ip -n $NS-$end link set mesh0 up
    done
    ip -n $NS-a addr add 10.66.0.1/30 dev mesh0
    ip -n $NS-b addr add 10.66.0.2/30 dev mesh0
}

@test "verify-plugin: rules of one connection run with its ends on two nodes, unchanged" {
    local rules=connect,handshake,transfer,group,request,deliver.random,deliver.done_whole
    two_nodes
    echo 00112233445566778899aabbccddeeff >token
    start_server serve.log serve.log ip netns exec $NS-b timeout 200 "$MESHNET" serve \
        --listen 10.66.0.2 --clients 8 --token-file token --plugin "$MESH"
    before=$(ip netns exec $NS-a cat /sys/class/net/mesh0/statistics/rx_bytes)
    run --separate-stderr ip netns exec $NS-a timeout 100 "$MESHNET" verify-plugin --json \
        --peer 10.66.0.2 --token-file token --rule $rules "$MESH"
    jq -c '.totals, (.rules[] | select(.result != "pass") | [.id, .result, .seen])' <<<"$output"
    echo "$stderr"
    cat serve.log
    [ "$status" -eq 0 ]
    jq -e '.totals.fail == 0 and .totals.warn == 0 and .totals.pass >= 40' <<<"$output"
    # What is skipped says why; nothing is skipped for want of a peer.
    jq -e 'all(.rules[] | select(.result == "skip");
        .seen | test("^not on two machines: |one device|does not apply to v12"))' <<<"$output"
    # The messages went over the cable, not over this node.
    after=$(ip netns exec $NS-a cat /sys/class/net/mesh0/statistics/rx_bytes)
    [ $((after - before)) -gt 50000000 ]
    no grep -q "meshnet serve:" serve.log
}

@test "verify-plugin: a fault is found at either end of a connection on two machines" {
    start_serve "$PLUGINS/libnccl-net-ref.so"
    verify --json --peer 127.0.0.1 --port "$PORT" --token-file token --rule group.tags \
        "$(fault IGNORES_TAGS)"
    [ "$status" -eq 1 ]
    kill "$SERVER"
    wait "$SERVER" || true
    start_serve "$(fault REQUEST_NOT_WRITTEN)"
    verify --json --peer 127.0.0.1 --port "$PORT" --token-file token \
        --rule request.written,transfer.zero "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 1 ]
    jq -e '.rules[] | select(.id == "transfer.zero") | .result == "pass"' <<<"$output"
    jq -e '.rules[] | select(.id == "request.written") |
        .result == "fail" and (.seen | contains("isend returned success and left"))' <<<"$output"
    kill "$SERVER"
    wait "$SERVER" || true
    start_serve "$(fault CLOSE_CRASHES)"
    verify --json --peer 127.0.0.1 --port "$PORT" --token-file token --rule handshake.devices \
        "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    jq -e '.rules[0].result == "warn" and
        (.rules[0].seen | test("at the peer .* crashed with SIGABRT in step \"closeSend\""))' <<<"$output"
}

@test "verify-plugin: a call that hangs on the other machine is named, not the end of what relays it" {
    start_serve "$(fault TWO_CONNECT_WAITS)"
    for seed in 1 2 3 4; do
        verify --peer 127.0.0.1 --port "$PORT" --token-file token --seed $seed --timeout 4s \
            --rule connect.connect_first "$PLUGINS/libnccl-net-ref.so"
        [ "$status" -eq 1 ]
        [[ "$output" == *"seen:     connect does not return at the peer"* ]]
    done
}

@test "verify-plugin: a machine that vanishes ends in an error, or the rule says how long it waited" {
    local rules=death.sender_vanished,death.receiver_vanished
    export NCCL_SOCKET_IFNAME=lo
    MESHNET_SILENCE=2s verify --json --rule $rules "$MESH"
    [ "$status" -eq 0 ]
    jq -e '.totals.pass == 2' <<<"$output"
    MESHNET_SILENCE=1h verify --json --strict --rule $rules --timeout 3s "$MESH"
    [ "$status" -eq 1 ]
    jq -e '.totals.warn == 2 and all(.rules[]; .seen | contains("machine vanished: no error within"))' \
        <<<"$output"
    # Nobody waits for it unasked.
    verify --json --rule death --list "$MESH"
    jq -e '[.rules[].id] | index("death.sender_vanished")' <<<"$output"
    verify --json --rule death "$MESH"
    [ "$status" -eq 0 ]
    jq -e '[.rules[].id] | index("death.sender_vanished") == null' <<<"$output"
}

@test "verify-plugin: a node that vanishes from its cable is found out by the other" {
    two_nodes
    echo 00112233445566778899aabbccddeeff >token
    # A processor that is busy elsewhere for a second is no silence of the link.
    export MESHNET_SILENCE=4s
    start_server serve.log serve.log ip netns exec $NS-b timeout 200 "$MESHNET" serve \
        --listen 10.66.0.2 --clients 8 --token-file token --plugin "$MESH"
    run --separate-stderr ip netns exec $NS-a timeout 100 "$MESHNET" verify-plugin --json \
        --peer 10.66.0.2 --token-file token --rule death "$MESH"
    jq -c '.totals, (.rules[] | [.id, .result, .seen])' <<<"$output"
    [ "$status" -eq 0 ]
    jq -e '.totals.pass == 8' <<<"$output"
}

@test "verify-plugin: --two puts the ends of every rule into two processes, without a serve or a token" {
    export NCCL_SOCKET_IFNAME=lo
    for library in "$PLUGINS/libnccl-net-ref.so" "$MESH"; do
        verify --json --two "$library"
        [ "$status" -eq 0 ]
        jq -e '.totals.fail == 0 and .totals.warn == 0 and .totals.pass >= 60 and all(.rules[]; .two)' \
            <<<"$output"
        jq -e 'all(.rules[] | select(.result == "skip");
            .seen | test("^not in two processes: |one device|too long on this link$|exports no tuner"))' <<<"$output"
        jq -e '[.rules[].id] | index("close.sender_gone") and index("death.mid_message")' <<<"$output"
    done
    # localhost without a token is the same, in an old version whose connect waits too.
    verify --json --peer localhost --version v4 --rule connect,close "$MESH"
    [ "$status" -eq 0 ]
    jq -e '.totals.fail == 0 and .totals.pass >= 15 and all(.rules[]; .two)' <<<"$output"
    MESHNET_TOKEN=00112233445566778899aabbccddeeff verify --peer localhost --port 1 --rule connect "$MESH"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"localhost port 1"* ]]
    verify --two --peer 127.0.0.1 "$MESH"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--two and --peer 127.0.0.1 exclude each other"* ]]
    verify --two --rule load "$MESH"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"has two ends (--two)"* ]]
}

@test "verify-plugin: what one process hides is found by default, and the command it prints finds it" {
    local again
    for fault in TWO_HANDLE_ADDRESS TWO_SENDER_SILENT; do
        verify --json --timeout 8s --rule connect,close "$(fault $fault)"
        [ "$status" -eq 1 ]
        jq -c '.rules[] | select(.result == "fail") | [.id, .two, .seen]' <<<"$output"
        jq -e '[.rules[] | select(.result == "fail") | .two] | length >= 1 and all' <<<"$output"
        jq -e '[.rules[] | select(.result == "pass" and (.two | not))] | length >= 20' <<<"$output"
    done
    again=$(jq -r '[.rules[] | select(.result == "fail") | .again][0]' <<<"$output")
    [[ "$again" == "meshnet verify-plugin "*"--two "*"--rule close.sender_gone "* ]]
    run --separate-stderr "$MESHNET" ${again#meshnet }
    [ "$status" -eq 1 ]
    [[ "$output" == *"fail  close.sender_gone "*"(two processes)"* ]]
    # By its own name a rule runs once, as it is asked for.
    verify --json --rule close.sender_gone "$(fault TWO_SENDER_SILENT)"
    [ "$status" -eq 0 ]
    jq -e '.totals.rules == 1 and .rules[0].two == false' <<<"$output"
    verify --format junit --timeout 8s --rule close "$(fault TWO_SENDER_SILENT)"
    [[ "$output" == *'name="close.sender_gone"'*'name="close.sender_gone (two processes)"'*'<failure'* ]]
}

@test "verify-plugin: an end that crashes or hangs in its own process is named, and nothing is left of it" {
    export HOSTILE_MARK=$$-two
    verify --two --timeout 8s --version v8 --rule connect.handle_copy "$(fault CONNECT_HANGS)"
    [ "$status" -eq 0 ] # there the peer's connect does not wait
    verify --two --timeout 8s --rule connect.connect_first "$(fault TWO_CONNECT_WAITS)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"connect does not return at the peer"* ]]
    verify --two --timeout 8s --rule close.idle "$(fault CLOSE_CRASHES)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"the other process crashed with SIGABRT"* ]]
    for environ in /proc/[0-9]*/environ; do
        [ "$environ" = "/proc/$$/environ" ] || ! grep -qsz "^HOSTILE_MARK=$$-two$" "$environ" ||
            [[ "$(readlink "${environ%environ}exe")" != "$MESHNET" ]]
    done
}

@test "verify-plugin: a judge that is killed takes both ends along" {
    local left=0 judge
    HOSTILE_MARK=$$-ends "$MESHNET" verify-plugin --two --timeout 100s --rule connect.connect_first \
        "$(fault TWO_CONNECT_WAITS)" >out 2>&1 &
    judge=$!
    for _ in $(seq 300); do
        left=$(grep -lsz "^HOSTILE_MARK=$$-ends$" /proc/[0-9]*/environ | wc -l)
        [ "$left" -lt 4 ] || break
        sleep 0.1
    done
    [ "$left" -ge 4 ] # the judge, a warden, the two ends
    kill -KILL "$judge"
    wait "$judge" || true
    for _ in $(seq 300); do
        left=$(grep -lsz "^HOSTILE_MARK=$$-ends$" /proc/[0-9]*/environ | wc -l)
        [ "$left" -gt 0 ] || break
        sleep 0.1
    done
    [ "$left" -eq 0 ]
}

@test "verify-plugin: the other rank of a tuner's rule may be another machine's" {
    local ref=$PLUGINS/tuner/libnccl-tuner-ref.so broken=$PLUGINS/tuner/libnccl-tuner-fault-RANK_VARIABLE.so
    start_serve "$ref"
    for version in v2 v4 v6; do
        verify --json --rule tuner --version $version --peer 127.0.0.1 --port "$PORT" --token-file token "$ref"
        [ "$status" -eq 0 ]
        jq -e '[.rules[] | select(.result == "pass").id] == ["tuner.ranks"] and .totals.fail == 0' <<<"$output"
    done
    # This rank's tuner is another one than that of the other.
    verify --json --rule tuner.ranks --peer 127.0.0.1 --port "$PORT" --token-file token "$broken"
    [ "$status" -eq 1 ]
    jq -e '.rules[0].seen | contains("on another rank")' <<<"$output"
}

@test "verify-plugin: our own tuner chooses the same on every node of a ring" {
    local node
    {
        echo "version: 1"
        echo "nodes:"
        for node in 0 1 2 3; do
            echo "  - name: n$node"
            echo "    nics:"
            echo "      - {netdev: up, addresses: [10.9.$node.1/30], speed: 100000}"
            echo "      - {netdev: down, addresses: [10.9.$(((node + 3) % 4)).2/30], speed: 100000}"
        done
    } >mesh.yaml
    export MESHNET_CONFIG=$PWD/mesh.yaml
    for node in n1 n2; do
        MESHNET_NODE=$node start_serve "$MESH"
        MESHNET_NODE=n0 verify --json --all-versions --rule tuner --peer 127.0.0.1 --port "$PORT" \
            --token-file token "$MESH"
        kill "$SERVER"
        wait "$SERVER" || true
        [ "$status" -eq 0 ]
        jq -e '[.rules[] | .id] == ["tuner.ranks", "tuner.ranks", "tuner.ranks", "tuner.ranks", "tuner.ranks"]
            and .totals.pass == 5' <<<"$output"
    done
}
