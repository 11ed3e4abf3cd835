#!/usr/bin/env bats
# Ranks at four nodes in namespaces, each cabled to each, nothing else: started by the meshnet serve
# that runs there, or by ssh.

load helper
load namespaces

setup()
{
    local pair i=0
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mna$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN MESHNET_RANK MESHNET_WORLD "${!NCCL_@}"
    export NO_COLOR=1
    cd "$BATS_TEST_TMPDIR"
    echo 00112233445566778899aabbccddeeff >token
    for node in a b c d; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    for pair in ab ac ad bc bd cd; do
        i=$((i + 1))
        cable "${pair:0:1}" n$pair 10.1.$i.1/30 "${pair:1}" m$pair 10.1.$i.2/30
    done
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: nab, addresses: [10.1.1.1/30]}
	      - {netdev: nac, addresses: [10.1.2.1/30]}
	      - {netdev: nad, addresses: [10.1.3.1/30]}
	  - name: b
	    nics:
	      - {netdev: mab, addresses: [10.1.1.2/30]}
	      - {netdev: nbc, addresses: [10.1.4.1/30]}
	      - {netdev: nbd, addresses: [10.1.5.1/30]}
	  - name: c
	    nics:
	      - {netdev: mac, addresses: [10.1.2.2/30]}
	      - {netdev: mbc, addresses: [10.1.4.2/30]}
	      - {netdev: ncd, addresses: [10.1.6.1/30]}
	  - name: d
	    nics:
	      - {netdev: mad, addresses: [10.1.3.2/30]}
	      - {netdev: mbd, addresses: [10.1.5.2/30]}
	      - {netdev: mcd, addresses: [10.1.6.2/30]}
	END
    export MESHNET_CONFIG=$PWD/mesh.yaml
}

teardown()
{
    local node
    for node in b c d; do
        [ ! -s serve.$node.pid ] || kill "$(cat serve.$node.pid)" 2>/dev/null || true
        [ ! -s sshd.$node.pid ] || kill "$(cat sshd.$node.pid)" 2>/dev/null || true
    done
    wait
    printf "netns del $NS-%s\n" a b c d | ip -force -batch - 2>/dev/null || true
}

# serve_at NODE…: in the background, listening.
serve_at()
{
    local node
    for node; do
        # No function: $! is to be serve itself.
        nsenter --net=/run/netns/$NS-$node env MESHNET_NODE="$node" "$MESHNET" serve \
            --token-file token >serve.$node 2>&1 3>&- &
        echo $! >serve.$node.pid
    done
    for node; do
        for _ in $(seq 300); do
            [ "$(grep -c listening serve.$node)" -lt 3 ] || break
            sleep 0.1
        done
    done
}

# bench OPTION…: from a.
bench()
{
    run --separate-stderr on a env MESHNET_NODE=a timeout -k 1 100 "$MESHNET" bench "$@"
    echo "$output"
    echo "$stderr"
}

# by_agents OPTION…
by_agents()
{
    bench --agents --token-file token "$@"
}

# ranks NODE: how many run there.
ranks()
{
    { ip netns pids $NS-"$1" | xargs -r ps -o args= -p | grep -c -- --coordinator; } || true
}

# none_left: no rank does within 10 s.
none_left()
{
    for _ in $(seq 300); do
        [ $(($(ranks b) + $(ranks c) + $(ranks d))) -gt 0 ] || return 0
        sleep 0.1
    done
    return 1
}

@test "launchers: by serve, one command measures every cable of four nodes" {
    serve_at b c d
    by_agents --links --duration 20ms --json
    [ "$status" -eq 0 ]
    [ "$(jq '.cells | length' <<<"$output")" -eq 6 ]
    [ "$(jq '[.cells[].status == "ok"] | all' <<<"$output")" = true ]
    [ "$(ranks b)" -eq 0 ]
}

@test "launchers: by serve, one command measures every collective by every algorithm on four nodes" {
    serve_at b c d
    by_agents --hosts a,b,c,d --collective all --algorithm all --sizes 0,1000,100K --iters 3 --json
    [ "$status" -eq 0 ]
    [ "$(jq '.ranks | length' <<<"$output")" -eq 4 ]
    [ "$(jq '[.collectives[].collective] | unique | length' <<<"$output")" -eq 11 ]
    [ "$(jq '[.collectives[] | .wrong + .in_place_wrong] | add' <<<"$output")" -eq 0 ]
    # A second run finds them ready.
    by_agents --hosts a,b,c,d --collective all-reduce --sizes 8 --iters 3
    [ "$status" -eq 0 ]
}

@test "launchers: by serve, Ctrl-C and the end of the launcher leave no rank" {
    serve_at b c d
    for signal in INT KILL; do
        (
            for _ in $(seq 300); do
                [ "$(ranks d)" -ne 1 ] || break
                sleep 0.1
            done
            sleep 2
            kill -$signal "$(pgrep -of "^$MESHNET bench .*--duration 62s")"
        ) 3>&- &
        by_agents --hosts a,b,c,d --collective all-reduce --sizes 64K --duration 62s
        [ $signal = KILL ] || [ "$status" -eq 1 ]
        [ $signal = KILL ] || [[ "$stderr" == *interrupted* ]]
        none_left
    done
}

@test "launchers: a four-rank all-reduce over ssh, a server in each namespace" {
    [ -x /usr/sbin/sshd ] || skip "no OpenSSH server"
    ssh_to b 10.1.1.2 c 10.1.2.2 d 10.1.3.2
    for node in b c d; do
        sshd_at $node
    done
    bench --hosts a,b,c,d --collective all-reduce --algorithm all --sizes 0,8,100K --iters 5 --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '[.ranks[].name | split(", ")[0]] | join(" ")' <<<"$output")" = \
        "rank 0 (a rank 1 (b rank 2 (c rank 3 (d" ]
    [ "$(jq '[.collectives[] | .wrong + .in_place_wrong] | add' <<<"$output")" -eq 0 ]
}

@test "launchers: a matrix that is interrupted says what was measured so far" {
    serve_at b c d
    (
        for _ in $(seq 300); do
            # The second cable carries bytes: the first is done.
            [ "$(ip -n $NS-a -j -s link show nac | jq '.[0].stats64.tx.bytes')" -lt 3000000 ] || break
            sleep 0.1
        done
        kill -INT "$(pgrep -of "^$MESHNET bench .*--duration 2s")"
    ) 3>&- &
    by_agents --links --duration 2s --json
    [ "$status" -eq 1 ]
    [[ "$stderr" == *interrupted* ]]
    [ "$(jq .complete <<<"$output")" = false ]
    [ "$(jq '.cells | length' <<<"$output")" -ge 1 ]
    none_left
}

@test "launchers: results that cannot be written are an error, and no rank stays" {
    serve_at b
    run on a env MESHNET_NODE=a sh -c "'$MESHNET' bench --agents --token-file token --hosts a,b \
        --collective all-reduce --sizes 8 --iters 5 --json >/dev/full"
    [ "$status" -eq 1 ]
    [[ "$output" == *"writing the results failed"* ]]
    none_left
}

@test "launchers: by serve, a serve that is killed ends the run everywhere, its rank named" {
    serve_at b c d
    (
        for _ in $(seq 300); do
            [ "$(ranks c)" -ne 1 ] || break
            sleep 0.1
        done
        joined $(ip netns pids $NS-c | xargs -r ps -o pid=,args= -p | awk '/--coordinator/ { print $1 }')
        kill "$(cat serve.c.pid)"
    ) 3>&- &
    by_agents --hosts a,b,c,d --collective all-reduce --sizes 64K --duration 62s
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"rank 2 (c, pid "* ]]
    none_left
}

@test "launchers: by serve, another token, no serve, a plugin of the client and options of its own are refused" {
    serve_at b
    echo ffeeddccbbaa99887766554433221100 >other
    by_agents --hosts a,b --collective all-reduce --sizes 8 --timeout 5s --token-file other
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"refused this token"* ]]
    by_agents --hosts a,c --collective all-reduce --sizes 8 --timeout 5s
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 10.1.2.2 port 18515"*"is meshnet serve running there?"* ]]
    by_agents --hosts a,b --collective all-reduce --plugin ./libother.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"each meshnet serve has its own"* ]]
    by_agents --local 2 --collective all-reduce
    [ "$status" -eq 2 ]
    by_agents --hosts a,b,b --collective all-reduce --sizes 8 --timeout 5s
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"--clients 2"* ]]
    none_left
}

@test "launchers: without PMIx at build time, that is said, and what to give instead" {
    run --separate-stderr env PMIX_NAMESPACE=job PMIX_RANK=0 "$BUILD/tests/meshnet-no-pmix" bench \
        --collective all-reduce
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"the launcher speaks PMIx, this meshnet was built without its headers (libpmix-dev). Without it all ranks need --coordinator HOST"*"a token, by --token-file FILE or MESHNET_TOKEN"*"RANK and WORLD_SIZE"* ]]
}
