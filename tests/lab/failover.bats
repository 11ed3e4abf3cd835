#!/usr/bin/env bats
# Three machines, each cabled to both others by two cables, in a loop of all-reduces over RDMA whose every
# element is checked: cables go and come back, and nothing is wrong or fails. By hand (LAB_SHAPES=all) one
# that flaps, both at once, and the triangle with single cables, whose pair goes on over the third node.

load helper
load traffic
load shapes

NODES='spark-a spark-b spark-c'

setup()
{
    cd "$BATS_TEST_TMPDIR"
    # The two cables from a to b, which it sends by.
    FIRST=spark-a-spark-b SECOND=spark-a-spark-b-2
}

teardown()
{
    if [ -z "${BATS_TEST_COMPLETED-}" ] && [ -n "${LAB_DIR-}" ]; then
        for node in $NODES; do
            on $node 'grep -v ^rounds /root/rounds; tail -n 1 /root/rounds; tail -n 5 /root/relayd' || true
        done
    fi
    lab_down
}

# ring_of SHAPE: its machines, and in mesh.yaml their mesh.
ring_of()
{
    mesh_of "$1" >lab.yaml
    lab_up "$PWD/lab.yaml"
    managed lab.yaml >mesh.yaml
    lab sync
}

# rounds_start: the loop on all nodes; returns when it goes round.
rounds_start()
{
    local node rank=0 handles=''
    for node in $NODES; do
        on $node "mkdir /root/handles
            $SLOW $DRIVERS MESHNET_ALLOW_TCP=false MESHNET_CONFIG=$PWD/mesh.yaml setsid $BUILD/tests/rounds $PLUGIN \
                $rank 3 /root/handles /root/end >/root/rounds 2>&1 &
            for i in {1..300}; do
                [ ! -s /root/handles/$rank ] || exit 0
                sleep 0.1
            done
            cat /root/rounds
            exit 1"
        handles+="[ -e /root/handles/$rank ] || {
            echo $(on $node base64 -w 0 /root/handles/$rank) | base64 -d >/root/handles/$rank~
            mv /root/handles/$rank~ /root/handles/$rank
        }
        "
        rank=$((rank + 1))
    done
    for node in $NODES; do
        on $node "$handles"
    done
    rounds_go 3
}

# rounds_go COUNT: so many more are done.
rounds_go()
{
    on spark-a "before=\$(sed -n 's/^rounds //p' /root/rounds | tail -n 1)
        for ((i = 0; i < 900; i++)); do
            now=\$(sed -n 's/^rounds //p' /root/rounds | tail -n 1)
            [ \$((now - before)) -lt $1 ] || exit 0
            ! grep -q '^\(failed\|wrong\)' /root/rounds || break
            sleep 0.1
        done
        tail -n 5 /root/rounds
        exit 1"
}

# told NODE TEXT [COUNT]: it has said so, or does; so often.
told()
{
    on $1 "for ((i = 0; i < 900; i++)); do
            [ \$(grep -c '$2' /root/rounds) -lt ${3-1} ] || exit 0
            sleep 0.1
        done
        echo 'not said: $2'
        exit 1"
}

# times NODE TEXT: how often it has said so.
times()
{
    on $1 "grep -c '$2' /root/rounds || :"
}

# All ranks end after the same round, and say that all was right.
rounds_end()
{
    local node
    on spark-a touch /root/end
    for node in $NODES; do
        told $node '^\(done\|failed\|wrong\)'
        on $node "grep '^done' /root/rounds" >end.$node
    done
    cat end.*
    [ "$(sort -u end.* | wc -l)" -eq 1 ]
}

# goes_once NIC: it was said once that it went, and once that it is back, by either end.
goes_once()
{
    local what
    for what in 'is given up: ' 'is back after'; do
        [ "$(times spark-a "send to peer spark-b, link $1 .*$what")" -eq 1 ]
        [ "$(times spark-b "receive from peer spark-a, link $1 .*$what")" -eq 1 ]
    done
}

@test "failover: link down, then 100 % loss with the carrier up, on two cables a pair: all-reduces go on, and both return" {
    ring_of double
    rounds_start
    lab link $SECOND down
    told spark-a 'link p4 .*is given up: '
    rounds_go 3
    lab link $SECOND up
    told spark-a 'link p4 .*is back after'
    lab link $FIRST loss 100%
    told spark-a 'link p1 .*is given up: .*no answer for'
    rounds_go 3
    lab link $FIRST clear
    told spark-a 'link p1 .*is back after'
    rounds_go 3
    rounds_end
    goes_once p4
    goes_once p1
    # What was not touched was not given up.
    [ "$(times spark-c 'is given up: ')" -eq 0 ]
}

@test "failover: a cable that flaps ten times; the second going while the first is recovered from; both return" {
    local i
    by_hand
    ring_of double
    rounds_start
    for i in {1..10}; do
        lab link $SECOND down
        lab link $SECOND up
    done
    told spark-a 'link p4 .*is given up: '
    rounds_go 3
    told spark-a 'link p4 .*is back after'
    [ "$(times spark-a 'link p4 .*is given up: ')" -le 10 ]
    [ "$(times spark-a 'link p1 .*is given up: ')" -eq 0 ]

    lab link $FIRST loss 100%
    sleep 1
    lab link $SECOND down
    sleep 3
    lab link $SECOND up
    rounds_go 3
    lab link $FIRST clear
    rounds_go 3

    # Another pair's both, one after the other, each while the other is there.
    lab link spark-b-spark-c down
    told spark-b 'link p2 .*is given up: '
    rounds_go 3
    lab link spark-b-spark-c up
    told spark-b 'link p2 .*is back after'
    lab link spark-b-spark-c-2 down
    told spark-b 'link p5 .*is given up: '
    rounds_go 3
    lab link spark-b-spark-c-2 up
    told spark-b 'link p5 .*is back after'
    rounds_go 3
    rounds_end
}

# passes_on NODE BYTES: its relay passes on so many more.
passes_on()
{
    local i before
    before=$(passed_on $1)
    for ((i = 0; i < 60; i++)); do
        [ $(($(passed_on $1) - before)) -lt $2 ] || return 0
        sleep 1
    done
    return 1
}

@test "failover: single cables: the pair whose cable went goes on over the third node, by RDMA, and returns; twice" {
    local round
    by_hand
    ring_of triangle
    SLOW+=' MESHNET_DETOUR=spare'
    relays_on $NODES
    rounds_start
    for round in 1 2; do
        if [ $round -eq 1 ]; then lab link $FIRST down; else lab link $FIRST loss 100%; fi
        told spark-a 'the way through their own cable is gone' $round
        passes_on spark-c 1000000
        rounds_go 3
        lab link $FIRST clear
        told spark-a 'the way through their own cable is back' $round
        rounds_go 3
    done
    rounds_end
}
