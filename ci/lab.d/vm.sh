# One node of a lab: its QEMU, its wiring, its jobs. Sourced by ci/lab.
#
# $LAB holds, tab between the fields and "-" for none:
#   nodes   NODE NAME HOSTNAME                                         NODE = 1 … 8
#   nics    NODE NIC NETDEV DEVICE MAC MTU MBPS LINK SIDE ADDRESSES    NIC = 1 …, LINK 0: no cable
#   links   LINK NAME                                                  LINK = 1 …
#   link.LINK   the faults in force: "cable down", "loss 1%", …
#   n<NODE>/, hub/   what belongs to one QEMU; s/ its sockets

# qemu_pid FOLDER: the process, if it lives and is the one that was started here.
qemu_pid()
{
    local pid words
    [ -e "$LAB/$1/pid" ] && read -r pid 2>/dev/null <"$LAB/$1/pid" || return
    mapfile -d '' -t words 2>/dev/null <"/proc/$pid/cmdline" || return
    [[ " ${words[*]} " == *" $LAB/$1/pid "* ]] && echo "$pid"
}

# A process that outlives this script must not hold its pipes open: bats, for one, waits for them.
spawn_qemu()
{
    local folder=$LAB/$1 fd
    shift
    (
        for fd in /proc/"$BASHPID"/fd/*; do
            fd=${fd##*/}
            [ "$fd" -le 2 ] || eval "exec $fd>&-" 2>/dev/null
        done
        exec timeout -k 5 "$TTL" qemu-system-x86_64 -nodefaults -no-user-config -display none \
            -pidfile "$folder/pid" "$@"
    ) >"$folder/qemu.log" 2>&1 </dev/null &
    SPAWNED+=($!)
}

# datagrams ID HERE THERE: an Ethernet cable, or this end of one. Either end may come first, go, and
# come again.
datagrams()
{
    echo "dgram,id=$1,local.type=unix,local.path=$LAB/s/$2,remote.type=unix,remote.path=$LAB/s/$3"
}

management_mac()
{
    printf '52:54:00:4d:4e:%02x' "$1"
}

# wiring NODE: the script that a node runs before it is ready, with few programs: each takes an emulated
# processor a third of a second. The NICs are renamed in two steps, as the mesh file may use the names that
# the kernel gave to others. The management address is a /32 with a route beside it: two nodes in one
# subnet there would look like one more cable.
wiring()
{
    local node=$1 of nic netdev device mac mtu mbps link side addresses hostname address devices=''
    hostname=$(awk -F '\t' -v node="$node" '$1 == node { print $3 }' "$LAB/nodes")
    cat <<END
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
echo $hostname >/proc/sys/kernel/hostname
mapfile hosts </run/lab/hosts
printf %s "\${hosts[@]}" >/etc/hosts
# By what the host says of a file that is written now: at boot the clock is set by the second, and later
# the busier the host is. What date takes to start is added from the second round on.
for round in 1 2 3 4 5; do
    here=\${EPOCHREALTIME/./}
    echo >/run/lab/now
    there=\$(stat -c %.6Y /run/lab/now)
    off=\$((\${there/./} - here))
    [ \${off#-} -gt 100000 ] || break
    right=\$((\${EPOCHREALTIME/./} + off * (round > 1 ? 2 : 1)))
    date -s @\${right%??????}.\${right: -6} >/dev/null
done
declare -A named
for netdev in /sys/class/net/*; do
    read -r mac <\$netdev/address
    named[\$mac]=\${netdev##*/}
done
ip -batch - <<BATCH
link set lo up
link set \${named[$(management_mac "$node")]} name mgmt
link set mgmt mtu 1500 up
address add $MANAGEMENT.$node/32 dev mgmt
route add $MANAGEMENT.0/24 dev mgmt src $MANAGEMENT.$node
END
    while read -r of nic netdev device mac mtu mbps link side addresses; do
        [ "$of" = "$node" ] || continue
        echo "link set \${named[$mac]} name lab$nic"
    done <"$LAB/nics"
    while read -r of nic netdev device mac mtu mbps link side addresses; do
        [ "$of" = "$node" ] || continue
        printf 'link set lab%s name %s\nlink set %s mtu %s up\n' "$nic" "$netdev" "$netdev" "$mtu"
        for address in $addresses; do
            [ "$address" = - ] || printf 'address add %s dev %s%s\n' "$address" "$netdev" \
                "$([[ $address != *:* ]] || echo ' nodad')"
        done
        devices+="link add $device type rxe netdev $netdev"$'\n'
    done <"$LAB/nics"
    printf 'BATCH\nrdma -b - <<BATCH\n%sBATCH\n' "$devices"
}

# start_node NODE: power on; see wait_node.
start_node()
{
    local node=$1 folder=n$1 args=() other card
    local of nic netdev device mac mtu mbps link side addresses
    rm -rf "${LAB:?}/$folder"
    mkdir "$LAB/$folder" && mkfifo "$LAB/$folder"/{bell,qmp}.{in,out} ||
        fail "cannot make $LAB/$folder"
    wiring "$node" >"$LAB/$folder/wire.sh"
    cp "$LAB/hosts" "$LAB/mesh.yaml" "$LAB/$folder"
    args+=(-netdev "$(datagrams mgmt "m$node" "h$node")" -device
        "virtio-net-pci,romfile=,netdev=mgmt,mac=$(management_mac "$node")")
    while read -r of nic netdev device mac mtu mbps link side addresses; do
        [ "$of" = "$node" ] || continue
        other=a
        [ "$side" = b ] || other=b
        # With the 256 buffers of the default, full of jumbo frames, a card of QEMU before 9.1 may receive
        # nothing any more, for ever: it waits for a kick that the guest has given already.
        card=virtio-net-pci,romfile=,netdev=nic$nic,mac=$mac,rx_queue_size=1024
        [ "$mbps" = - ] || card+=,speed=$mbps,duplex=full
        if [ "$link" = 0 ]; then
            args+=(-netdev "$(datagrams "nic$nic" "u$node.$nic" "u$node.$nic.none")")
        else
            args+=(-netdev "$(datagrams "nic$nic" "$link$side" "$link$other")")
        fi
        args+=(-device "$card")
    done <"$LAB/nics"
    folder=$LAB/$folder
    # With erms, emulation copies memory byte by byte: half the speed.
    spawn_qemu "n$node" -name "lab-$node" -M q35 -accel tcg,thread=multi -cpu max,-erms,-fsrm \
        -m "$MEMORY" -smp 1 -no-reboot -kernel "$CACHE/kernel" -initrd "$CACHE/initrd" \
        -append 'console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check' \
        -serial "file:$folder/console" \
        -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=root,mount_tag=hostroot \
        -fsdev "local,id=job,path=$folder,security_model=none" \
        -device virtio-9p-pci,fsdev=job,mount_tag=job \
        -device virtio-serial-pci -chardev "pipe,id=bell,path=$folder/bell" \
        -device virtserialport,chardev=bell \
        -chardev "pipe,id=qmp,path=$folder/qmp" -mon chardev=qmp,mode=control "${args[@]}"
}

# wait_node NODE: until it has booted and its faults are in force.
wait_node()
{
    local node=$1 folder=$LAB/n$1 limit=$((SECONDS + BOOT_LIMIT)) name alive=''
    name=$(node_name "$node")
    until [ -e "$folder/ready" ]; do
        if [ -n "$(qemu_pid "n$node")" ]; then
            alive=yes
        elif [ -n "$alive" ] || [ -s "$folder/qemu.log" ]; then
            fail "$name: its virtual machine ended:" "$(tail -n 5 "$folder/qemu.log")" \
                "$(tail -n 5 "$folder/console" 2>/dev/null)"
        fi
        [ $SECONDS -lt $limit ] || {
            tail -n 20 "$folder/console" >&2
            fail "$name: not booted within $BOOT_LIMIT s"
        }
        nap 0.1
    done
    apply_faults "$node"
}

# The exit that a signal asked for.
if_caught()
{
    [ -z "$CAUGHT" ] || exit "$CAUGHT"
}

# nap SECONDS: without a process; many wait at once on few cores.
nap()
{
    [ -n "${NAP-}" ] || exec {NAP}<> <(:)
    read -rt "$1" -u "$NAP"
    if_caught
}

# qmp NODE COMMAND ARGUMENTS: to its QEMU, and waits for the answer.
qmp()
{
    local folder=$LAB/n$1 id=$$.$RANDOM line in
    exec {LOCK}>"$folder/qmp.lock"
    flock -w 30 "$LOCK" || fail "$folder/qmp.lock is held by another; waited 30 s"
    # Opened both ways: opening a pipe for one way waits for ever when QEMU is dead.
    exec {in}<>"$folder/qmp.out"
    printf '%s\n' '{"execute": "qmp_capabilities"}' \
        "{\"execute\": \"$2\", \"id\": \"$id\", \"arguments\": $3}" 1<>"$folder/qmp.in"
    while read -r -t 10 -u "$in" line; do
        [[ $line == *"\"$id\""* ]] && break
    done
    exec {in}>&- {LOCK}>&-
    [[ $line == *"\"$id\""* && $line != *'"error"'* ]] ||
        fail "$(node_name "$1"): QEMU answers ${line:-nothing} to $2 $3"
}

# run_job NODE COMMAND…: as a shell line in that node; its output, its exit code. The output comes
# at least every second. One shell does it all, and the time is looked at here: an emulated processor
# needs a while to start a program.
run_job()
{
    local node=$1 folder=$LAB/n$1 begin=$SECONDS job code lost='' out err tick late=''
    shift
    [ -e "$folder/ready" ] && [ -n "$(qemu_pid "n$node")" ] || {
        echo "lab: $(node_name "$node") is not up" >&2
        return 254
    }
    job=$(mktemp "$folder/jXXXXXX.sh") || fail "cannot write in $folder"
    job=${job%.sh}
    : >"$job.out" >"$job.err"
    exec {out}<"$job.out" {err}<"$job.err"
    {
        echo 'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root'
        echo 'export LC_ALL=C.UTF-8'
        printf 'cd %q 2>/dev/null || cd /\n' "$CALLER"
        printf 'echo $$ >/run/lab/%s.pid\n' "${job##*/}"
        printf '[ ! -e /run/lab/%s.stop ] || exit 143\n' "${job##*/}"
        printf 'eval %q\n' "$*"
    } >"$job.sh"
    JOB=$job
    echo "${job##*/}" 1<>"$folder/bell.in"
    for ((tick = 0; ; tick++)); do
        [ ! -e "$job.rc" ] || { code=$(<"$job.rc") && break; }
        if ((tick % 20 == 19)); then
            cat <&"$out"
            cat <&"$err" >&2
            [ -n "$(qemu_pid "n$node")" ] || { code=254 lost='died' && break; }
            case $late$((SECONDS - begin < TIMEOUT ? 0 : SECONDS - begin < TIMEOUT + 5 ? 1 : 2)) in
            1 | 2) late=T && signal_job TERM "$job" ;;
            T2) late=K && signal_job KILL "$job" ;;
            esac
        fi
        ((SECONDS - begin < TIMEOUT + 30)) || {
            code=253 lost="no answer within $TIMEOUT s"
            break
        }
        nap 0.05
    done
    cat <&"$out"
    cat <&"$err" >&2
    exec {out}<&- {err}<&-
    JOB=''
    rm -f "$job".*
    [ -z "$late" ] || [ -n "$lost" ] || code=253 lost="not done within $TIMEOUT s"
    [ -z "$lost" ] || echo "lab: $(node_name "$node"): $lost" >&2
    return "$code"
}

# signal_job SIGNAL JOB
signal_job()
{
    echo "${2##*/} $1" 1<>"${2%/*}/bell.in"
}

# stop_job: ends what run_job is waiting for, in the node too.
stop_job()
{
    : >"$JOB.stop"
    signal_job TERM "$JOB"
} 2>/dev/null
