#!/usr/bin/env bats
# bench --engine on doubles of NCCL, RCCL and of GPU drivers: what the library is told, what it is
# asked for, and what is made of its log and its failures. What the double measures means nothing.

load helper
load valid

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE FAKEGPU FAKENCCL "${!NCCL_@}"
    export NO_COLOR=1
    cd "$BATS_TEST_TMPDIR"
    DOUBLES=$BUILD/tests/fakenccl:$BUILD/tests/fakegpu
}

# engine OPTION…: all-reduce between two ranks, unless the options say otherwise.
engine()
{
    run --separate-stderr env LD_LIBRARY_PATH="$DOUBLES" timeout -k 1 100 "$MESHNET" bench \
        --collective all-reduce --local 2 --iters 4 --sizes 64K "$@"
    echo "$output"
    echo "$stderr"
}

@test "engine: every collective and type of three ranks, right in every byte, over both networks" {
    export FAKEGPU=major=9 # 8-bit floats
    for name in nccl rccl; do
        types=all sizes=4K
        [ $name = nccl ] || types=float32 sizes=0,8,1M
        engine --engine $name --collective all --local 3 --type $types --sizes $sizes --json
        [ "$status" -eq 0 ]
        [ "$(jq '[.collectives[] | .wrong, .in_place_wrong] | add' <<<"$output")" -eq 0 ]
        [ "$(jq -r '[.collectives[].collective] | unique | join(" ")' <<<"$output")" = \
            "all_gather all_reduce alltoall alltoallv broadcast gather reduce reduce_scatter scatter sendrecv" ]
        [ "$(jq -r '[.collectives[].algorithm] | unique | join(" ")' <<<"$output")" = "$name $name-own" ]
        [ "$(jq '[.collectives[] | select(.algorithm == "'$name'")] | length' <<<"$output")" -eq \
            "$(jq '.beside | length' <<<"$output")" ]
    done
}

@test "engine: operations and roots" {
    engine --engine nccl --collective reduce,broadcast,gather,scatter --op all --root 1 --local 3 \
        --networks mesh --json
    [ "$status" -eq 0 ]
    [ "$(jq '[.collectives[] | .wrong, .in_place_wrong] | add' <<<"$output")" -eq 0 ]
    [ "$(jq -r '[.collectives[] | select(.collective == "reduce") | .op] | join(" ")' <<<"$output")" = \
        "sum prod max min" ]
}

@test "engine: the plugin is the network of one run, and nothing of it is in the other" {
    # What the environment says of any plugin is not what a comparison is of.
    NCCL_NET=gIB engine --engine nccl --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '[.engines[].network] | join(" ")' <<<"$output")" = "Socket meshnet" ]
    export NCCL_NET=meshnet NCCL_NET_PLUGIN=/nowhere/libnccl-net.so
    engine --engine nccl --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '.engines[0] | "\(.algorithm) \(.network) \(.plugin)"' <<<"$output")" = "nccl-own Socket null" ]
    [ "$(jq -r '.engines[1] | "\(.algorithm) \(.network) \(.plugin)"' <<<"$output")" = "nccl meshnet meshnet (v11)" ]
    [ "$(jq -r '.engines[1].version' <<<"$output")" = 2.28.9 ]
    [ "$(jq -r '.engines[1].library' <<<"$output")" -ef "$BUILD/tests/fakenccl/libnccl.so.2" ]
    echo "$output" >nccl.json
    ! python3 -c 'import jsonschema' 2>/dev/null || valid nccl.json
    [ "$(jq -r '.engines[1].transports[0] | "\(.transport) \(.channels)"' <<<"$output")" = "NET/meshnet 2" ]
}

@test "engine: where nothing went over the plugin there is no ratio, and it is said" {
    export FAKEGPU=devices=2
    engine --engine nccl
    [ "$status" -eq 0 ]
    [[ $output == *"Nothing went over the plugin"*"--apart"* ]]
    [[ $output != *"ratio"* ]]
    engine --engine nccl --apart
    [[ $output == *"ratio: how much faster the plugin is"* ]]
}

@test "engine: --type all leaves out what this library or GPU has not; by name it is an error" {
    for lacking in FAKENCCL=version=22304 FAKEGPU=major=8; do
        FAKEGPU=major=9 # unless lacking
        export FAKEGPU "${lacking?}"
        engine --engine nccl --networks mesh --type all --json
        [ "$status" -eq 0 ]
        [ "$(jq '.collectives | length' <<<"$output")" -eq 10 ]
        engine --engine nccl --networks mesh --type float32,float8e4m3
        [ "$status" -ne 0 ]
        [[ $stderr == *"all-reduce of float8e4m3: "*"8-bit floats"* ]]
        unset FAKENCCL
    done
}

@test "engine: ranks that share a GPU are hosts of their own; others only with --apart" {
    engine --engine nccl --local 4 --networks mesh --json
    [ "$(jq -c '.engines[0] | [.apart, .transports[].transport]' <<<"$output")" = '[true,"NET/meshnet"]' ]
    export FAKEGPU=devices=2
    engine --engine nccl --networks mesh --json
    [ "$(jq -c '.engines[0] | [.apart, .transports[].transport]' <<<"$output")" = '[false,"P2P"]' ]
    engine --engine nccl --networks mesh --apart --json
    [ "$(jq -c '.engines[0] | [.apart, .transports[].transport]' <<<"$output")" = '[true,"NET/meshnet"]' ]
    engine --engine nccl --networks mesh --gpu 1 --memory managed --json
    [ "$(jq -c '.engines[0].apart, .memory' <<<"$output" | paste -sd' ')" = 'true "managed"' ]
}

@test "engine: releases that take no path get the name, where the loader finds it" {
    export FAKENCCL=version=21805
    engine --engine nccl --networks mesh
    [ "$status" -ne 0 ]
    [[ $stderr == *"2.18.5 takes no path"*"LD_LIBRARY_PATH=$BUILD/lib"* ]]
    DOUBLES=$DOUBLES:$BUILD/lib
    engine --engine nccl --networks mesh --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '.engines[0] | "\(.version) \(.network)"' <<<"$output")" = "2.18.5 meshnet" ]
}

@test "engine: a library that says nothing of the plugin is not believed" {
    FAKENCCL=shy=1 engine --engine nccl --networks mesh
    [ "$status" -eq 1 ]
    [[ $stderr == *"NCCL used the network '' and not 'meshnet'"* ]]
}

@test "engine: wrong results are found at whichever rank" {
    for rank in 0 1; do
        FAKENCCL=wrong=1,rank=$rank engine --engine nccl --networks own --json
        [ "$status" -eq 1 ]
        [ "$(jq '.collectives[0].wrong' <<<"$output")" -eq 1 ]
        [[ $stderr == *"elements of results are wrong"* ]]
    done
}

@test "engine: what fails says where, with the library's own words and what to do" {
    FAKENCCL=init=1,rank=1 engine --engine nccl
    [ "$status" -eq 1 ]
    [[ $stderr == *"rank 1 ("*"NCCL 2.28.9: ncclCommInitRank: "*"it said: Cuda failure 35"*"update the driver"* ]]
    FAKENCCL=call=2,rank=0 engine --engine nccl --networks mesh
    [ "$status" -eq 1 ]
    [[ $stderr == *"ncclAllReduce: "*"it said: Call to ibv_reg_mr failed"* ]]
    FAKENCCL=async=6,rank=1 engine --engine nccl --networks mesh
    [ "$status" -eq 1 ]
    [[ $stderr == *"rank 1 ("*"NCCL 2.28.9: all-reduce: "* ]]
}

@test "engine: what hangs ends at the timeout, and one rank's end is every rank's" {
    for hang in 1 2; do
        FAKENCCL=hang=$hang,rank=1 engine --engine nccl --networks mesh --timeout 5s
        [ "$status" -eq 1 ]
        [[ $stderr == *"nothing moved for 5 s (--timeout)"* ]]
    done
    # The results are there, whatever closing does.
    FAKENCCL=hang=3 engine --engine nccl --networks mesh --timeout 5s --json
    [ "$status" -eq 0 ]
    [ "$(jq '.collectives | length' <<<"$output")" -eq 1 ]
}

@test "engine: no driver, no library, another file, an unusable GPU" {
    DOUBLES=$BUILD/tests/fakenccl
    engine --engine rccl
    [ "$status" -eq 1 ]
    [[ $stderr == *"libamdhip64.so"*"is the GPU's driver installed?"* ]]
    DOUBLES=$BUILD/tests/fakegpu
    engine --engine rccl
    [ "$status" -eq 1 ]
    [[ $stderr == *"librccl.so.1 cannot be loaded: install it, or give --library FILE"* ]]
    engine --engine nccl --library "$BATS_TEST_TMPDIR/libnccl.so.2"
    [ "$status" -eq 2 ]
    [[ $stderr == *"--library $BATS_TEST_TMPDIR/libnccl.so.2: "*"No such file"* ]]
    engine --engine nccl --library "$BUILD/tests/fakegpu/libcuda.so.1"
    [ "$status" -eq 1 ]
    [[ $stderr == *"libcuda.so.1 has no ncclGetVersion"* ]]
    DOUBLES=$BUILD/tests/fakenccl:$BUILD/tests/fakegpu
    FAKEGPU=open=46 engine --engine nccl
    [ "$status" -eq 1 ]
    [[ $stderr == *"exclusive compute mode"* ]]
}

@test "engine: ranks that another launcher started, over both networks" {
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(free_port)
    export MESHNET_TOKEN=00112233445566778899aabbccddeeff LD_LIBRARY_PATH=$DOUBLES
    RANK=1 timeout -k 1 60 "$MESHNET" bench --collective all --engine nccl --sizes 4K --iters 2 >other 2>&1 3>&- &
    RANK=0 run --separate-stderr timeout -k 1 60 "$MESHNET" bench --collective all --engine nccl \
        --sizes 4K --iters 2 --json
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
    wait $!
    [ "$(jq '[.collectives[] | .wrong] | add' <<<"$output")" -eq 0 ]
    [ "$(jq '.engines | length' <<<"$output")" -eq 2 ]
}

@test "engine: nothing is left: no process, no memory" {
    FAKENCCL=hang=1 engine --engine nccl --networks mesh --timeout 1s
    [ "$status" -eq 1 ]
    run pgrep -f "bench --collective all-reduce --local 2 --iters 4 --sizes 64K --engine nccl --networks mesh --timeout 1s"
    [ "$status" -eq 1 ]
}

@test "engine: wrong usage" {
    engine --networks mesh
    [ "$status" -eq 2 ]
    [[ $stderr == *"go with --engine"* ]]
    engine --engine nccl --networks mesh,wire
    [ "$status" -eq 2 ]
    [[ $stderr == *"--networks 'wire': expected some of own, mesh"* ]]
    engine --engine nccl --algorithm ring
    [ "$status" -eq 2 ]
    [[ $stderr == *"NCCL_ALGO"* ]]
    engine --engine nccl --memory hip
    [ "$status" -eq 2 ]
    [[ $stderr == *"--memory hip: NCCL has no such memory"* ]]
    engine --engine nccl --collective sparse-all-reduce
    [ "$status" -eq 2 ]
    [[ $stderr == *"NCCL has no such call"* ]]
    engine --engine mpi
    [ "$status" -eq 2 ]
    [[ $stderr == *"own"*"nccl"*"rccl"* ]]
    run "$MESHNET" bench --peer 127.0.0.1 --engine nccl
    [ "$status" -eq 2 ]
}

# levels LIBRARY DOUBLE HIP [VARIABLE…]: what the plugin says at which level; DOUBLE and HIP are the
# settings of the doubles of the library and of the GPU's driver.
levels()
{
    local library=$1 double=$2 hip=$3
    shift 3
    run env LD_LIBRARY_PATH="$DOUBLES" FAKENCCL="plugin=1,shy=0,$double" FAKEGPU="$hip" \
        NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=INFO "$@" timeout -k 1 30 "$BUILD/tests/loader" "$library"
    echo "$library $double $hip"
    echo "$output"
    grep 'NET/meshnet' <<<"$output" >said
}

@test "engine: what the plugin says arrives at its level, however the library counts levels" {
    while read -r library double hip; do
        for plugin in mesh meshtrace; do
            levels "$library" "$double" "$hip" MESHNET_TRACE="$PWD/trace.%p" \
                NCCL_NET_PLUGIN="$BUILD/lib/libnccl-net-$plugin.so"
            [ "$status" -eq 0 ]
            grep -q 'NCCL INFO NET/meshnet: using lo ' said
            run ! grep -v 'NCCL INFO NET/meshnet: ' said
            levels "$library" "$double" "$hip" MESHNET_TRACE="$PWD/trace.%p" \
                NCCL_NET_PLUGIN="$BUILD/lib/libnccl-net-$plugin.so" MESHNET_PORT_RANGE=none
            grep -q 'NCCL WARN NET/meshnet: .*MESHNET_PORT_RANGE="none"' said
        done
    done <<'END'
libnccl.so.2 version=22809,errors=0 devices=1
libnccl.so.2 version=23102,errors=0 devices=1
librccl.so.1 version=22606,errors=0 hip=60443482
librccl.so.1 version=22707,errors=0 hip=70151802
librccl.so.1 version=22707,errors=1 hip=70226015
librccl.so.1 version=22903,errors=1 hip=70326015
END
}
