#!/usr/bin/env bats
# meshnet run: a command with the variables of meshnet env.

load helper
bats_require_minimum_version 1.5.0

setup()
{
    unset LD_LIBRARY_PATH MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD NO_COLOR=1
}

@test "run: the command has the variables, its options and its exit code" {
    run --separate-stderr "$MESHNET" run -- sh -c 'echo "$NCCL_NET $1"; test -e "$NCCL_NET_PLUGIN" && exit 7' sh --json
    [ "$status" -eq 7 ]
    [ "$output" = "meshnet --json" ]
    [[ "$stderr" == *"no mesh file"* ]]
    run "$MESHNET" run --quiet -- true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "run: what cannot be run has the exit codes of env(1)" {
    run -127 "$MESHNET" run -q -- ./nothing
    [ "$status" -eq 127 ]
    [[ "$output" == "meshnet run: ./nothing: No such file or directory" ]]
    touch file
    run "$MESHNET" run -q -- ./file
    [ "$status" -eq 126 ]
    run "$MESHNET" run
    [ "$status" -eq 2 ]
    [[ "$output" == *"which command?"* ]]
    run "$MESHNET" run --release x -- true
    [ "$status" -eq 2 ]
}

@test "run: the order of the command's hosts is looked at, kept, and changed where that is asked for" {
    load meshes
    mesh_of mesh.yaml 4 0-2 2-1 1-3 3-0
    export MESHNET_NODE=n1
    # mpirun, as far as this goes.
    printf '#!/bin/sh\necho "$@"\n' >mpirun
    cp mpirun srun
    cp mpirun torchrun
    chmod +x mpirun srun torchrun
    mkdir cat
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml -- ./mpirun -H host0:2,host1,host2,host3 x
    [ "$status" -eq 0 ]
    [ "$output" = "-H host0:2,host1,host2,host3 x" ]
    [[ "$stderr" == *"mpirun -H: the ring of 4 goes over 2 pairs without a cable: n0-n1, n2-n3: TCP through nodes in between, and a large all-reduce takes 2.0 times as long"*"use n0,n2,n1,n3"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun -H host0:2,host1,host2,host3 x
    [ "$output" = "-H host0:2,host2,host1,host3 x" ]
    [[ "$stderr" != *"the ring of"* ]]
    # One that is good stays, with --order too.
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun --host=n2,n0,n3,n1 x
    [ "$output" = "--host=n2,n0,n3,n1 x" ]
    # Files and Slurm's own order are left alone.
    printf 'host0\nhost1\nhost2\nhost3\n' >hosts
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml -- ./mpirun --hostfile hosts x
    [[ "$stderr" == *"mpirun --hostfile: the ring of 4"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun --hostfile hosts x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"hosts has the order of hosts"*"topo ranks --format hostfile"* ]]
    # A list that comes through a pipe is the launcher's to read.
    printf '#!/bin/sh\ncat "$2"\n' >cat/mpirun
    chmod +x cat/mpirun
    run --separate-stderr bash -c '"$0" run --mesh mesh.yaml -- cat/mpirun --hostfile <(cat hosts) x' "$MESHNET"
    [ "$output" = "$(<hosts)" ]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./srun -w 'host[0-3]' x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--distribution=arbitrary"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./srun -m arbitrary -w host0,host1,host2,host3 x
    [ "$output" = "-m arbitrary -w host0,host2,host1,host3 x" ]
    # Hosts are never lost or regrouped, and the program's own arguments are its own.
    run --separate-stderr "$MESHNET" run -q --mesh mesh.yaml --order cables --hosts n0,n1,n2,n3 -- ./mpirun -H n0,n1,n2,n3,n0 x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"n0,n1,n2,n3,n0: expected each of n0,n1,n2,n3 once and no other"*"--hosts"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun -H n0,n1,n2,n0,n1,n2,n3 x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"once and no other"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun -np 4 ./app -H n0,n1,n2,n3
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"names no hosts"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun --odd ./app -H n0,n1,n2,n3
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"may be an argument of the program"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun -mca btl tcp -np 4 -H n0,n1,n2,n3 ./app -H n0,n1,n2,n3
    [ "$output" = "-mca btl tcp -np 4 -H n0,n2,n1,n3 ./app -H n0,n1,n2,n3" ]
    # A host that is no node is named: its order cannot be looked at.
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml -- ./mpirun -H host0,host1,elsewhere:4,host3 x
    [ "$status" -eq 0 ]
    [ "$output" = "-H host0,host1,elsewhere:4,host3 x" ]
    [[ "$stderr" == *"mpirun -H: elsewhere is no node of the mesh file, so the order of these hosts is not looked at"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun -H host0,host1,elsewhere:4,host3 x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--order cables: mpirun -H: elsewhere is no node of the mesh file"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --hosts n0,n2,n1,n3 -- ./mpirun -H host0,host1,elsewhere:4,host3 x
    [[ "$stderr" != *elsewhere* ]]
    # Several programs: all their hosts are the ring.
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml -- ./mpirun -host host0,host1 x : -host host2,host3 y
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"mpirun -host: the ring of 4 goes over 2 pairs without a cable: n0-n1, n2-n3"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml -- ./mpirun -host host0,host2 x : -host host1,host3 y
    [[ "$stderr" != *"the ring of"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun -host host0,host1 x : -host host2,host3 y
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"2 programs have hosts of their own"* ]]
    # No hosts anywhere.
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./mpirun x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"names no hosts"*"meshnet topo ranks"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --quiet -- ./mpirun -H host0,host1,host2,host3 x
    [ -z "$stderr" ]
}

@test "run: torchrun's node rank" {
    load meshes
    mesh_of mesh.yaml 4 0-2 2-1 1-3 3-0
    printf '#!/bin/sh\necho "$@"\n' >torchrun
    chmod +x torchrun
    # n1 is two cables from n0 and cannot be beside it.
    export MESHNET_NODE=n1
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml -- ./torchrun --nnodes 4 --node-rank 1 --master-addr host0 x
    [ "$output" = "--nnodes 4 --node-rank 1 --master-addr host0 x" ]
    [[ "$stderr" == *"torchrun --node-rank 1: 1 step of the ring leads from n0, number 0, to n1, which is 2 cables away"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml -- ./torchrun --nnodes 4 --node-rank 2 --master-addr host0 x
    [[ "$stderr" != *"cables away"* ]]
    # All nodes come to the same order, from the one that is called master on.
    for node in 0:n3:0 1:n0:1 2:n2:2 3:n1:3; do
        IFS=: read -r _ name place <<<"$node"
        MESHNET_NODE=$name run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- \
            ./torchrun --nnodes=4 --node-rank=0 --master-addr=host3 x
        echo "$name $output $stderr"
        [ "$output" = "--nnodes=4 --node-rank=$place --master-addr=host3 x" ]
    done
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --order cables -- ./torchrun --nnodes 2 --node-rank 0 x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--nnodes 2, and 4 nodes to put in order"*"--hosts"* ]]
    run --separate-stderr "$MESHNET" run --mesh mesh.yaml --hosts n0,n2,n1,n3 -- ./torchrun --nnodes 4 --node-rank 1 x
    [[ "$stderr" == *"torchrun --node-rank 1: n1 is number 2 of --hosts"* ]]
}
