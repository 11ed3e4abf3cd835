#!/usr/bin/env bats
# ci/gpu-check's cases in namespaces without a GPU: the namespaces, cables, variables, time limits and verdicts
# are its own; in NCCL's place a rank moves the bytes by meshnet bench, or without the plugin meets the
# others at its first NIC's address, as NCCL's bootstrap does.

load helper

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    command -v python3 >/dev/null || skip "no python3"
    unset "${!NCCL_@}" MESHNET_CONFIG MESHNET_NODE
    cd "$BATS_TEST_TMPDIR"
    export NO_COLOR=1 SEEN=$PWD/seen BENCH=$MESHNET FAKE=
    mkdir seen
    cat >ranks.py <<-'END'
	import json, os, socket, subprocess, sys, time

	def first_address():
	    nics = json.loads(subprocess.check_output(["ip", "-j", "-4", "addr", "show"]))
	    return next(a["local"] for n in nics if n["ifname"] != "lo" for a in n["addr_info"])

	def without(rank, path):
	    print("NCCL begins", flush=True)
	    if rank == 0:
	        server = socket.create_server((first_address(), 29600))
	        with open(path + ".tmp", "w") as file:
	            file.write(first_address())
	        os.rename(path + ".tmp", path + ".at")
	        kept = [server.accept() for _ in range(3)]
	        return 0
	    while not os.path.exists(path + ".at"):
	        time.sleep(0.05)
	    try:
	        socket.create_connection((open(path + ".at").read(), 29600), 60)
	    except OSError as error:
	        print("WARN socket error:", error)
	        return 1
	    return 0

	def with_plugin(rank, path):
	    print("NCCL INFO Using network meshnet", flush=True)
	    out = subprocess.run([os.environ["BENCH"], "bench", "--collective", "all-reduce,all-to-all",
	                          "--algorithm", "direct", "--sizes", "8,64K", "--duration", "20ms",
	                          "--timeout", "30s", "--json", "--plugin", os.environ["NCCL_NET_PLUGIN"]],
	                         env=dict(os.environ, MESHNET_LOG="info", MESHNET_TOKEN="00112233445566778899aabbccddeeff"),
	                         stdout=subprocess.PIPE, text=True)
	    if out.returncode:
	        return out.returncode
	    if rank == 0:
	        rows = [{"op": row["collective"], "wrong": row["wrong"]}
	                for row in json.loads(out.stdout)["collectives"]]
	        with open(path, "w") as file:
	            json.dump({"rows": rows}, file)
	        return 1 if sum(row["wrong"] for row in rows) else 0
	    return 0

	# What ranks.py would have written.
	def cable(rank, seconds, path):
	    print("NCCL INFO Using network", "meshnet" if plugin else "Socket", flush=True)
	    print("peer b, link x0 (1 to 2): out: its carrier is lost")
	    if fake == ("wrong" if plugin else "dies"):
	        return 1
	    if rank == 0:
	        open(path + ".begun", "w").close()
	    # Until all was pulled and put back: four cables' ends were brought up before.
	    for _ in range(600):
	        if len(open(os.environ["LINKS"]).readlines()) >= 8:
	            break
	        time.sleep(0.1)
	    if rank == 0:
	        with open(path, "w") as file:
	            json.dump({"seconds": seconds, "wrong": 0,
	                       "fifths": [{"rounds": 10 * seconds, "longest_ms": 7}] * 5}, file)
	    return 0

	if sys.argv[1] == "probe":
	    sys.exit(os.environ["FAKE"] == "no gpu")
	if sys.argv[1] == "pulled":
	    os.execvp("python3", ["python3", os.environ["TABLE"], *sys.argv[1:]])
	rank, path, fake = int(os.environ["RANK"]), sys.argv[3], os.environ["FAKE"]
	plugin = os.environ.get("NCCL_NET_PLUGIN", "none") != "none"
	with open(f"{os.environ['SEEN']}/{'with' if plugin else 'without'}.{rank}", "w") as file:
	    for name in sorted(os.environ):
	        if name.startswith(("NCCL_", "MESHNET_")):
	            print(f"{name}={os.environ[name]}", file=file)
	if sys.argv[1] == "cable":
	    sys.exit(cable(rank, int(sys.argv[2]), path))
	if plugin and fake == "hangs" and rank == 2:
	    time.sleep(1000)
	if plugin and fake == "wrong":
	    sys.exit(1)
	if not plugin and fake == "dies":
	    sys.exit("ModuleNotFoundError")
	if not plugin and fake == "works":
	    sys.exit(0)
	sys.exit(with_plugin(rank, path) if plugin else without(rank, path))
	END
}

# check OPTION…: the ring or $CASES, with these ranks; nothing of it stays.
check()
{
    # Its namespaces have its number in their names.
    run --separate-stderr timeout -k 1 120 bash -c 'echo $$ >number; exec "$@"' - "$TOP/ci/gpu-check" --build "$BUILD" --cases "${CASES-ring}" --program "$PWD/ranks.py" "$@"
    echo "$output"
    echo "$stderr"
    ! ip netns list | grep "^mngpu$(cat number)-"
}

# ip_where PATTERN COMMANDS: an ip that does so first when its words are such.
ip_where()
{
    mkdir path
    printf '#!/bin/sh\ncase "$*" in\n%s) %s ;;\nesac\nexec %s "$@"\n' "$1" "$2" "$(command -v ip)" >path/ip
    chmod +x path/ip
    export PATH=$PWD/path:$PATH
}

@test "gpu-check: the ring starts with what meshnet env says and with nothing else, and not without" {
    TOP=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    check --limit 60
    [ "$status" -eq 0 ]
    [[ "$output" == *"with the plugin: it starts, and all results of all_reduce, alltoall are right"* ]]
    [[ "$output" == *"peer c has no cable to this node: TCP reaches it over the management network (10.217.9.1 to 10.217.9.3)"* ]]
    # Rank 2 has no way to the first cable of rank 0, which waits for it.
    [[ "$output" == *"without the plugin: hangs: not done within 12 s"*"Network is unreachable"* ]]
    [ ! -s seen/without.0 ]
    [ ! -s seen/without.3 ]
    [ "$(cut -d = -f 1 seen/with.2 | paste -sd ' ')" = 'MESHNET_CONFIG NCCL_DEBUG NCCL_NET NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME NCCL_TUNER_PLUGIN' ]
    grep -q '^NCCL_SOCKET_IFNAME==mgmt$' seen/with.2
}

@test "gpu-check: a ring that hangs, is wrong, or works without the plugin is a failure that is said" {
    TOP=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    FAKE=hangs check --limit 5
    [ "$status" -eq 1 ]
    [[ "$output" == *"with the plugin: hangs: not done within 5 s"*"without the plugin: "* ]]
    FAKE=wrong check --limit 15
    [ "$status" -eq 1 ]
    [[ "$output" == *"with the plugin: fails with 1"*"not every rank used meshnet"* ]]
    FAKE=works check --limit 60 # it ends by itself
    [ "$status" -eq 1 ]
    [[ "$output" == *"with the plugin: it starts"*"without the plugin: it works, so that this ring shows nothing"* ]]
    FAKE=dies check --limit 60
    [ "$status" -eq 1 ]
    [[ "$output" == *"with the plugin: it starts"*"without the plugin: fails with 1"*"no rank's NCCL is the cause, so that this ring shows nothing"* ]]
    FAKE='no gpu' check
    [ "$status" -eq 77 ]
    check --limit 0
    [ "$status" -eq 2 ]
    check --cases "ring triangle"
    [ "$status" -eq 2 ]
}

@test "gpu-check: with relayd on each node it says what they carried; nothing carried, or none, is a failure" {
    TOP=$(cd "$BATS_TEST_DIRNAME/.." && pwd) CASES=relay
    check --limit 60
    [ "$status" -eq 0 ]
    [[ "$output" == *"with the plugin: it starts"*"relayd on a has passed on "*"relayd on d has passed on "* ]]
    FAKE=wrong check --limit 15
    [ "$status" -eq 1 ]
    [[ "$output" == *"with the plugin: fails with 1"*"nothing went over a relay"* ]]
    mkdir -p broken/bin
    ln -s "$BUILD/lib" broken/lib
    printf '#!/bin/sh\necho "no relay here"\nexit 1\n' >broken/bin/meshnet
    chmod +x broken/bin/meshnet
    check --build "$PWD/broken"
    [ "$status" -eq 1 ]
    [[ "$output" == *"relayd on a does not answer:"*"no relay here"* ]]
}

@test "gpu-check: cables are pulled one after the other, and what NCCL's sockets make of it is no verdict" {
    TOP=$(cd "$BATS_TEST_DIRNAME/.." && pwd) CASES=cable
    export TABLE=$TOP/ci/gpu-check.d/ranks.py LINKS=$PWD/links
    ip_where "*'link set x'*" 'echo "${*#*link set }" >>$LINKS'
    FAKE=dies check --out 1
    [ "$status" -eq 0 ]
    [[ "$output" == *"the second alone "*" 50.0 "*" - "*"plugin: 250 all-reduces of 16 MiB, 0 elements wrong"*"sockets: came to no end"*"peer b, link x0 (1 to 2): out: "* ]]
    # The cables are made; then those of the plugin's run; after each run both are put back.
    [ "$(paste -sd ' ' links)" = "x0 up x0 up x1 up x1 up x0 down x0 up x1 down x1 up x0 up x1 up x0 up x1 up" ]
    FAKE=wrong check --out 1
    [ "$status" -eq 1 ]
    [[ "$output" == *"plugin: came to no end"*"sockets: 250 all-reduces"* ]]
    check --out 100
    [ "$status" -eq 2 ]
}

@test "gpu-check: NVIDIA's MPS is its own while it runs, and is ended; without it, or told not to, it goes on" {
    TOP=$(cd "$BATS_TEST_DIRNAME/.." && pwd) CASES=loopback
    mkdir path
    cat >path/nvidia-cuda-mps-control <<-END
	#!/bin/sh
	echo "\$* \$(cat </dev/stdin) \$CUDA_MPS_PIPE_DIRECTORY" >>$PWD/mps
	[ ! -e $PWD/refuse ]
	END
    chmod +x path/nvidia-cuda-mps-control
    export PATH=$PWD/path:$PATH
    unset CUDA_MPS_PIPE_DIRECTORY
    check --ranks 2 </dev/null
    [ "$(sed 's, /.*,,' mps)" = $'-d \n quit' ]
    [ ! -e "$(awk '{print $NF}' mps | tail -n 1)" ]
    rm mps
    check --ranks 2 --no-mps </dev/null
    [ ! -e mps ]
    CASES=relay FAKE=wrong check --limit 15 </dev/null
    [ ! -e mps ]
    touch refuse
    check --ranks 2 </dev/null
    [[ "$output" == *"does not start: the ranks share the GPU in turns"* ]]
    [ "$(wc -l <mps)" -eq 1 ]
}

@test "gpu-check: no rank of a ring is started when meshnet env fails on a later node" {
    TOP=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    mkdir -p broken/bin
    ln -s "$BUILD/lib" broken/lib
    cat >broken/bin/meshnet <<-END
	#!/bin/sh
	echo env >>$PWD/calls
	[ "\$(wc -l <$PWD/calls)" -lt 4 ] || { echo "no mesh file here" >&2; exit 1; }
	exec $MESHNET "\$@"
	END
    chmod +x broken/bin/meshnet
    check --limit 5 --build "$PWD/broken"
    [ "$status" -eq 1 ]
    [[ "$output" == *"meshnet env fails on node d:"*"no mesh file here"*"with the plugin: fails with 2"* ]]
    [ ! -e seen/with.0 ]
}

@test "gpu-check: a ring that cannot be made is a failure, and left out only where no namespaces may be" {
    TOP=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    ip_where '*"$REFUSE"*' 'echo "refused" >&2; exit 1'
    REFUSE='netns add' check
    [ "$status" -eq 77 ]
    [[ "$output" == *"may make no network namespaces here: refused"* ]]
    REFUSE='type bridge' check
    [ "$status" -eq 1 ]
    [[ "$output" == *"it cannot be made: refused"* ]]
}
