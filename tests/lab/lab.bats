#!/usr/bin/env bats
# ci/lab itself: machines, wiring, faults, and that nothing is left behind.

load helper

setup_file()
{
    lab_up "$BATS_TEST_DIRNAME/mesh.yaml"
}

teardown_file()
{
    lab_down
}

# soon COMMAND…: true within half a minute: the machine may be busy.
soon()
{
    local end=$((SECONDS + 30))
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "not so within 30 s: $*" && return 1; }
        sleep 0.2
    done
}

# port_is NODE DEVICE STATE
port_is()
{
    [[ "$(on "$1" rdma link show "$2/1")" == *" state $3 "* ]]
}

# cable LINK: what status says of it.
cable()
{
    lab status --json | jq -r --arg link "$1" \
        '.links[] | select(.link == $link) |
            [.cable, .loss, .delay, .rate] | map(. // "-") | join(" ")'
}

state()
{
    lab status --json | jq -r --arg node "$1" '.nodes[] | select(.node == $node).state'
}

# processes_of FOLDER: how many there are.
processes_of()
{
    grep -lsF -- "-pidfile" /proc/[0-9]*/cmdline | xargs -r grep -lsF -- "$1/" | wc -l
}

@test "exec: output, errors and exit code come apart" {
    run --separate-stderr on left 'echo out; echo err >&2; exit 7'
    [ "$status" -eq 7 ]
    [ "$output" = out ]
    [ "$stderr" = err ]
    run on right true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "exec: a shell line in this directory, without this environment, many at once" {
    cd "$BATS_TEST_TMPDIR"
    export MESHNET_SECRET=1
    [ "$(on left 'pwd; echo "${MESHNET_SECRET-none}"; X=5 env | grep ^X=')" = "$PWD
none
X=5" ]
    head -c 3000000 /dev/urandom >data
    on right cat data | cmp - data
    local i
    for i in 1 2 3 4 5 6; do
        on left "echo $i" >"out$i" 3>&- &
    done
    wait
    [ "$(cat out?)" = "$(seq 6)" ]
}

@test "exec: what a node writes stays in the node" {
    on left "echo here >'$BATS_TEST_TMPDIR/written' && cat '$BATS_TEST_TMPDIR/written'"
    [ ! -e "$BATS_TEST_TMPDIR/written" ]
    on left 'echo x >/tmp/x && rm /tmp/x'
    run on left 'echo 1 >/proc/self/oom_score_adj && ulimit -l && ulimit -c'
    [ "$output" = $'unlimited\n0' ]
}

@test "exec: output comes while the command runs, and a stopped exec stops it" {
    start_on left 'echo started; exec sleep 4321' >"$BATS_TEST_TMPDIR/out"
    soon grep -q started "$BATS_TEST_TMPDIR/out"
    on left pgrep -f "'^sleep 4321'"
    kill "$JOB"
    if wait "$JOB"; then
        return 1
    fi
    soon on left '! pgrep -f "^sleep 4321"'
}

@test "exec: 253 when it takes too long" {
    LAB_TIMEOUT=2 run on left 'echo before; sleep 60'
    [ "$status" -eq 253 ]
    [[ "$output" == *before*"left: not done within 2 s"* ]]
}

@test "wrong usage is explained, exit 2" {
    local args
    while read -r args; do
        # shellcheck disable=SC2086
        run --separate-stderr lab $args
        [ "$status" -eq 2 ] || { echo "$args: exit $status" && false; }
        [ -n "$stderr" ]
        [ -z "$output" ]
    done <<'ARGS'

boot
exec left
exec middle true
kill middle
link jumbo
link jumbo sideways
link jumbo down soon
link jumbo loss 101%
link jumbo loss much
link jumbo delay 5
link jumbo rate 10
link none down
status --yaml
--name a/b status
ARGS
    run lab link none down
    [[ "$output" == *'"none" is not in this lab'*jumbo* ]]
}

@test "exec: jobs leave no files behind" {
    none_left()
    {
        ! compgen -G "$LAB_DIR/n1/j*"
    }
    on left true
    soon none_left
}

@test "names, addresses, MTU, speed and devices are the mesh file's" {
    [ "$(on left hostname)" = left.example ]
    [ "$(on right hostname)" = right ]
    run on left 'ip -o addr show dev eth1; ip -o link show dev eth1; cat /sys/class/net/eth1/speed'
    [[ "$output" == *"10.44.0.0/31"* ]]
    [[ "$output" == *"fd00:44::1/64"* ]]
    [[ "$output" == *"mtu 9000"*"4c:bb:47:00:00:01"*$'\n'200000 ]]
    run on left 'ip -o addr show dev eth0; ip -o link show dev eth0'
    [[ "$output" == *"10.44.1.1/24"*"mtu 4200"* ]]
    port_is left mlx5_0 ACTIVE
    port_is left rxe_eth0 ACTIVE
    [[ "$(on left rdma link show)" == *"mlx5_0/1"*"netdev eth1"* ]]
    [[ "$(on right rdma link show)" == *"rxe_eth1/1"*"netdev eth1"* ]]
    on left "cmp /run/lab/mesh.yaml '$BATS_TEST_DIRNAME/mesh.yaml'"
}

@test "each cable carries its own subnets, jumbo frames where the file has them" {
    on left 'busybox ping -c 1 -W 5 -s 8900 10.44.0.1 && busybox ping -c 1 -W 5 fd00:44::2'
    on right 'busybox ping -c 1 -W 5 -s 4100 10.44.1.1'
    on left 'busybox ping -c 1 -W 5 right && busybox ping -c 1 -W 5 left.example'
}

@test "RDMA crosses the cable" {
    start_on right 'timeout 60 ib_write_bw -d mlx5_0 -F -u 18 -s 4096 -n 20'
    on left 'for i in {1..50}; do
        timeout 60 ib_write_bw -d mlx5_0 -F -u 18 -s 4096 -n 20 10.44.0.1 && exit; sleep 0.2
    done; exit 1'
    wait "$JOB"
}

@test "a NIC without a cable has no carrier" {
    port_is left mlx5_1 DOWN
    [ "$(on left cat /sys/class/net/idle/carrier)" = 0 ]
}

@test "discover finds the cables, and no other link" {
    local node
    for node in left right; do
        on $node "$MESHNET discover -o /tmp/node.yaml --node $node >/dev/null &&
            cat /tmp/node.yaml" >"$BATS_TEST_TMPDIR/$node.yaml"
    done
    cd "$BATS_TEST_TMPDIR"
    "$MESHNET" discover -o mesh.yaml --merge left.yaml right.yaml
    # What both files say of links and of their NICs; the first lacks what it leaves to the host.
    ends()
    {
        "$MESHNET" discover --check "$1" --json | jq -S '
            def netdev($m; $end): ($end | split("/")) as $e |
                [$m.nics[] | select(.node == $e[0] and .nic == $e[1])][0] |
                [.node, .netdev, .addresses];
            . as $m | [.links[] | [netdev($m; .a), netdev($m; .b), .subnet]]'
    }
    diff <(ends "$BATS_TEST_DIRNAME/mesh.yaml") <(ends mesh.yaml)
}

@test "sync shows the nodes what changed here" {
    cd "$BATS_TEST_TMPDIR"
    echo old >file
    on left 'cat file; ! cat absent'
    echo newer >file
    echo new >absent
    lab sync
    [ "$(on left cat file absent)" = $'newer\nnew' ]
}

@test "link down pulls the cable at both ends, up plugs it in" {
    lab link jumbo down
    soon port_is left mlx5_0 DOWN
    soon port_is right mlx5_0 DOWN
    port_is left rxe_eth0 ACTIVE
    [ "$(cable jumbo)" = "down - - -" ]
    run ! on left 'busybox ping -c 1 -W 1 10.44.0.1'
    on left 'busybox ping -c 1 -W 5 10.44.1.2'
    lab link jumbo up
    soon port_is left mlx5_0 ACTIVE
    soon port_is right mlx5_0 ACTIVE
    soon on left 'busybox ping -c 1 -W 5 10.44.0.1'
    [ "$(cable jumbo)" = "up - - -" ]
    lab link jumbo down 5s 3>&- &
    soon port_is left mlx5_0 DOWN
    [ "$(cable jumbo)" = "down - - -" ]
    wait $!
    [ "$(cable jumbo)" = "up - - -" ]
    soon port_is left mlx5_0 ACTIVE
    soon port_is right mlx5_0 ACTIVE
}

@test "link loss, delay and rate hold in both directions and go singly" {
    lab link 'bare cable' loss 30% delay 2ms rate 40mbit
    [ "$(cable 'bare cable')" = "up 30% 2ms 40mbit" ]
    [[ "$(on left tc qdisc show dev eth0)" == *"delay 2ms loss 30% rate 40Mbit"* ]]
    [[ "$(on right tc qdisc show dev eth1)" == *"delay 2ms loss 30% rate 40Mbit"* ]]
    [[ "$(on right tc qdisc show dev eth0)" != *netem* ]]
    # That all thirty come through has a chance of 0.49 to the thirtieth.
    run on left 'busybox ping -c 30 -i 0.05 -W 2 10.44.1.2'
    [[ "$output" != *" 0% packet loss"* ]]
    [[ "$output" != *" 100% packet loss"* ]]
    lab link 'bare cable' rate 0
    [ "$(cable 'bare cable')" = "up 30% 2ms -" ]
    [[ "$(on left tc qdisc show dev eth0)" != *rate* ]]
    lab link 'bare cable' loss 100%
    run ! on left 'busybox ping -c 3 -i 0.1 -W 1 10.44.1.2'
    lab link 'bare cable' clear
    [ "$(cable 'bare cable')" = "up - - -" ]
    [[ "$(on left tc qdisc show dev eth0)" != *netem* ]]
    on left 'busybox ping -c 3 -i 0.1 -W 5 10.44.1.2'
}

@test "a second up is refused and harms nothing" {
    run lab up "$BATS_TEST_DIRNAME/mesh.yaml"
    [ "$status" -eq 2 ]
    [[ "$output" == *"$LAB_DIR exists"* ]]
    on left true
    [ "$(state right)" = up ]
}

@test "kill, 254, start: the node comes back with its faults" {
    lab link jumbo delay 1ms
    lab link 'bare cable' down
    start_on right 'echo started; sleep 100' >"$BATS_TEST_TMPDIR/out"
    soon grep -q started "$BATS_TEST_TMPDIR/out"
    lab kill right
    [ "$(state right)" = dead ]
    [ "$(state left)" = up ]
    run on right true
    [ "$status" -eq 254 ]
    local status=0
    wait "$JOB" || status=$?
    [ "$status" -eq 254 ]
    run lab kill right
    [ "$status" -eq 1 ]
    run lab start left
    [ "$status" -eq 1 ]
    [[ "$output" == *"left is running"* ]]
    lab start right
    [ "$(state right)" = up ]
    [[ "$(on right tc qdisc show dev eth0)" == *"delay 1ms"* ]]
    soon port_is right rxe_eth1 DOWN
    lab link jumbo clear
    lab link 'bare cable' clear
    on left 'busybox ping -c 1 -W 5 10.44.0.1 && busybox ping -c 1 -W 5 right'
}

@test "a wrong mesh file is refused by its reader, and leaves nothing" {
    export LAB_DIR=$LAB_DIR.b
    printf 'version: 1\nnodes:\n  - nam: a\n' >"$BATS_TEST_TMPDIR/bad.yaml"
    run lab up "$BATS_TEST_TMPDIR/bad.yaml"
    [ "$status" -eq 2 ]
    [[ "$output" == *"bad.yaml:3:"* ]]
    run lab up "$BATS_TEST_TMPDIR/absent.yaml"
    [ "$status" -eq 2 ]
    sed 's/10\.44\.1/10.255.0/' "$BATS_TEST_DIRNAME/mesh.yaml" >"$BATS_TEST_TMPDIR/mgmt.yaml"
    run lab up "$BATS_TEST_TMPDIR/mgmt.yaml"
    [ "$status" -eq 2 ]
    [[ "$output" == *"left/eth0: 10.255.0.0/24 is the lab's management network"* ]]
    [ ! -e "$LAB_DIR" ]
    run lab status
    [ "$status" -eq 1 ]
}

@test "stopped while booting, it leaves nothing" {
    local signal pid
    export LAB_DIR=$LAB_DIR.b
    for signal in TERM HUP; do
        "$TOP/ci/lab" up "$BATS_TEST_DIRNAME/mesh.yaml" 3>&- &
        pid=$!
        soon test -s "$LAB_DIR/n2/pid"
        kill -$signal "$pid"
        if wait "$pid"; then
            return 1
        fi
        [ ! -e "$LAB_DIR" ]
        [ "$(processes_of "$LAB_DIR")" -eq 0 ]
    done
}

@test "down ends every process, removes the folder, and only its own" {
    local first=$LAB_DIR
    export LAB_DIR=$first.b
    lab up "$BATS_TEST_DIRNAME/mesh.yaml" 3>&-
    [ "$(on right hostname)" = right ]
    [ "$(processes_of "$LAB_DIR")" -ge 3 ]
    lab down
    [ ! -e "$LAB_DIR" ]
    [ "$(processes_of "$LAB_DIR")" -eq 0 ]
    lab down
    mkdir "$BATS_TEST_TMPDIR/precious"
    LAB_DIR=$BATS_TEST_TMPDIR/precious run lab down
    [ "$status" -eq 1 ]
    [ -d "$BATS_TEST_TMPDIR/precious" ]
    LAB_DIR=$first on left true
}
