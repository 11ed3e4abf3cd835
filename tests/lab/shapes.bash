# Shapes of three and four machines whose cables have no addresses, and the commands that make a mesh of
# them, for the tests that load this after helper and traffic.

NODES='spark-a spark-b spark-c spark-d'

# mesh_of SHAPE: a mesh file for ci/lab, whose addresses go again (bare).
mesh_of()
{
    local cable a b n=0
    declare -A nics
    case $1 in
    ring) set -- a:b b:c c:d d:a ;;
    line) set -- a:b b:c c:d ;;
    line3) set -- a:b b:c ;;
    star) set -- a:b a:c a:d ;;
    full) set -- a:b a:c a:d b:c b:d c:d ;;
    triangle) set -- a:b b:c c:a ;;
    double) set -- a:b b:c c:a a:b b:c c:a ;; # two cables a pair
    esac
    for cable; do
        n=$((n + 1))
        a=${cable%:*} b=${cable#*:}
        nics[$a]+="      - {netdev: p$n, device: rxe$n, addresses: [10.9.$n.1/24]}"$'\n'
        nics[$b]+="      - {netdev: p$n, device: rxe$n, addresses: [10.9.$n.2/24]}"$'\n'
    done
    printf 'version: 1\nnodes:\n'
    for a in a b c d; do
        [ -z "${nics[$a]-}" ] || printf -- '  - name: spark-%s\n    nics:\n%s' "$a" "${nics[$a]}"
    done
}

# boot SHAPE: its machines, with cables and without addresses.
boot()
{
    local node
    mesh_of "$1" >lab.yaml
    lab_up "$PWD/lab.yaml"
    for node in $NODES; do
        bare_on $node
    done
}

# bare_on NODE: no addresses on its cables, and an agent that may change that.
bare_on()
{
    on "$1" 'for nic in $(cd /sys/class/net && ls -d p*); do ip addr flush dev $nic scope global; done'
    agent_on "$1"
}

# agent_on NODE: meshnet serve, without a mesh file or with the one that it has been given.
agent_on()
{
    on "$1" "! [ -e /root/agent ] || kill \$(</root/agent)
        (umask 077; echo $TOKEN >/root/token)
        rm -f /root/serve.out
        $SLOW setsid $MESHNET serve --listen 0.0.0.0 --manage --clients 4 \
            --token-file /root/token >/root/serve.out 2>&1 &
        echo \$! >/root/agent
        for i in {1..300}; do
            ! grep -q listening /root/serve.out || exit 0
            sleep 0.1
        done
        cat /root/serve.out
        exit 1"
}

ALL='--hosts spark-a,10.255.0.2,10.255.0.3,10.255.0.4 --agents --token-file /root/token'

# at_a WORD…: meshnet on the first node.
at_a()
{
    run --separate-stderr on spark-a "cd /root && $SLOW $MESHNET $*"
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
}

# to_bench SHAPE CABLES: the four commands.
to_bench()
{
    local node
    boot "$1"
    at_a discover --neighbors $ALL -o bare.yaml
    at_a topo address --mesh bare.yaml -o mesh.yaml $ALL
    at_a topo apply --mesh mesh.yaml $ALL --yes --rollback 120s
    [ "$(grep -c ' kept' <<<"$output")" -eq 4 ]
    [ "$(grep -c ' answers ' <<<"$output")" -eq $((2 * $2)) ]
    at_a push mesh.yaml $ALL --to /etc/meshnet/mesh.yaml
    for node in $NODES; do
        agent_on $node
    done
    at_a bench --links $ALL --sizes 16K --iters 8 --warmup 1 --json
    jq -e --argjson n "$2" '[.. | objects | select(.mode? == "link")] | length == $n and
        all(.[]; .status == "ok" and .transport == "RDMA")' <<<"$output"
}

# by_hand: skips what a run of all tests has no time for.
by_hand()
{
    [ "${LAB_SHAPES-}" = all ] || skip "by hand: LAB_SHAPES=all"
}
