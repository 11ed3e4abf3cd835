#!/usr/bin/env bats
# What the commands that talk to another host say of it: another mesh file.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnp$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN "${!NCCL_@}"
    export NO_COLOR=1 HOME=$BATS_TEST_TMPDIR
    cd "$BATS_TEST_TMPDIR"
    echo 00112233445566778899aabbccddeeff >token
    for node in a b; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    cable a ab 10.1.0.0/31 b ba 10.1.0.1/31
    mesh 30s >mesh.yaml
    mesh 31s >other.yaml
    SERVER=''
}

teardown()
{
    [ -z "$SERVER" ] || kill $SERVER 2>/dev/null || true
    wait
    for node in a b; do
        ip netns del $NS-$node 2>/dev/null || true
    done
}

# mesh SILENCE [COMMENT]
mesh()
{
    cat <<-END
	version: 1 ${2:+# $2}
	nodes:
	  - {name: a, nics: [{netdev: ab, addresses: [10.1.0.0/31]}]}
	  - {name: b, nics: [{netdev: ba, addresses: [10.1.0.1/31]}]}
	transport: {silence: $1}
	END
}

# at NODE MESH COMMAND…: MESH is a file, or none.
at()
{
    local node=$1 mesh=MESHNET_CONFIG
    [ "$2" = none ] || mesh+==$PWD/$2
    [ "$2" != none ] || mesh=--unset=$mesh
    shift 2
    on "$node" env "$mesh" MESHNET_NODE="$node" timeout -k 1 100 "$@"
}

# serve NODE MESH
serve()
{
    local mesh=MESHNET_CONFIG
    [ "$2" = none ] || mesh+==$PWD/$2
    [ "$2" != none ] || mesh=--unset=$mesh
    start_server serve.out serve.err nsenter --net=/run/netns/$NS-"$1" env "$mesh" MESHNET_NODE="$1" \
        timeout -k 1 100 "$MESHNET" serve --token-file token --listen 10.1.0.1
}

stop()
{
    kill "$SERVER"
    wait "$SERVER" || true
    SERVER=''
}

bench()
{
    run --separate-stderr at a "$1" "$MESHNET" bench --token-file token --peer 10.1.0.1 --sizes 8 \
        --tests bandwidth --iters 10
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
}

DIFFERENT='goes by another mesh file \(hash [0-9a-f]{16}\) than this host: .*\.yaml \(hash [0-9a-f]{16}\); different: transport\.silence; put'

@test "peers: bench --peer and serve say that the other goes by another mesh file" {
    serve b other.yaml
    bench mesh.yaml
    [[ "$stderr" =~ "warning: b "$DIFFERENT ]]
    [ "$(grep -cE "warning: client 10.1.0.0 $DIFFERENT" serve.err)" -eq 1 ]
    bench none
    [[ "$stderr" =~ 'warning: b goes by a mesh file (hash '[0-9a-f]{16}') and this host by none' ]]
    stop
    serve b none
    bench mesh.yaml
    [[ "$stderr" =~ 'warning: b goes by no mesh file and this host by '.*'/mesh.yaml (hash ' ]]
    stop
    # What differs in a comment alone is the same.
    mesh 30s "written by hand" >again.yaml
    serve b again.yaml
    bench mesh.yaml
    [[ "$stderr" != *"mesh file"* ]]
    [[ "$(cat serve.err)" != *"mesh file"* ]]
}

@test "peers: ranks of bench and of replay: rank 0 names the nodes with another mesh file" {
    export WORLD_SIZE=3 MASTER_ADDR=10.1.0.0 MASTER_PORT=29500
    for rank in 1 2; do
        RANK=$rank at b other.yaml "$MESHNET" bench --token-file token --collective all-reduce \
            --sizes 8 --iters 5 >"out.$rank" 2>&1 3>&- &
    done
    export MESHNET_TRACE=$PWD/job.%p
    RANK=0 run --separate-stderr at a mesh.yaml "$MESHNET" bench --token-file token \
        --collective all-reduce --sizes 8 --iters 5
    wait
    cat out.*
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [ "$(grep -cE "warning: b $DIFFERENT" <<<"$stderr")" -eq 1 ]
    unset WORLD_SIZE MASTER_ADDR MASTER_PORT
    at a none "$MESHNET" bench --local 2 --plugin "$BUILD/lib/libnccl-net-meshtrace.so" \
        --collective all-reduce --sizes 8 --iters 3
    export WORLD_SIZE=2 MASTER_ADDR=10.1.0.0 MASTER_PORT=29500
    RANK=1 at b none "$MESHNET" replay --token-file token job.* >out.1 2>&1 3>&- &
    RANK=0 run --separate-stderr at a mesh.yaml "$MESHNET" replay --token-file token job.*
    wait
    cat out.1
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [ "$(grep -c "warning: b goes by no mesh file" <<<"$stderr")" -eq 1 ]
}

@test "peers: verify-plugin --peer says so before the first rule" {
    serve b other.yaml
    run --separate-stderr at a mesh.yaml "$MESHNET" verify-plugin --peer 10.1.0.1 --token-file token \
        --rule handshake.processes "$PLUGIN"
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [ "$(grep -cE "warning: 10.1.0.1 $DIFFERENT" <<<"$stderr")" -eq 1 ]
}

@test "peers: the plugin warns once of each peer with another mesh file" {
    at a mesh.yaml "$BUILD/tests/stream" "$PLUGIN" receive handle 40 >received 2>received.log 3>&- &
    at b other.yaml "$BUILD/tests/stream" "$PLUGIN" send handle 40 idle >sent 2>sent.log 3>&-
    wait
    cat received.log sent.log received sent
    [ "$(cat received.log | grep -cE "^NET/meshnet: peer b $DIFFERENT")" -eq 1 ]
    [ "$(cat sent.log | grep -cE "^NET/meshnet: peer a $DIFFERENT")" -eq 1 ]
}

@test "peers: a node's name is taken wherever a host is asked for" {
    start_server serve.out serve.err nsenter --net=/run/netns/$NS-b env MESHNET_NODE=b \
        MESHNET_CONFIG="$PWD/mesh.yaml" timeout -k 1 100 "$MESHNET" serve --token-file token --listen b
    grep -q '^listening at 10.1.0.1 port 18515' serve.out
    for command in "bench --sizes 8 --tests bandwidth --iters 10" \
        "verify-plugin --rule handshake.processes $PLUGIN"; do
        run --separate-stderr at a mesh.yaml "$MESHNET" $command --token-file token --peer b
        echo "$output$stderr"
        [ "$status" -eq 0 ]
    done
    stop
    # Rank 0 is at b, one more rank there and one at a.
    export MESHNET_WORLD=3
    MESHNET_RANK=1 at a mesh.yaml "$MESHNET" bench --token-file token --collective all-reduce \
        --sizes 8 --iters 5 --coordinator b >out.1 2>&1 3>&- &
    MESHNET_RANK=2 at b mesh.yaml "$MESHNET" bench --token-file token --collective all-reduce \
        --sizes 8 --iters 5 --coordinator b >out.2 2>&1 3>&- &
    MESHNET_RANK=0 run at b mesh.yaml "$MESHNET" bench --token-file token --collective all-reduce \
        --sizes 8 --iters 5 --coordinator b
    wait
    cat out.*
    echo "$output"
    [ "$status" -eq 0 ]
}

# rank RANK NODE MESH: of two, rank 0 at b; names lead where ./hosts says.
rank()
{
    MESHNET_RANK=$1 MESHNET_WORLD=2 at "$2" "$3" unshare -m sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' \
        "$PWD/hosts" "$MESHNET" bench --token-file token --collective all-reduce --sizes 8 --iters 5 \
        --coordinator b
}

@test "peers: rank 0 is found by its name over a network that the mesh file does not have" {
    cable a oa 10.3.0.1/24 b ob 10.3.0.2/24
    printf '127.0.1.1 b\n10.3.0.2 b\n' >hosts
    rank 1 a none >out.1 2>&1 3>&- &
    run rank 0 b mesh.yaml
    wait
    cat out.1
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "peers: an address of the mesh file that its host has no longer stops neither rank 0 nor one beside it" {
    echo '127.0.0.1 localhost' >hosts
    sed 's|\[10.1.0.1/31\]|[10.5.0.1/24, 10.1.0.1/31]|' mesh.yaml >stale.yaml
    rank 1 b stale.yaml >out.1 2>&1 3>&- &
    run rank 0 b stale.yaml
    wait
    cat out.1
    echo "$output"
    [ "$status" -eq 0 ]
}

# wrong SAID COMMAND…: at a, exit 2, and in one line what is wrong.
wrong()
{
    local said=$1
    shift
    run --separate-stderr at a "$@"
    echo "$output$stderr"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$said"* ]]
}

@test "peers: a broken mesh file is said as it is, so are an unknown node and oneself" {
    local command option
    sed 's/silence: 30s/silence: soon/' mesh.yaml >broken.yaml
    for command in "bench --token-file token --peer" "verify-plugin --token-file token $PLUGIN --peer" \
        "serve --token-file token --listen"; do
        option=${command##* }
        wrong 'broken.yaml:5:22: silence: "soon"; expected a duration' broken.yaml "$MESHNET" $command b
        wrong "$option zz: it is not a node of $PWD/mesh.yaml (nodes: a, b)" mesh.yaml "$MESHNET" $command zz
        wrong "$option zz: no such host (" none "$MESHNET" $command zz
        wrong "and there is no mesh file" none "$MESHNET" $command zz
    done
    for command in "bench --token-file token --peer" "verify-plugin --token-file token $PLUGIN --peer"; do
        wrong "--peer a: it is this node ($PWD/mesh.yaml)" mesh.yaml "$MESHNET" $command a
    done
    wrong "--listen b: another node of $PWD/mesh.yaml; this one is a" mesh.yaml \
        "$MESHNET" serve --token-file token --listen b
    wrong "--hosts zz: it is not a node of $PWD/mesh.yaml (nodes: a, b)" mesh.yaml \
        "$MESHNET" bench --collective all-reduce --token-file token --agents --hosts a,zz
    wrong "--hosts zz: it is not a node of $PWD/mesh.yaml (nodes: a, b)" mesh.yaml \
        "$MESHNET" bench --print-order --hosts a,zz
    wrong "--hosts: a node is there twice" mesh.yaml "$MESHNET" bench --print-order --hosts a,b,b
    MESHNET_TRACE=$PWD/job.%p at a none "$MESHNET" bench --local 2 --collective all-reduce --sizes 8 \
        --iters 3 --plugin "$BUILD/lib/libnccl-net-meshtrace.so"
    export MESHNET_RANK=0 MESHNET_WORLD=2
    for command in "bench --collective all-reduce" "replay $(echo job.*)"; do
        wrong "--coordinator zz: it is not a node of $PWD/mesh.yaml (nodes: a, b)" mesh.yaml \
            "$MESHNET" $command --token-file token --coordinator zz
        wrong "--coordinator b: another node of $PWD/mesh.yaml; this one is a" mesh.yaml \
            "$MESHNET" $command --token-file token --coordinator b
    done
}
