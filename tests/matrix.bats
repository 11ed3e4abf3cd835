#!/usr/bin/env bats
# bench --links and --pairs: a ring of four nodes in namespaces, two of them joined twice, with a
# management network beside it, and what is wrong with a cable said in words.

load helper
load namespaces
load valid

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnm$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_RANK MESHNET_WORLD "${!NCCL_@}"
    export NO_COLOR=1 MESHNET_TOKEN=00112233445566778899aabbccddeeff
    cd "$BATS_TEST_TMPDIR"
    managed 10.9.0 a b c d
    cable a ab 10.1.1.1/30 b ba 10.1.1.2/30
    cable a ab2 10.1.2.1/30 b ba2 10.1.2.2/30
    cable b bc 10.1.3.1/30 c cb 10.1.3.2/30
    cable c cd 10.1.4.1/30 d dc 10.1.4.2/30
    cable d da 10.1.5.1/30 a ax 10.1.5.2/30
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: ab, addresses: [10.1.1.1/30]}
	      - {netdev: ab2, addresses: [10.1.2.1/30]}
	      - {netdev: ax, addresses: [10.1.5.2/30], speed: 100}
	  - name: b
	    nics:
	      - {netdev: ba, addresses: [10.1.1.2/30]}
	      - {netdev: ba2, addresses: [10.1.2.2/30]}
	      - {netdev: bc, addresses: [10.1.3.1/30]}
	  - name: c
	    nics:
	      - {netdev: cb, addresses: [10.1.3.2/30], speed: 1000000}
	      - {netdev: cd, addresses: [10.1.4.1/30]}
	  - name: d
	    nics:
	      - {netdev: dc, addresses: [10.1.4.2/30]}
	      - {netdev: da, addresses: [10.1.5.1/30]}
	END
}

teardown()
{
    wait
    printf "netns del $NS-%s\n" a b c d m | ip -force -batch - 2>/dev/null || true
}

# rank NUMBER NODE COUNT OPTION…
rank()
{
    local number=$1 node=$2 count=$3
    shift 3
    on "$node" env MESHNET_NODE="$node" MESHNET_RANK="$number" MESHNET_WORLD="$count" \
        timeout -k 1 100 "$MESHNET" bench --coordinator 10.9.0.1 --mesh mesh.yaml \
        --duration 20ms --timeout 10s "$@"
}

# matrix NODES OPTION…: a rank on each node; the first one's output.
matrix()
{
    local nodes=$1 node i=0 count
    shift
    count=$(wc -w <<<"$nodes")
    for node in $nodes; do
        [ $i -eq 0 ] || rank $i "$node" "$count" "$@" >"$node.out" 2>&1 3>&- &
        i=$((i + 1))
    done
    run --separate-stderr rank 0 "${nodes%% *}" "$count" "$@"
    echo "$output"
    echo "$stderr"
    wait
}

# cell LINK FIELD: of the last report.
cell()
{
    jq -r --arg link "$1" ".cells[] | select(.link == \$link) | .$2" <<<"$output"
}

@test "bench --links: a cable without addresses is named, with what gives it some; the others are measured" {
    sed -i 's/{netdev: cd, addresses: \[10.1.4.1\/30\]}/{netdev: cd}/; s/{netdev: dc, addresses: \[10.1.4.2\/30\]}/{netdev: dc}/' mesh.yaml
    cat >>mesh.yaml <<-END
	links:
	  - {ends: [a/ab, b/ba]}
	  - {ends: [a/ab2, b/ba2]}
	  - {ends: [b/bc, c/cb]}
	  - {ends: [c/cd, d/dc]}
	  - {ends: [d/da, a/ax]}
	END
    on c ip addr del 10.1.4.1/30 dev cd
    on d ip addr del 10.1.4.2/30 dev dc
    local i=0 node
    for node in b c d; do
        i=$((i + 1))
        rank $i $node 4 --links >$node.out 2>&1 3>&- &
    done
    run --separate-stderr rank 0 a 4 --links --json
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 1 ]
    wait
    jq -e '[.cells[] | select(.link == "c-d")] | length == 1 and .[0].status == "dead" and
        (.[0].error | test("no addresses yet: see meshnet topo address"))' <<<"$output"
    jq -e '[.cells[] | select(.link != "c-d") | .status] == ["ok", "ok", "ok", "ok"]' <<<"$output"
}

@test "matrix: every cable and every pair of a ring is measured, right, and by its own NICs" {
    matrix 'a b c d' --links --pairs --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '"\(.schema) \(.kind) \(.complete)"' <<<"$output")" = 'meshnet-results matrix true' ]
    [ "$(jq -r '[.nodes[].name] | join(" ")' <<<"$output")" = 'a b c d' ]
    [ "$(jq -r '[.cells[] | select(.mode == "link") | "\(.from)\(.to) \(.netdev_from) \(.netdev_to) \(.status)"] | join("; ")' <<<"$output")" = \
        'ab ab ba ok; ab ab2 ba2 ok; ad ax da ok; bc bc cb ok; cd cd dc ok' ]
    [ "$(jq '[.cells[] | select(.status == "ok") | .out_gbps > 0 and .in_gbps > 0 and .both_gbps > 0 and .p50_us > 0 and .p99_us >= .p50_us] | all' <<<"$output")" = true ]
    # Without a cable the plugin is not asked to find a way.
    [ "$(jq -r '[.cells[] | select(.status == "not measured") | .from + .to] | join(" ")' <<<"$output")" = 'ac bd' ]
    [ "$(jq '[.carried[] | select(.link == "a-b" or .link == "a-b-2") | .share > 0.2] | all' <<<"$output")" = true ]
    [ "$(jq '[.carried[] | select(.from == "b" or .from == "c") | .share > 0.9] | all' <<<"$output")" = true ]
    [ "$(jq '.environment | length' <<<"$output")" -eq 4 ]
    echo "$output" >report.json
    ! python3 -c 'import jsonschema' 2>/dev/null || valid report.json
}

@test "matrix: a dead cable, a wrong MTU and a half dead pair are named in words, the rest is measured" {
    ip -n $NS-b link set dev bc mtu 1400
    ip -n $NS-a link set dev ab2 down
    matrix 'a b c d' --links --pairs
    [ "$status" -eq 1 ]
    [[ "$output" == *"bad: link a-b-2: dead: a/ab2 is switched off: ip link set dev ab2 up"* ]]
    [[ "$output" == *"bad: link a-b-2: dead: b/ba2 has no carrier"* ]]
    [[ "$output" == *"bad: link b-c: wrong MTU: b/bc has 1400, c/cb has 1500"* ]]
    [[ "$output" == *"bad: pair a, b: half idle: link a-b-2 (a/ab2) carried 0 % of the bytes, its part is 50"* ]]
    grep -E '^a +.*[0-9] \| dead +- +[0-9]' <<<"$output"
    grep -E '^link +b-c +b +c +bc +cb +ok +TCP' <<<"$output"
}

@test "matrix: a cable that loses one packet in twenty is told every time, a good one never" {
    lossy b ba2 5
    for round in 1 2 3; do
        matrix 'a b' --links --json
        [ "$status" -eq 0 ]
        [[ "$(jq -r '.findings[] | select(.severity == "bad") | .text' <<<"$output")" == *"link a-b-2: loses packets: "*" %, "*": cable, connector"* ]]
        [ "$(jq '[.findings[] | select(.text | test("loses packets"))] | length' <<<"$output")" -eq 1 ]
        jq -e '.cells[] | select(.link == "a-b-2") | .packets > 1000 and .lost_percent > 1 and .lost_percent < 15 and .lost_packets > 10 and .lost_packets < .packets' <<<"$output"
        jq -e '.cells[] | select(.link == "a-b") | .lost_percent < 1 and .packets > 1000' <<<"$output"
    done
}

@test "matrix: --min names what falls short, and what cannot be judged" {
    matrix 'a b c d' --links --min 0.5 --json
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"link b-c: "*" of "*" Gb/s (link speed 1000 Gb/s, MTU 1500), below the wanted 0.500"* ]]
    [[ "$stderr" == *"link c-d: its speed is not known"* ]]
    # On a full machine it may be found uneven, which is no matter of --min.
    if grep 'link a-d: .*below the wanted' <<<"$stderr"; then false; fi
    [ "$(cell a-d ratio | cut -d . -f 1)" -ge 1 ]
    [ "$(cell a-d expected_by)" = 'link speed 0.1 Gb/s, MTU 1500' ]
    [ "$(cell c-d ratio)" = null ]
}

@test "matrix: a node that takes no part leaves its cables unmeasured" {
    matrix 'a b c' --links --json --sizes 64K
    [ "$status" -eq 0 ]
    [ "$(cell c-d status)" = 'not measured' ]
    [ "$(cell c-d error)" = 'd takes no part' ]
    [ "$(cell b-c status)" = ok ]
    [ "$(cell b-c bytes)" -eq 65536 ]
}

# The second cable carries bytes: the first is done.
second_cable()
{
    local i
    for i in $(seq 600); do
        [ "$(sent a ab2)" -lt 1000000 ] || break
        nap 0.1
    done
}

@test "matrix: nodes of which no two have a cable measure nothing, which is a failure" {
    local kind
    for kind in links pairs; do
        run --separate-stderr on a env MESHNET_NODE=a timeout 100 "$MESHNET" bench --$kind --hosts a \
            --mesh mesh.yaml --json
        echo "$output"
        echo "$stderr"
        [ "$status" -eq 1 ]
        [[ "$stderr" == *"meshnet bench: nothing was measured: "*"--hosts"* ]]
        [ "$(jq -r '"\(.complete) \(.error)"' <<<"$output")" = "false ${stderr#meshnet bench: }" ]
    done
    matrix 'a c' --links
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"meshnet bench: nothing was measured: "* ]]
    [[ "$(cat c.out)" != *"nothing was measured"* ]]
}

@test "matrix: a node that dies is named, and what needs it not is measured" {
    rank 1 b 4 --links --pairs --duration 1s >b.out 2>&1 3>&- &
    rank 2 c 4 --links --pairs --duration 1s >c.out 2>&1 3>&- &
    rank 3 d 4 --links --pairs --duration 1s >d.out 2>&1 3>&- &
    (
        second_cable
        kill -KILL $(ip netns pids $NS-c)
    ) 3>&- &
    run --separate-stderr rank 0 a 4 --links --pairs --duration 1s --json
    wait
    echo "$output"
    echo "$stderr"
    cat b.out d.out
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"meshnet bench: c takes no part any more: rank 2 (c, pid "*") ended"* ]]
    [[ "$stderr" != *interrupted* ]]
    [ "$(jq .complete <<<"$output")" = false ]
    [[ "$(jq -r '.unreachable | map(.node + " " + .why) | join("; ")' <<<"$output")" == "c rank 2 (c, pid "*") ended" ]]
    [ "$(jq -r '[.cells[] | select(.link) | "\(.link) \(.status)"] | join("; ")' <<<"$output")" = \
        'a-b ok; a-b-2 ok; a-d ok; b-c not measured; c-d not measured' ]
    [[ "$(cell b-c error)" == "c takes no part any more: rank 2 (c, "* ]]
    [ "$(jq -r '[.cells[] | select(.link | not) | "\(.from)\(.to) \(.status)"] | join("; ")' <<<"$output")" = \
        'ab ok; ac not measured; ad ok; bc not measured; bd not measured; cd not measured' ]
    echo "$output" >report.json
    ! python3 -c 'import jsonschema' 2>/dev/null || valid report.json
}

@test "matrix: a node that dies while its own cable is measured is named too" {
    rank 1 b 3 --links --duration 2s >b.out 2>&1 3>&- &
    rank 2 c 3 --links --duration 200ms >c.out 2>&1 3>&- &
    (
        second_cable
        kill -KILL $(ip netns pids $NS-b)
    ) 3>&- &
    run --separate-stderr rank 0 a 3 --links --duration 2s --json
    wait
    echo "$output"
    echo "$stderr"
    cat c.out
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"meshnet bench: b takes no part any more: rank 1 (b, pid "*") ended"* ]]
    [ "$(cell a-b status)" = ok ]
    [ "$(cell a-b-2 status)" = 'not measured' ]
    [[ "$(cell b-c error)" == "b takes no part any more: rank 1 (b, "* ]]
    [ "$(cell a-d error)" = 'd takes no part' ]
}

@test "matrix: one that ends is left out of a run over ssh too" {
    [ -x /usr/sbin/sshd ] || skip "no OpenSSH server"
    ssh_to b 10.9.0.2 c 10.9.0.3 d 10.9.0.4
    for node in b c d; do
        sshd_at $node
    done
    (
        second_cable
        # Its rank, not the sshd above it.
        for pid in $(ip netns pids $NS-c); do
            [ ! /proc/$pid/exe -ef "$MESHNET" ] || kill -KILL $pid
        done
    ) 3>&- &
    run --separate-stderr on a env MESHNET_NODE=a timeout 100 "$MESHNET" bench --links \
        --mesh mesh.yaml --duration 1s --json
    wait $!
    echo "$output"
    echo "$stderr"
    for node in b c d; do
        kill "$(cat sshd.$node.pid)"
    done
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"meshnet bench: c takes no part any more: rank "*" (c, pid "*") ended"* ]]
    [ "$(jq -r '[.cells[] | "\(.link) \(.status)"] | join("; ")' <<<"$output")" = \
        'a-b ok; a-b-2 ok; a-d ok; b-c not measured; c-d not measured' ]
}

@test "matrix: the end of the first rank is the end of all" {
    rank 1 b 2 --links --duration 1s >b.out 2>&1 3>&- &
    (
        second_cable
        kill -KILL $(ip netns pids $NS-a)
    ) 3>&- &
    run rank 0 a 2 --links --duration 1s
    wait
    cat b.out
    grep -q "rank 0 (a, pid [0-9]*) ended" b.out
}

@test "matrix: one command on one node measures all others over ssh" {
    [ -x /usr/sbin/sshd ] || skip "no OpenSSH server"
    ssh_to b 10.9.0.2 c 10.9.0.3 d 10.9.0.4
    for node in b c d; do
        sshd_at $node
    done
    run --separate-stderr on a env MESHNET_NODE=a timeout 100 "$MESHNET" bench --links \
        --mesh mesh.yaml --duration 20ms --json
    echo "$output"
    echo "$stderr"
    for node in b c d; do
        kill "$(cat sshd.$node.pid)"
    done
    [ "$status" -eq 0 ]
    [ "$(jq '[.cells[].status == "ok"] | all' <<<"$output")" = true ]
    [ "$(jq '.cells | length' <<<"$output")" -eq 5 ]
}

# over_ssh OPTION…: --links from a, the others' ranks started over ssh.
over_ssh()
{
    run --separate-stderr on a env MESHNET_NODE=a timeout 100 "$MESHNET" bench --links \
        --mesh mesh.yaml --duration 20ms "$@"
    echo "$output"
    echo "$stderr"
}

@test "matrix: a host that cannot be reached is named, with why, and the rest is measured" {
    [ -x /usr/sbin/sshd ] || skip "no OpenSSH server"
    ssh_to b 10.9.0.2 c 10.9.0.3 d 10.9.0.4
    sshd_at b
    sshd_at d
    over_ssh --json
    report=$output said=$stderr reached=$status
    over_ssh
    kill "$(cat sshd.b.pid)" "$(cat sshd.d.pid)"
    [ $reached -eq 1 ]
    [ "$(jq -r '[.cells[] | "\(.link) \(.status)"] | join("; ")' <<<"$report")" = \
        'a-b ok; a-b-2 ok; a-d ok; b-c not measured; c-d not measured' ]
    [[ "$(jq -r '.cells[] | select(.link == "c-d") | .error' <<<"$report")" == "c takes no part: none of 3 ways to it works, the last: ssh: "* ]]
    [ "$(jq -r '[.findings[] | select(.link == "b-c") | .severity] | join(" ")' <<<"$report")" = bad ]
    [[ "$(jq -r '"\(.complete) \(.error)"' <<<"$report")" == "false c takes no part: none of 3 ways "* ]]
    [[ "$(jq -r '.unreachable | map(.node + " " + .why) | join("; ")' <<<"$report")" == "c none of 3 ways "* ]]
    [[ "$said" == *"[2 c] "*"Connection refused"* || "$said" == *"[3 c] "*"Connection refused"* ]]
    [[ "$said" == *"meshnet bench: c takes no part: none of 3 ways to it works"* ]]
    [[ "$said$report$output$stderr" != *interrupted* ]]
    [ "$status" -eq 1 ]
    [[ "$output" == *"bad: link b-c: not measured: c takes no part: none of 3 ways"* ]]
    echo "$report" >report.json
    ! python3 -c 'import jsonschema' 2>/dev/null || valid report.json
}

@test "matrix: where sshd forbids the way back, what to allow is said" {
    printf '#!/bin/sh\nprintf "Error: remote port forwarding failed for listen port 1\\r\\n" >&2\nexit 255\n' >ssh
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
    run on a env MESHNET_NODE=a timeout 100 "$MESHNET" bench --links --hosts a,b --mesh mesh.yaml
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"b takes no part: none of "*" listen port 1: AllowTcpForwarding in its sshd_config, or --agents"* ]]
    # It was allowed, and leads nowhere.
    echo "$MESHNET_TOKEN" >token
    run on b env MESHNET_NODE=b MESHNET_RANK=1 MESHNET_WORLD=2 timeout 100 "$MESHNET" bench --collective all-reduce \
        --coordinator 127.0.0.1 --port 18999 --timeout 1s --token-file /proc/self/fd/0 <token
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"rank 0 cannot be reached: the way back through ssh (-R, port 18999) does not work: AllowTcpForwarding"* ]]
    [[ "$output" != *"meshnet serve"* ]]
}

@test "matrix: a MESHNET_CONFIG of this folder is told to other hosts with its whole path" {
    printf '#!/bin/sh\necho "$*" >>asked\nexit 255\n' >ssh
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
    run on a env MESHNET_NODE=a MESHNET_CONFIG=mesh.yaml timeout 100 "$MESHNET" bench --links --hosts a,b
    echo "$output"
    [ "$status" -eq 1 ]
    cat asked
    grep -q " 'MESHNET_CONFIG=$PWD/mesh.yaml' " asked
}

@test "matrix: a host whose name leads nowhere is reached by an address of the mesh file" {
    [ -x /usr/sbin/sshd ] || skip "no OpenSSH server"
    ssh_to b 10.9.0.2 c 10.9.0.3 d 10.9.0.4
    for node in b c d; do
        sshd_at $node
    done
    ip netns exec $NS-d nft add table inet wall
    ip netns exec $NS-d nft 'add chain inet wall in { type filter hook input priority 0; }'
    ip netns exec $NS-d nft add rule inet wall in ip daddr 10.9.0.4 tcp dport 2222 reject with tcp reset
    over_ssh --json
    for node in b c d; do
        kill "$(cat sshd.$node.pid)"
    done
    [ "$status" -eq 0 ]
    [[ "$stderr" == *" d] meshnet bench: d: trying its address 10.1.5.1"* ]]
    [[ "$stderr" != *"trying its address 10.1.4.2"* ]]
    [ "$(jq '[.cells[].status == "ok"] | all' <<<"$output")" = true ]
    [ "$(jq -c .unreachable <<<"$output")" = '[]' ]
}

@test "matrix: agents that do not answer are left out and named" {
    start_server serve.out serve.err on b env MESHNET_NODE=b \
        MESHNET_CONFIG="$PWD/mesh.yaml" timeout -k 1 100 "$MESHNET" serve --listen 10.1.1.2
    run --separate-stderr on a env MESHNET_NODE=a timeout 100 "$MESHNET" bench --links --agents \
        --hosts a,b,c --mesh mesh.yaml --duration 20ms --json
    echo "$output"
    echo "$stderr"
    kill "$SERVER"
    [ "$status" -eq 1 ]
    [ "$(cell a-b status)" = ok ]
    [[ "$(jq -r .error <<<"$output")" == "c takes no part: none of 3 ways to it works, "*"port 18515"* ]]
    [[ "$stderr$output" != *interrupted* ]]
}

@test "matrix: the order of ranks follows the cables" {
    run on b env MESHNET_NODE=b "$MESHNET" bench --print-order --mesh mesh.yaml
    [ "$output" = b,a,d,c ] || [ "$output" = b,c,d,a ]
    # Where d is missing every ring has one gap: the order stays.
    run on a env MESHNET_NODE=a "$MESHNET" bench --print-order --mesh mesh.yaml --hosts a,c,b
    [ "$output" = a,c,b ]
    run on a env MESHNET_NODE=a "$MESHNET" bench --print-order --mesh mesh.yaml --hosts a,a
    [ "$status" -eq 2 ]
    [[ "$output" == *"a node is there twice"* ]]
}

@test "matrix: wrong usage is said first" {
    cd "$BATS_TEST_TMPDIR"
    run "$MESHNET" bench --links --peer 10.0.0.1
    [ "$status" -eq 2 ]
    run "$MESHNET" bench --min 0.9 --peer 10.0.0.1
    [ "$status" -eq 2 ]
    [[ "$output" == *"--min goes with --links or --pairs"* ]]
    run on a "$MESHNET" bench --links --mesh none.yaml
    [ "$status" -eq 2 ]
    [[ "$output" == *"none.yaml"* ]]
    XDG_CONFIG_HOME=$PWD run on a "$MESHNET" bench --pairs
    [ "$status" -eq 2 ]
    [[ "$output" == *"--mesh FILE"* ]]
}

# sent NODE NIC: bytes, as its namespace counts them.
sent()
{
    on "$1" awk -v nic="$2:" '$1 == nic { print $10 }' /proc/net/dev
}

@test "matrix: a network for management has no cell and carries no data" {
    local before after
    sed -i -e 's/.*netdev: ab,.*/      - {netdev: mgmt, role: management, addresses: [10.9.0.1\/24]}\n&/' \
        -e 's/.*netdev: ba,.*/      - {netdev: mgmt, role: management, addresses: [10.9.0.2\/24]}\n&/' mesh.yaml
    before=$(sent a mgmt)
    matrix 'a b' --links --pairs --json
    [ "$status" -eq 0 ]
    after=$(sent a mgmt)
    [ "$(jq -r '[.cells[] | select(.status == "ok") | .link // .mode] | join(" ")' <<<"$output")" = 'a-b a-b-2 pair' ]
    [ "$(jq '[.carried[].link] | index("mgmt")' <<<"$output")" = null ]
    echo "management: $((after - before)) of $(sent a ab)"
    [ $(((after - before) * 4)) -lt "$(sent a ab)" ]
}

@test "matrix: a node without a cable to this one is reached over the network for management" {
    sed -i -e 's/.*netdev: ab,.*/      - {netdev: mgmt, role: management, addresses: [10.9.0.1\/24]}\n&/' \
        -e 's/.*netdev: cb,.*/      - {netdev: mgmt, role: management, addresses: [10.9.0.3\/24]}\n&/' mesh.yaml
    export MESHNET_CONFIG=$PWD/mesh.yaml
    run on a env MESHNET_NODE=a timeout -k 1 60 "$MESHNET" bench --peer c --port "$(free_port)" --duration 20ms
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *10.9.0.3* ]]
}
