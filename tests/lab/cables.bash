# Two nodes a and b as virtual machines with several cables over RDMA, for what loads this after
# tests/relay.bash, of whose words some mean the same here: traffic, traffic_ended, traffic_kill. As in
# tests/cables.bash, pull, plug, silence and sound take the number of a cable, of which I is mesh$I at
# both ends and its subnet 10.66.$I.0/30. SLOW: variables for all that runs there.

lab()
{
    (cd "$TOP" && ci/lab "$@" 3>&-)
}

# cables_file CABLES: the mesh file of the first so many.
cables_file()
{
    local node i at
    printf 'version: 1\nnodes:\n'
    for node in a b; do
        at=1
        [ $node = a ] || at=2
        printf -- '  - name: %s\n    nics:\n' $node
        for ((i = 0; i < $1; i++)); do
            printf '      - {netdev: mesh%d, device: rxe%d, addresses: [10.66.%d.%d/30]}\n' $i $i $i $at
        done
    done
    printf 'links:\n'
    for ((i = 0; i < $1; i++)); do
        printf '  - {name: cable%d, ends: [a/mesh%d, b/mesh%d]}\n' $i $i $i
    done
}

# cables_boot CABLES: the machines, and in $PWD a copy of the build, which may be built again meanwhile.
cables_boot()
{
    export LAB_DIR=${LAB_DIR-$PWD/lab} LAB_TIMEOUT=600
    mkdir bin && cp "$BUILD/tests/traffic" bin && cp -a "$BUILD/lib" . || return
    TRAFFIC=$PWD/bin/traffic PLUGIN=$PWD/lib/libnccl-net-mesh.so
    cables_file $1 >mesh.yaml
    lab up "$PWD/mesh.yaml"
}

cables_end()
{
    [ ! -d "${LAB_DIR-/nowhere}" ] || lab down
}

pull()
{
    lab link cable$1 down
}

plug()
{
    lab link cable$1 up
}

silence()
{
    lab link cable$1 loss 100%
}

sound()
{
    lab link cable$1 loss 0%
}

declare -gA SENDS=() TAKES=() # of each traffic: its ends' nodes

# starts NODE NAME.END UNTIL COMMAND…: there, as $name; returns when the shell line UNTIL succeeds.
starts()
{
    lab exec $1 "mkdir -p /root/${2%.*}
        ${SLOW-} MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_ALLOW_TCP=false MESHNET_HANDSHAKE=60s \
            MESHNET_CONNECT=120s setsid ${*:4} >/root/$2 2>&1 &
        echo \$! >/root/$2.pid
        for try in {1..1200}; do
            { $3; } && exit 0
            ! grep -q ^failed /root/$2 || break
            sleep 0.1
        done
        tail -n 5 /root/$2
        exit 1"
}

traffic()
{
    local name=$1 from=$2 to=$3 handles last=0
    shift 3
    [[ " $*" != *" flows="[0-9]* ]] || last=$(($(sed 's/.*flows=\([0-9]\).*/\1/' <<<"$*") - 1))
    lab exec $to "rm -rf /root/$name /root/$name.*" && lab exec $from "rm -rf /root/$name /root/$name.*" || return
    TAKES[$name]=$to SENDS[$name]=$from
    starts $to $name.take "[ -s /root/$name/$last ]" $TRAFFIC $PLUGIN receive /root/$name $* || return
    handles=$(lab exec $to "cd /root/$name; for i in *; do echo \"echo \$(base64 -w 0 \$i) | base64 -d >/root/$name/\$i;\"; done")
    lab exec $from "mkdir -p /root/$name; $handles" || return
    starts $from $name.send "grep -q ^connected /root/$name.send" $TRAFFIC $PLUGIN send /root/$name $* || {
        lab exec $to "tail -n 5 /root/$name.take"
        return 1
    }
}

# of_end NAME.END COMMAND…: a shell line in its node, where $pid is its process.
of_end()
{
    local name=${1%.*} node
    [ ${1#*.} = send ] && node=${SENDS[$name]} || node=${TAKES[$name]}
    lab exec $node "pid=\$(cat /root/$1.pid); ${*:2}"
}

# says: into NAME.send and NAME.take, all that the ends have said.
says()
{
    local end
    for end in send take; do
        of_end $1.$end "cat /root/$1.$end" >$1.$end || return
    done
}

# Both ends have ended of themselves; 0 when both say that all was right. Who has lost his parent
# stays a zombie there.
traffic_ended()
{
    local end failed=0
    for end in take send; do
        of_end $1.$end "for ((i = 0; i < $2 * 5; i++)); do
            grep -qs '^State:.[^Z]' /proc/\$pid/status || exit 0
            sleep 0.2
        done
        kill -KILL \$pid
        exit 1" || { echo "$1 hangs: it has not ended within $2 s"; failed=99; }
    done
    says $1 || failed=99
    for end in take send; do
        grep -q '^flow ' $1.$end && ! grep -q '^\(wrong\|failed\)' $1.$end || failed=$((failed ? failed : 1))
    done
    unset "SENDS[$1]" "TAKES[$1]"
    tail -n 4 $1.send $1.take
    return $failed
}

traffic_kill()
{
    local name end
    for name in "${!SENDS[@]}"; do
        for end in take send; do
            of_end $name.$end 'kill -KILL $pid' 2>/dev/null || true
        done
        unset "SENDS[$name]" "TAKES[$name]"
    done
}

carried_by()
{
    of_end $1.take "sed -n 's/^bytes //p' /root/$1.take | tail -n 1 | grep . || echo 0"
}

# traffic_moves NAME BYTES: so much more comes through, within two minutes. What its receiver has not
# said yet came before: it counts from what is said next.
traffic_moves()
{
    local old before='' now i
    old=$(carried_by $1)
    for ((i = 0; i < 120; i++)); do
        now=$(carried_by $1)
        [ -n "$before" ] || [ $now = $old ] || before=$now
        [ -z "$before" ] || [ $((now - before)) -lt $2 ] || return 0
        sleep 1
    done
    says $1
    echo "$1: ${before:-$old} bytes, then $now"
    tail -n 5 $1.send $1.take
    return 1
}
