#!/usr/bin/env bats
# meshnet env: what NCCL and RCCL are told, and what on a host shadows the plugin.

load helper

setup()
{
    unset LD_LIBRARY_PATH LD_PRELOAD VIRTUAL_ENV CONDA_PREFIX MESHNET_CONFIG "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
    export HOME=$PWD MESHNET_NODE=a NO_COLOR=1
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics: [{netdev: n1, addresses: [10.1.1.1/30]}, {netdev: n2, addresses: [10.1.2.1/30]}]
	  - name: b
	    nics: [{netdev: n1, addresses: [10.1.1.2/30]}, {netdev: n3, addresses: [10.1.3.1/30]}]
	  - name: c
	    nics: [{netdev: n2, addresses: [10.1.2.2/30]}, {netdev: n3, addresses: [10.1.3.2/30]}]
	END
    LIBRARY=$(realpath "$(dirname "$MESHNET")/../lib/libnccl-net-mesh.so")
}

# env_of OPTION…
env_of()
{
    run --separate-stderr "$MESHNET" env "$@"
    echo "$output"
    echo "$stderr"
}

@test "env: a shell gets the plugin, the network's name and the mesh file" {
    env_of --mesh mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"in this order of nodes"*": a,"* ]]
    eval "$output"
    [ "$NCCL_NET_PLUGIN" = "$LIBRARY" ]
    [ "$NCCL_NET" = meshnet ]
    [ "$MESHNET_CONFIG" = "$PWD/mesh.yaml" ]
    [ "$NCCL_DEBUG" = WARN ]
    # What is set already and no contradiction stays.
    export NCCL_SOCKET_IFNAME=eth7 NCCL_DEBUG=INFO
    env_of --mesh mesh.yaml --json
    [ "$(jq -r '.variables[] | select(.name == "NCCL_SOCKET_IFNAME").value' <<<"$output")" = eth7 ]
    [ "$(jq -r '.variables[] | select(.name == "NCCL_DEBUG").value' <<<"$output")" = INFO ]
    [ "$(jq -r .node <<<"$output")" = a ]
    [ "$(jq '[.warnings[].text | select(test("is in the environment"))] | length' <<<"$output")" -eq 0 ]
}

@test "env: a name with a quote survives the shell" {
    mkdir "it's"
    mv mesh.yaml "it's/"
    env_of --mesh "it's/mesh.yaml"
    eval "$output"
    [ "$MESHNET_CONFIG" = "$PWD/it's/mesh.yaml" ]
}

@test "env: older releases look for a name" {
    env_of --mesh mesh.yaml --release 2.18.3
    eval "$output"
    [ "$NCCL_NET_PLUGIN" = mesh ]
    [ "$LD_LIBRARY_PATH" = "$(dirname "$LIBRARY")" ]
    unset NCCL_NET_PLUGIN
    env_of --mesh mesh.yaml --release 2.8
    [[ "$output" != *NCCL_NET_PLUGIN* ]]
    [[ "$output" == *"LD_LIBRARY_PATH=$(dirname "$LIBRARY")"* ]]
    # All of these names are there.
    [ -e "$(dirname "$LIBRARY")/libnccl-net.so" ]
    [ -e "$(dirname "$LIBRARY")/librccl-net-mesh.so" ]
}

# variable NAME: its value in the JSON in output.
variable()
{
    jq -r ".variables[] | select(.name == \"$1\").value" <<<"$output"
}

@test "env: the tuner is set where the release takes it, and stays off where it is meant to be" {
    env_of --mesh mesh.yaml --json
    [ "$(variable NCCL_TUNER_PLUGIN)" = "$LIBRARY" ]
    for release in 2.21 2.30.3; do
        env_of --mesh mesh.yaml --release $release --json
        [ "$(variable NCCL_TUNER_PLUGIN)" = "$LIBRARY" ]
    done
    # These look for another interface, in what the variable names. Of a full mesh that is no loss.
    for release in 2.18 2.19.4 2.20; do
        env_of --mesh mesh.yaml --release $release --json
        [ -z "$(variable NCCL_TUNER_PLUGIN)" ]
        [[ "$output" != *NCCL_ALGO=Ring* ]]
    done
    NCCL_TUNER_PLUGIN=none env_of --mesh mesh.yaml --json
    [ "$(variable NCCL_TUNER_PLUGIN)" = none ]
    [ "$(jq '[.warnings[].text | select(test("is in the environment"))] | length' <<<"$output")" -eq 0 ]
    NCCL_TUNER_PLUGIN=other.so env_of --mesh mesh.yaml --json
    [ "$(variable NCCL_TUNER_PLUGIN)" = "$LIBRARY" ]
    [[ "$output" == *"NCCL_TUNER_PLUGIN=other.so is in the environment; it becomes"* ]]
    # A plugin that is no tuner.
    printf '%s\n' 'struct { const char *name; int (*slots[40])(void); } ncclNetPlugin_v8 = {"other", {0}};' |
        cc -x c -shared -fPIC -o libnccl-net-other.so -
    env_of --mesh mesh.yaml --plugin libnccl-net-other.so --json
    [ -z "$(variable NCCL_TUNER_PLUGIN)" ]
    cp mesh.yaml off.yaml
    echo 'plugin: {tuner: false}' >>off.yaml
    env_of --mesh off.yaml --json
    [ -z "$(variable NCCL_TUNER_PLUGIN)" ]
    # Without a cable between some, and with four: what an older release can be told instead.
    cat >>mesh.yaml <<-END
	  - name: d
	    nics: [{netdev: n1, addresses: [10.1.4.1/30]}]
	END
    env_of --mesh mesh.yaml --release 2.20
    [[ "$stderr" == *"takes no tuner"*"NCCL_ALGO=Ring"* ]]
    NCCL_ALGO=Ring env_of --mesh mesh.yaml --release 2.20
    [[ "$stderr" != *"takes no tuner"* ]]
}

@test "env: the interface beside the cables is where ranks meet" {
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mne$$
    ip netns add $NS
    for nic in n1 n2 mgmt; do
        ip -n $NS link add $nic type veth peer name p$nic
        ip -n $NS link set $nic up
        ip -n $NS link set p$nic up
    done
    ip -n $NS addr add 10.1.1.1/30 dev n1
    ip -n $NS addr add 10.1.2.1/30 dev n2
    ip -n $NS addr add 192.0.2.7/24 dev mgmt
    run --separate-stderr nsenter --net=/run/netns/$NS "$MESHNET" env --mesh mesh.yaml --json
    ip -n $NS link del mgmt
    two=$(nsenter --net=/run/netns/$NS "$MESHNET" env --mesh mesh.yaml 2>&1)
    ip netns del $NS
    echo "$output"
    echo "$two"
    [ "$(jq -r '.variables[] | select(.name == "NCCL_SOCKET_IFNAME").value' <<<"$output")" = =mgmt ]
    [[ "$two" == *"no interface beside the mesh's cables"* ]]
    [[ "$two" != *"NCCL_SOCKET_IFNAME="* ]]
}

@test "env: ranks meet over what the mesh file calls management" {
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mne$$
    sed -i 's/\[{netdev: n1, addresses: \[10.1.1.1\/30\]}/&, {netdev: mgmt, role: management, addresses: [192.0.2.7\/24]}/' mesh.yaml
    ip netns add $NS
    for nic in n1 n2 other mgmt; do
        ip -n $NS link add $nic type veth peer name p$nic
        ip -n $NS link set $nic up
        ip -n $NS link set p$nic up
    done
    ip -n $NS addr add 10.1.1.1/30 dev n1
    ip -n $NS addr add 10.1.2.1/30 dev n2
    ip -n $NS addr add 198.51.100.7/24 dev other
    ip -n $NS addr add 192.0.2.7/24 dev mgmt
    run --separate-stderr nsenter --net=/run/netns/$NS "$MESHNET" env --mesh mesh.yaml --json
    ip netns del $NS
    echo "$output"
    [ "$(jq -r '.variables[] | select(.name == "NCCL_SOCKET_IFNAME").value' <<<"$output")" = =mgmt ]
    [[ "$(jq -r '.warnings[].text' <<<"$output")" == *"mgmt was taken, there are also other"* ]]
}

@test "env: what shadows the plugin is named" {
    mkdir -p other .local/lib/python3.11/site-packages/{nvidia/nccl,torch}/lib
    touch other/libnccl-net.so
    echo 1 >.local/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2
    echo 2 >.local/lib/python3.11/site-packages/torch/lib/libnccl.so.2
    printf '# mine\nNCCL_NET=Socket\n NCCL_ALGO = Tree\n' >.nccl.conf
    export LD_LIBRARY_PATH=$PWD/other NCCL_NET=IB
    env_of --mesh mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"$PWD/other/libnccl-net.so is another network plugin"* ]]
    [[ "$stderr" == *"libraries: "*"nvidia/nccl/lib/libnccl.so.2"*"torch/lib/libnccl.so.2"* ]]
    [[ "$stderr" == *"$PWD/.nccl.conf:2 sets NCCL_NET=Socket; the environment goes first"* ]]
    [[ "$stderr" == *"$PWD/.nccl.conf:3 sets NCCL_ALGO="*"Tree, which stays in effect"* ]]
    [[ "$stderr" == *"NCCL_NET=IB is in the environment; it becomes meshnet"* ]]
    # A pair without a cable.
    sed -i 's/10.1.3.2/10.1.4.2/' mesh.yaml
    env_of --mesh mesh.yaml
    [[ "$stderr" == *"b and c have no cable"* ]]
    # A host that is no node.
    MESHNET_NODE=nobody env_of --mesh mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"is no node of"* ]]
}

@test "env: what is set for NCCL's own transport is shown with what becomes of it" {
    printf 'transport: {service_level: 2}\n' >>mesh.yaml
    export NCCL_IB_TC=106 NCCL_IB_SL=3 NCCL_IB_TIMEOUT=99
    env_of --mesh mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"NCCL_IB_TC=106 is taken as traffic_class: 106"* ]]
    [[ "$stderr" == *"NCCL_IB_SL=3 is not used: the mesh file has service_level: 2"* ]]
    [[ "$stderr" == *'NCCL_IB_TIMEOUT="99" is not used: expected a whole number from 1 to 22'* ]]
    [[ "$stderr" != *NCCL_IB_PKEY* ]]
}

@test "env: wrong usage" {
    env_of --mesh nowhere.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"nowhere.yaml: No such file"* ]]
    env_of --plugin nowhere.so
    [ "$status" -eq 2 ]
    env_of --release 3.1
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"such as 2.18.3"* ]]
    env_of --for tccl
    [ "$status" -eq 2 ]
    env_of operand
    [ "$status" -eq 2 ]
    echo 'version: x' >mesh.yaml
    env_of --mesh mesh.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"mesh.yaml:1:"* ]]
    run bash -c '"$0" env 2>&1 >/dev/full' "$MESHNET"
    [ "$status" -eq 1 ]
    [[ "$output" == *"writing failed"* ]]
}

# lacking: a network plugin linked with a library, then that library under another name.
lacking()
{
    echo 'int needed(void) { return 0; }' | cc -x c -shared -fPIC -Wl,-soname,libneeded.so.7 -o libneeded.so -
    printf '%s\n' 'int needed(void);' \
        'struct { const char *name; int (*slots[40])(void); } ncclNetPlugin_v8 = {"lacking", {needed}};' |
        cc -x c -shared -fPIC -o libnccl-net-lacking.so - -x none ./libneeded.so
    mv libneeded.so elsewhere.so
}

@test "env: what the plugin is linked with and is not here is named, with the remedy" {
    lacking
    env_of --mesh mesh.yaml --plugin libnccl-net-lacking.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"/libnccl-net-lacking.so needs libneeded.so.7, which is not here"*"ci/bundle"* ]]
    # This process has it, and no other would.
    local loader
    loader=$(readelf -lW "$MESHNET" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
    run --separate-stderr "$loader" --preload "$PWD/elsewhere.so" "$MESHNET" env --mesh mesh.yaml \
        --plugin libnccl-net-lacking.so
    echo "$stderr"
    [ "$status" -eq 0 ]
    [[ "$output" == *"NCCL_NET_PLUGIN=$PWD/libnccl-net-lacking.so"* ]]
    [[ "$stderr" == *"/libnccl-net-lacking.so needs libneeded.so.7, which is not here"*"ci/bundle"* ]]
    # Where it is found, nothing is said.
    mv elsewhere.so libneeded.so.7
    LD_LIBRARY_PATH=$PWD env_of --mesh mesh.yaml --plugin libnccl-net-lacking.so
    [ "$status" -eq 0 ]
    [[ "$stderr" != *"is not here"* ]]
}

@test "env: an older version of a library than the plugin is linked with is named" {
    for version in 2 1; do
        echo 'int f(void) { return 0; }' >f.c
        echo "OURS_2.$version { f; };" >f.map
        cc -shared -fPIC -Wl,--version-script=f.map -Wl,-soname,libf.so.1 -o libf.so.1 f.c
        [ $version = 1 ] || echo 'int f(void); int g(void) { return f(); }' |
            cc -x c -shared -fPIC -o libnccl-net-newer.so - -x none ./libf.so.1
    done
    LD_LIBRARY_PATH=$PWD env_of --mesh mesh.yaml --plugin libnccl-net-newer.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"/libnccl-net-newer.so needs OURS_2.2, which is not here"* ]]
}

@test "env: a named pipe as mesh file is refused at once, an open one is read" {
    cd "$BATS_TEST_TMPDIR"
    mkfifo pipe.yaml
    run --separate-stderr timeout 20 "$MESHNET" env --mesh pipe.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"pipe.yaml is a named pipe"* ]]
    run --separate-stderr timeout 20 "$MESHNET" discover --check <(echo 'nodes: 7')
    [ "$status" -eq 2 ]
    [[ "$stderr" == *":1:1: "* ]]
    run --separate-stderr bash -c 'echo "nodes: 7" | timeout 20 "$1" discover --check /dev/stdin' - "$MESHNET"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"/dev/stdin:1:1: "* ]]
    run --separate-stderr timeout 20 "$MESHNET" trace stats pipe.yaml
    [ "$status" -eq 2 ]
}

@test "env: the order of hosts beside the cables, and what a bad one costs" {
    load meshes
    mesh_of ring.yaml 4 0-2 2-1 1-3 3-0
    export MESHNET_NODE=n0
    # Nobody has told one.
    env_of --mesh ring.yaml
    [[ "$stderr" == *"in this order of nodes"*": n0,n2,n1,n3 (the mesh file's order has 2 without: TCP through nodes in between, and a large all-reduce takes 2.0 times as long"* ]]
    # The user has.
    env_of --mesh ring.yaml --hosts n1,n0,n2,host3
    [[ "$stderr" == *"--hosts: the ring of 4 goes over 2 pairs without a cable: n1-n0, n2-n3: TCP through nodes in between, at what their processors pass on; use n1,n2,n0,n3"* ]]
    [[ "$stderr" != *"in this order of nodes"* ]]
    env_of --mesh ring.yaml --hosts n2,n1,n3,n0
    [[ "$stderr" != *"the ring of"* && "$stderr" != *"order of nodes"* ]]
    # A scheduler has.
    SLURM_JOB_NODELIST='host[0-3]' env_of --mesh ring.yaml
    [[ "$stderr" == *"SLURM_JOB_NODELIST: the ring of 4 goes over 2 pairs"*"meshnet topo ranks --format slurm"* ]]
    env_of --mesh ring.yaml --hosts n0,n1,n2,n3 --json
    jq -e '.order | .from == "--hosts" and .nodes == "n0,n1,n2,n3" and .steps_without_cable == 2 and
        .along_cables == "n0,n2,n1,n3" and .along_cables_without == 0 and .times_as_long == 2' <<<"$output"
    env_of --mesh ring.yaml --hosts n0,n0
    [ "$status" -eq 2 ]
    # Where no order has a cable for each step that is said, and nothing else.
    mesh_of line.yaml 4 0-1 1-2 2-3
    env_of --mesh line.yaml --hosts n0,n1,n2,n3
    [[ "$stderr" == *"the ring of 4 goes over 1 pair without a cable: n3-n0; no order has fewer"* ]]
    # Two nodes are a ring anyway.
    env_of --mesh line.yaml --hosts n0,n3
    [[ "$stderr" != *"the ring of"* ]]
}

@test "env: pairs without a cable, their way, its speed, and what would be faster" {
    load meshes
    mesh_of ring.yaml 4 0-1 1-2 2-3 3-0
    MESHNET_NODE=n0 env_of --mesh ring.yaml
    [[ "$stderr" == *"n0 and n2 have no cable, and NCCL connects trees between any nodes when a job starts: TCP over n"[13]", at most 9.41 Gb/s;"*"a cable between the two is faster; 1 more pair: meshnet topo routes --far"* ]]
    printf 'transport: {reach: direct}\n' >>ring.yaml
    MESHNET_NODE=n0 env_of --mesh ring.yaml
    [[ "$stderr" == *"n0 and n2 have no cable"*"no way: jobs in which they talk to each other fail"*"reach: auto"* ]]
}
