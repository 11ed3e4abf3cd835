#!/usr/bin/env bats
# GPU memory between two processes with two cables, on doubles of libibverbs and of the GPU's
# driver: no load or store of a process reaches such memory, and what a NIC wrote there is seen only
# after a read of the same NIC (FAKEVERBS=dmabuf=2), so that a flush left out is wrong data.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mng$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN FAKEGPU "${!NCCL_@}"
    export NO_COLOR=1
    cd "$BATS_TEST_TMPDIR"
    echo 00112233445566778899aabbccddeeff >token
    for node in a b; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    cable a mesh0 10.66.0.1/30 b mesh0 10.66.0.2/30
    cable a mesh1 10.66.1.1/30 b mesh1 10.66.1.2/30
    SERVER='' DMABUF=2
    new_fabric
}

teardown()
{
    [ -z "$SERVER" ] || kill $SERVER 2>/dev/null || true
    wait
    for node in a b; do
        ip netns del $NS-$node 2>/dev/null || true
    done
    rm -f ${FABRIC:+"$FABRIC"}
}

# with_gpu NODE NUMBER COMMAND…: the doubles at a node whose addresses end in NUMBER.
with_gpu()
{
    local node=$1 number=$2
    shift 2
    on "$node" env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs:$BUILD/tests/fakegpu" \
        FAKEVERBS="shm=$FABRIC,dmabuf=$DMABUF,stats=$PWD/stats.$node,dev=rocep1s0f0:mesh0:10.66.0.$number,dev=roceP2p1s0f0:mesh1:10.66.1.$number" \
        timeout -k 1 100 "$@"
}

# between OPTION…: meshnet bench in a with meshnet serve in b.
between()
{
    start_server serve.out serve.err \
        with_gpu b 2 "$MESHNET" serve --token-file token --once --listen 10.66.0.2
    run --separate-stderr with_gpu a 1 "$MESHNET" bench --token-file token --peer 10.66.0.2 --json "$@"
    echo "$output"
    echo "$stderr"
}

@test "gpu: device memory of both vendors travels over two cables, flushed on each, every byte right" {
    for memory in cuda hip; do
        rm -f "$FABRIC"
        between --memory $memory --sizes 8,4K,1M --iters 40 --flows 2
        [ "$status" -eq 0 ]
        [ "$(jq -r .memory <<<"$output")" = $memory ]
        [ "$(jq .wrong_messages <<<"$output")" -eq 0 ]
        [ "$(jq .checked_messages <<<"$output")" -gt 100 ]
        for device in rocep1s0f0 roceP2p1s0f0; do
            grep -q "^$device.bytes [1-9]" stats.a
        done
        wait $SERVER
    done
}

@test "gpu: without a flush the data is wrong, and bench says so" {
    NCCL_GDR_FLUSH_DISABLE=1 between --memory cuda --sizes 1M --iters 20
    [ "$status" -eq 1 ]
    [ "$(jq .wrong_messages <<<"$output")" -gt 0 ]
    [[ $stderr == *'arrived with wrong data'* ]]
}

@test "gpu: latency, groups of receives and bursts from device memory" {
    between --memory cuda --type lat,burst --sizes 8,4K --iters 20
    [ "$status" -eq 0 ]
    wait $SERVER
    rm -f "$FABRIC"
    between --memory cuda --type bw --sizes 64K --iters 40 --messages-per-request 4
    [ "$status" -eq 0 ]
    [ "$(jq .wrong_messages <<<"$output")" -eq 0 ]
}

@test "gpu: managed memory is registered as the host's" {
    DMABUF=0
    between --memory managed --sizes 64K --iters 20
    [ "$status" -eq 0 ]
    [ "$(jq .wrong_messages <<<"$output")" -eq 0 ]
}

@test "gpu: a buffer that 64 connections export anew is one region and no descriptor" {
    command='ulimit -n 256; exec "$0" "$1" 64'
    NCCL_SOCKET_IFNAME=mesh run with_gpu a 1 bash -c "$command" \
        "$BUILD/tests/regions" "$BUILD/lib/libnccl-net-mesh.so"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = 'regions 1 descriptors 0' ]
}

@test "gpu: a NIC that no connection uses, and one without RDMA, take GPU memory from nobody" {
    eval "$(declare -f with_gpu | sed 's/FAKEVERBS="/&dev=old0:lo:127.0.0.9,bare=old0:1,/')"
    cable a mesh2 10.66.2.1/30 b mesh2 10.66.2.2/30
    between --memory cuda --sizes 64K --iters 20
    [ "$status" -eq 0 ]
    [ "$(jq .wrong_messages <<<"$output")" -eq 0 ]
}

@test "gpu: a plugin that takes host memory only is said so, whatever the reason" {
    DMABUF=0
    between --memory cuda --sizes 64K --iters 20
    [ "$status" -eq 1 ]
    [[ $stderr == *'takes host memory only (ptrSupport 0x1)'*'DMA-BUF or a peer memory module'* ]]
    wait $SERVER || true
    rm -f "$FABRIC"
    DMABUF=2
    for reason in MESHNET_ALLOW_TCP=true MESHNET_GPU_DIRECT=false; do
        export "${reason?}"
        between --memory cuda --sizes 64K --iters 20
        unset "${reason%%=*}"
        [ "$status" -eq 1 ]
        [[ $stderr == *'takes host memory only'* ]]
        wait $SERVER || true
        rm -f "$FABRIC"
    done
}

@test "gpu: a peer memory module is enough" {
    DMABUF=0
    cat >peermem <<-'END'
	#!/bin/sh
	mount -t tmpfs none /sys/kernel/mm && mkdir -p /sys/kernel/mm/memory_peers/nv_mem &&
	    echo 1 >/sys/kernel/mm/memory_peers/nv_mem/version && exec "$0.meshnet" "$@"
	END
    chmod +x peermem
    ln -s "$MESHNET" peermem.meshnet
    MESHNET="unshare -m $PWD/peermem"
    eval "$(declare -f between | sed 's/"\$MESHNET"/$MESHNET/g')"
    # Nothing but the driver can translate a GPU's address; the double of verbs needs to touch it.
    export FAKEGPU=dmabuf=0,cpu=1
    between --memory cuda --sizes 64K --iters 20
    [ "$status" -eq 0 ]
    [ "$(jq .wrong_messages <<<"$output")" -eq 0 ]
}

@test "gpu: no driver, no device, a broken driver and a device in use are different messages" {
    run on a "$MESHNET" bench --collective all-reduce --local 2 --sizes 1K --iters 2 --memory hip
    [ "$status" -eq 1 ]
    [[ $output == *'libamdhip64.so'*'cannot be loaded: is the GPU'* ]]
    for state in devices=0:'no GPU; CUDA_VISIBLE_DEVICES' init=803:'different releases' \
        open=46:'exclusive compute mode' init=999:'nvidia-modprobe'; do
        FAKEGPU=${state%%:*} run with_gpu a 1 "$MESHNET" bench --collective all-reduce --local 2 \
            --sizes 1K --iters 2 --memory cuda
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *"${state#*:}"* ]]
        rm -f "$FABRIC"
    done
}

@test "gpu: collectives between two GPUs, sums and all" {
    FAKEGPU=devices=2 run --separate-stderr with_gpu a 1 env NCCL_SOCKET_IFNAME=mesh \
        "$MESHNET" bench --local 3 --sizes 8,40001,1M --iters 3 --memory cuda --json \
        --collective all-reduce,all-gather,broadcast,reduce-scatter,all-to-all,reduce,gather,scatter
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq -r .memory <<<"$output")" = cuda ]
    [ "$(jq '[.collectives[].wrong] | add' <<<"$output")" -eq 0 ]
    [ "$(jq '.collectives | length' <<<"$output")" -eq 24 ]
    # Through the recording plugin, which hands DMA-BUFs on.
    rm -f "$FABRIC"
    MESHNET_TRACE=$PWD/job.%p run --separate-stderr with_gpu a 1 env NCCL_SOCKET_IFNAME=mesh \
        "$MESHNET" bench --local 2 --sizes 64K --iters 3 --memory cuda --json --collective all-reduce \
        --plugin "$BUILD/lib/libnccl-net-meshtrace.so"
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq '[.collectives[].wrong] | add' <<<"$output")" -eq 0 ]
    [ "$("$MESHNET" trace stats job.* --json 2>/dev/null | grep -c iflush)" -gt 0 ] ||
        "$MESHNET" trace show "$(ls job.* | head -n 1)" | grep -q iflush
}

@test "gpu: verify-plugin passes though a GPU's driver is there, and sees what memory is taken" {
    # The driver is loaded by nobody: host memory alone is offered.
    run with_gpu a 1 env NCCL_SOCKET_IFNAME=mesh "$MESHNET" verify-plugin --rule load --rule device
    echo "$output"
    [ "$status" -eq 0 ]
    # LD_PRELOAD stands for a process that uses the GPU.
    run with_gpu a 1 env NCCL_SOCKET_IFNAME=mesh LD_PRELOAD=libcuda.so.1 \
        "$MESHNET" verify-plugin --rule load --rule device --rule transfer
    echo "$output"
    [ "$status" -eq 0 ]
    run with_gpu a 1 env NCCL_SOCKET_IFNAME=mesh LD_PRELOAD=libcuda.so.1 \
        "$MESHNET" verify-plugin --all-versions --rule device
    echo "$output" | grep -v '^pass'
    [ "$status" -eq 0 ]
}
