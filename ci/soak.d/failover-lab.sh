# Rounds of ci/soak --failover --lab, read by it after failover.sh: the same faults between two virtual
# machines with three cables, over RDMA. One traffic lasts for all rounds, so that what it leaks is seen;
# for it the same cable stays all the time.
. "$TOP/tests/lab/cables.bash"
CABLES=3 FLAPS=4 KEPT=${KEPT:-$((SEED % 3))}

stop_receiver()
{
    did "receiver of $1 stopped"
    # It may have ended meanwhile.
    of_end $1.take 'kill -STOP $pid || :'
    MEND+=("of_end $1.take kill -CONT \$pid || :")
}

round()
{
    local i n names=() faults seconds
    RANDOM=$SEED
    BAD='' MEND=() OUT=() BEGAN=$EPOCHREALTIME
    : >done
    dice 2
    n=$((DICE + 1))
    dice 4
    faults=$((DICE + 1)) seconds=$((faults * 6 + 4))
    did "$CABLES cables, $KEPT stays"
    begin $n $seconds
    for ((i = 0; i < faults && ${#names[@]}; i++)); do
        hurt
    done
    mend
    for i in "${names[@]}"; do
        ends_well $i
    done
    traffic_moves long 1000000 >ended || bad "long: $(tail -n 3 ended)"
    says long
    calls long
    ! grep -h '^\(wrong\|failed\)' long.send long.take >ended || bad "long: $(cat ended)"
}

# What an end of the long traffic has: descriptors, and memory in KiB.
of_long()
{
    of_end long.$1 'echo $(ls /proc/$pid/fd | wc -l) $(awk "/^VmRSS/ { print \$2 }" /proc/$pid/status)'
}

leaks()
{
    local end has first
    ends_leak
    for end in send take; do
        has=$(of_long $end)
        HAS[$end]=$has
        # The first round is one of faults, too: all that grows once has grown.
        [ $COUNT -lt 1 ] || [ -n "${FIRST[$end]-}" ] || FIRST[$end]=$has
        first=${FIRST[$end]:-$has}
        [ ${has% *} -le $((${first% *} + 6)) ] || bad "long.$end leaks descriptors: ${first% *}, now ${has% *}"
        [ ${has#* } -le $((${first#* } + 16384)) ] || bad "long.$end leaks memory: ${first#* } KiB, now ${has#* } KiB"
    done
}

said_at_end()
{
    local end
    says long
    for end in send take; do
        printf 'long.%s: links were given up %d times and came back %d times; ' $end \
            $(grep -c 'is given up: ' long.$end) $(grep -c 'is back after' long.$end)
        set -- ${FIRST[$end]:-${HAS[$end]}} ${HAS[$end]}
        printf 'descriptors %d -> %d, memory %d -> %d KiB\n' $1 $3 $2 $4
    done
    BYTES=$(tail -n 1 <(sed -n 's/^bytes //p' long.take))
    echo "$((${BYTES:-0} >> 20)) MiB of it checked"
}

[ "$(uname -m)" = x86_64 ] && command -v qemu-system-x86_64 >/dev/null || die "the lab needs qemu-system-x86_64"
export LAB_TTL=$((MINUTES * 60 + ROUNDS * 300 + 1800))
cables_boot $CABLES || exit 1
traffic long a b flows=2 seed=$SEED || exit 1
