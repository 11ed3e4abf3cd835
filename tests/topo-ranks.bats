#!/usr/bin/env bats
# meshnet topo ranks: an order along the cables, as launchers take it.

load helper
load meshes

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD NO_COLOR=1
}

ranks()
{
    run --separate-stderr "$MESHNET" topo ranks "$@"
    echo "$output"
    echo "$stderr"
}

@test "topo ranks: a ring that the file has in another order" {
    mesh_of mesh.yaml 4 0-2 2-1 1-3 3-0
    ranks --mesh mesh.yaml
    [ "$status" -eq 0 ]
    [ "$output" = host0,host2,host1,host3 ]
    [ -z "$stderr" ]
    # The one in force, and what follows the first of some.
    MESHNET_CONFIG=mesh.yaml ranks --hosts n3,n2,n1,n0
    [ "$output" = host3,host1,host2,host0 ]
    # As good as any: it stays.
    mesh_of full.yaml 4 0-1 0-2 0-3 1-2 1-3 2-3
    ranks --mesh full.yaml
    [ "$output" = host0,host1,host2,host3 ]
}

@test "topo ranks: steps without a cable are named, and whether another order has fewer" {
    mesh_of line.yaml 4 0-1 1-2 2-3
    ranks --mesh line.yaml
    [ "$status" -eq 0 ]
    [ "$output" = host0,host1,host2,host3 ]
    [[ "$stderr" == *"the ring of 4 goes over 1 pair without a cable: n3-n0; no order has fewer."*"a large all-reduce has at most 1.18 GB/s of bus bandwidth"* ]]
    # There and back is one pair.
    ranks --mesh line.yaml --hosts n0,n2
    [[ "$stderr" == *"the ring of 2 goes over 1 pair without a cable: n0-n2; no order has fewer."* ]]
    ranks --mesh line.yaml --hosts n0,n2 --json
    [ "$(jq .steps_without_cable <<<"$output")" -eq 1 ]
    mesh_of star.yaml 5 0-1 0-2 0-3 0-4
    ranks --mesh star.yaml
    [[ "$stderr" == *"3 pairs without a cable: "*"no order has fewer"* ]]
    ranks --mesh star.yaml --json
    jq -e '.steps_without_cable == 3 and .at_least == 3 and .busbw_gb_per_s > 1.1 and .busbw_gb_per_s < 1.2 and
        ([.steps[] | select(.cable | not)] | length) == 3 and (.steps | length) == 5' <<<"$output"
}

@test "topo ranks: a hostname that a shell or a launcher would read as more is refused" {
    mesh_of mesh.yaml 3 0-2 2-1 0-1
    sed -i 's/host1/"h;id"/' mesh.yaml
    ranks --mesh mesh.yaml
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ "$stderr" == *"n1"* ]]
}

@test "topo ranks: formats" {
    mesh_of mesh.yaml 3 0-2 2-1 0-1
    ranks --mesh mesh.yaml --format hostfile --slots 2
    [ "$output" = $'host0 slots=2\nhost1 slots=2\nhost2 slots=2' ]
    ranks --mesh mesh.yaml --format rankfile --slots 2
    [ "${lines[0]}" = "rank 0=host0 slot=*:*" ]
    [ "${lines[3]}" = "rank 3=host1 slot=*:*" ]
    [ "${#lines[@]}" -eq 6 ]
    ranks --mesh mesh.yaml --format slurm --slots 2
    [ "$output" = $'host0\nhost0\nhost1\nhost1\nhost2\nhost2' ]
    ranks --mesh mesh.yaml --format torchrun
    [ "${lines[1]}" = "host1 --nnodes=3 --nproc-per-node=1 --node-rank=1 --master-addr=host0" ]
    ranks --mesh mesh.yaml --format torchrun --node host2 --slots 8
    [ "$output" = "--nnodes=3 --nproc-per-node=8 --node-rank=2 --master-addr=host0" ]
    ranks --mesh mesh.yaml --format torchrun --node n2 --hosts n1,n2
    [ "$output" = "--nnodes=2 --nproc-per-node=1 --node-rank=1 --master-addr=host1" ]
    ranks --mesh mesh.yaml --json --slots 2
    jq -e '.ranks | length == 6 and .[3] ==
        {rank: 3, node: "n1", hostname: "host1", node_rank: 1, local_rank: 1}' <<<"$output"
    [ "$(jq -r '.ranks[].node' <<<"$output" | uniq | wc -l)" -eq 3 ]
}

@test "topo ranks: a node has as many ranks as GPUs" {
    mesh_of mesh.yaml 2 0-1
    sed -i 's/hostname: host1,/hostname: host1, gpus: [{pci: "0000:01:00.0", path: switch, nics: [e1]}, {pci: "0000:02:00.0", path: switch, nics: [e1]}],/' mesh.yaml
    ranks --mesh mesh.yaml --format hostfile
    [ "$output" = $'host0 slots=1\nhost1 slots=2' ]
}

@test "topo ranks: mpirun takes host list, hostfile and rankfile, and gives ranks in that order" {
    command -v mpirun || skip "no Open MPI"
    mpirun --version | grep -q "Open MPI" || skip "no Open MPI"
    unset "${!OMPI_@}" "${!PMIX_@}"
    mesh_of mesh.yaml 1
    sed -i "s/hostname: host0/hostname: localhost/" mesh.yaml
    as_root=$([ "$(id -u)" -ne 0 ] || echo --allow-run-as-root)
    "$MESHNET" topo ranks --mesh mesh.yaml --slots 3 --format hostfile -o hosts
    "$MESHNET" topo ranks --mesh mesh.yaml --slots 3 --format rankfile -o ranks
    [ "$(timeout 60 mpirun $as_root --hostfile hosts -np 3 sh -c 'echo $OMPI_COMM_WORLD_RANK' | sort | xargs)" = "0 1 2" ]
    run --separate-stderr timeout 60 mpirun $as_root --rankfile ranks -np 3 \
        sh -c 'echo $OMPI_COMM_WORLD_RANK $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)'
    echo "$output $stderr"
    [ "$status" -eq 0 ]
    # Bound to no core of its own: to all that this test may use, or to all that there are.
    own=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
    online=$(cat /sys/devices/system/cpu/online)
    got=$(sort <<<"$output" | xargs)
    [ "$got" = "0 $own 1 $own 2 $own" ] || [ "$got" = "0 $online 1 $online 2 $online" ]
}

@test "topo ranks: a torus of hundreds and a hypercube have a ring" {
    pairs=()
    for ((y = 0; y < 8; y++)); do
        for ((x = 0; x < 8; x++)); do
            pairs+=($((y * 8 + x))-$((y * 8 + (x + 1) % 8)) $((y * 8 + x))-$(((y + 1) % 8 * 8 + x)))
        done
    done
    mesh_of torus.yaml 64 "${pairs[@]}"
    ranks --mesh torus.yaml --json
    jq -e '.steps_without_cable == 0 and (.ranks | length) == 64 and
        ([.ranks[].node] | unique | length) == 64 and all(.steps[]; .cable)' <<<"$output"
}

@test "topo ranks: what it cannot do" {
    mesh_of mesh.yaml 3 0-1 1-2
    ranks --mesh mesh.yaml --hosts n0,nobody
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--hosts nobody: no node of the mesh file"* ]]
    ranks --mesh mesh.yaml --hosts n0,host0
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--hosts host0: this node is there twice"* ]]
    ranks --mesh mesh.yaml --node n0
    [ "$status" -eq 2 ]
    ranks --mesh mesh.yaml --format torchrun --node n7
    [ "$status" -eq 2 ]
    ranks --mesh mesh.yaml --format torchrun --node n0 --hosts n1,n2
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"that --hosts names"* ]]
    ranks --mesh mesh.yaml --slots 0
    [ "$status" -eq 2 ]
    ranks --mesh nothing.yaml
    [ "$status" -eq 2 ]
    ranks n1
    [ "$status" -eq 2 ]
    ranks
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"no mesh file"* ]]
    ranks --mesh mesh.yaml -o /nowhere/at/all
    [ "$status" -eq 1 ] || [ "$status" -eq 2 ]
    [ -n "$stderr" ]
}
