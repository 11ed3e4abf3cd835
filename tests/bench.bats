#!/usr/bin/env bats
# meshnet bench and meshnet serve between network namespaces: what carried the bytes, tokens, gates,
# and ends that go away.

load helper

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnb$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN "${!NCCL_@}"
    export NO_COLOR=1
    cd "$BATS_TEST_TMPDIR"
    echo 00112233445566778899aabbccddeeff >token
    for node in a b c; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    SERVER=''
}

teardown()
{
    [ -z "$SERVER" ] || kill $SERVER 2>/dev/null || true
    wait
    for node in a b c; do
        ip netns del $NS-$node 2>/dev/null || true
    done
}

# cable NODE NIC ADDRESS NODE NIC ADDRESS
cable()
{
    ip link add "$2" netns "$NS-$1" type veth peer name "$5" netns "$NS-$4"
    ip -n "$NS-$1" addr add "$3" dev "$2"
    ip -n "$NS-$4" addr add "$6" dev "$5"
    ip -n "$NS-$1" link set "$2" up
    ip -n "$NS-$4" link set "$5" up
}

on()
{
    local node=$1
    shift
    nsenter --net=/run/netns/$NS-"$node" "$@"
}

# serve NODE OPTION…: in the background, returns when it listens.
serve()
{
    local node=$1
    shift
    nsenter --net=/run/netns/$NS-"$node" timeout -k 1 120 "$MESHNET" serve --token-file token "$@" >serve.out 2>serve.err 3>&- &
    SERVER=$!
    for _ in $(seq 100); do
        grep -q listening serve.out && return
        sleep 0.1
    done
    cat serve.err
    return 1
}

bench()
{
    run --separate-stderr on a timeout 100 "$MESHNET" bench --token-file token --duration 30ms "$@"
    echo "$output"
    echo "$stderr"
}

# moved FILE END NETDEV: bytes a NIC moved.
moved()
{
    jq --arg nic "$3" ".counters_$2.nics[] | select(.netdev == \$nic) | .tx_bytes + .rx_bytes" "$1"
}

@test "bench: a reaches b over its own cable only, although it also has one to c" {
    cable a ab 10.1.0.0/31 b ba 10.1.0.1/31
    cable a ac 10.2.0.1/30 c ca 10.2.0.2/30
    cable b bc 10.3.0.1/24 c cb 10.3.0.2/24
    serve b --listen 10.1.0.1
    bench --peer 10.1.0.1 --sizes 8,64K,4M --json
    [ "$status" -eq 0 ]
    echo "$output" >report
    [ "$(jq '.results | length' report)" -eq 9 ]
    [ "$(jq '.latency | length' report)" -eq 2 ]
    [ "$(jq .wrong_messages report)" -eq 0 ]
    [ "$(jq .checked_messages report)" -gt 0 ]
    bytes=$(jq '[.results[] | .size * .messages] | add' report)
    [ "$(moved report here ab)" -ge "$bytes" ]
    [ "$(moved report here ac)" -lt 100000 ]
    [ "$(moved report peer ba)" -ge "$bytes" ]
    [ "$(moved report peer bc)" -lt 100000 ]
    [ "$(jq -r .counters_here.carried_by report)" = ab ]
    [ "$(jq -r .here.sha256 report)" = "$(sha256sum <"$PLUGIN" | cut -d ' ' -f 1)" ]
    [ "$(jq -r .here.symbol report)" = ncclNetPlugin_v12 ]
}

@test "bench: two parallel cables are used together, and either one is enough" {
    cable a ab1 10.1.1.1/24 b ba1 10.1.1.2/24
    cable a ab2 10.1.2.1/24 b ba2 10.1.2.2/24
    serve b --listen 10.1.1.2,10.1.2.2
    bench --peer 10.1.1.2 --sizes 4M --tests bandwidth --json
    [ "$status" -eq 0 ]
    echo "$output" >report
    both=$(jq '[.results[] | .size * .messages] | add' report)
    [ "$(moved report here ab1)" -gt $((both / 5)) ]
    [ "$(moved report here ab2)" -gt $((both / 5)) ]
    [ "$(jq -r .counters_here.carried_by report)" = 'ab1, ab2' ]
    ip -n $NS-a link set ab1 down
    bench --peer 10.1.2.2 --sizes 1M --tests bandwidth --json
    [ "$status" -eq 0 ]
    [ "$(jq -r .counters_here.carried_by <<<"$output")" = ab2 ]
}

@test "bench: the mesh file names the peer and is named in the report" {
    cable a ab 10.1.0.0/31 b ba 10.1.0.1/31
    on a "$MESHNET" discover --node a -o a.yaml
    on b "$MESHNET" discover --node b -o b.yaml
    "$MESHNET" discover -o mesh.yaml --merge a.yaml b.yaml
    export MESHNET_CONFIG=$PWD/mesh.yaml
    MESHNET_NODE=b serve b
    grep -q 'listening at 10.1.0.1 ' serve.out
    MESHNET_NODE=a bench --peer b --sizes 64K --tests bandwidth --json
    [ "$status" -eq 0 ]
    [ "$(jq -r .mesh_file <<<"$output")" = "$PWD/mesh.yaml" ]
    [ "$(jq -r .peer.node <<<"$output")" = b ]
}

@test "bench: several connections, text and CSV" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --sizes 4K,256K --connections 8 --direction out
    [ "$status" -eq 0 ]
    [[ "$output" == *"half round trip"* ]]
    bench --peer 127.0.0.1 --sizes 4K --tests bandwidth --direction both --iters 100 --csv
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = size,direction,messages,seconds,gbytes_per_s,gbps,messages_per_s,cpu_s_per_gb,cpu_s_per_gb_here,cpu_s_per_gb_peer ]
    [[ "${lines[1]}" == 4096,both,200,* ]]
}

@test "bench: a wrong token is refused on both sides" {
    serve a --listen 127.0.0.1
    echo ffeeddccbbaa99887766554433221100 >token
    bench --peer 127.0.0.1
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 127.0.0.1 port 18515"*token* ]]
    grep -q 'token' serve.err
}

@test "serve: garbage does not end it, and it ends cleanly on SIGTERM" {
    serve a --listen 127.0.0.1
    for _ in 1 2 3; do
        on a bash -c 'head -c 500 /dev/urandom >/dev/tcp/127.0.0.1/18515' || true
    done
    export NCCL_SOCKET_IFNAME=lo
    for _ in $(seq 50); do # the last of the three may still be served
        bench --peer 127.0.0.1 --sizes 8 --iters 10 --tests bandwidth
        [[ "$stderr" == *busy* ]] || break
        sleep 0.1
    done
    [ "$status" -eq 0 ]
    kill -TERM "$(pgrep -P $SERVER)"
    wait $SERVER
    SERVER=''
}

@test "serve: a second client is told that the first has it" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    on a timeout 60 "$MESHNET" bench --token-file token --peer 127.0.0.1 --sizes 1M --duration 20s >/dev/null 2>&1 3>&- &
    first=$!
    for _ in $(seq 100); do
        [ "$(pgrep -c -P "$(pgrep -P $SERVER)")" -ge 1 ] && break
        sleep 0.1
    done
    bench --peer 127.0.0.1 --sizes 8
    kill $first
    [ "$status" -eq 1 ]
    [[ "$stderr" == *busy* ]]
}

@test "bench: a peer that is killed ends the run with its name" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    (
        for _ in $(seq 100); do
            client=$(pgrep -P "$(pgrep -P $SERVER)") && break
            sleep 0.1
        done
        sleep 1
        kill -9 $client
    ) 3>&- &
    bench --peer 127.0.0.1 --sizes 1M --duration 60s --direction out
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 127.0.0.1 port 18515"* ]]
}

@test "bench: buffers that connections share are no reason for wrong data" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --sizes 4K,1M --connections 4 --memory 1M --iters 8 --tests bandwidth --json
    [ "$status" -eq 0 ]
    [ "$(jq .wrong_messages <<<"$output")" -eq 0 ]
    [ "$(jq .checked_messages <<<"$output")" -eq 256 ]
}

@test "serve: ended or killed in the middle of a run, it takes its client's process along" {
    export NCCL_SOCKET_IFNAME=lo
    for signal in TERM KILL; do
        serve a --listen 127.0.0.1
        (
            for _ in $(seq 100); do
                client=$(pgrep -P "$(pgrep -P $SERVER)") && break
                sleep 0.1
            done
            sleep 1
            kill -$signal "$(pgrep -P $SERVER)"
            for _ in $(seq 100); do
                kill -0 "$client" || break
                sleep 0.1
            done
            kill -0 "$client" || touch gone.$signal
        ) 3>&- &
        waiter=$!
        bench --peer 127.0.0.1 --sizes 1M --duration 60s --tests bandwidth --direction out
        [ "$status" -eq 1 ]
        [[ "$stderr" == *"peer 127.0.0.1 port 18515"* ]]
        wait $waiter || true
        [ -e gone.$signal ]
        wait $SERVER || true
        SERVER=''
    done
}

@test "bench: gates and wrong usage" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --sizes 64 --iters 10 --tests bandwidth --min-gbps 100000
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"below the wanted"* ]]
    bench --peer 127.0.0.1 --sizes 64x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'64x'"* ]]
    bench --peer 127.0.0.1 --tests speed
    [ "$status" -eq 2 ]
    bench
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--peer"* ]]
    bench --peer 127.0.0.1 --port 1
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 127.0.0.1 port 1"* ]]
    bench --peer 127.0.0.1 --plugin /nonexistent.so
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"/nonexistent.so"* ]]
}
