# Rounds of ci/soak --failover, read by it: two nodes with several cables, of which one at least stays.
# Cables are pulled, silenced, flap, and another goes while the first is out; ends are stopped for a
# while. Nothing may fail, be wrong or hang.
. "$TOP/tests/namespaces.bash"
. "$TOP/tests/relay.bash"
. "$TOP/tests/cables.bash"
NS=mnsf$$ KIND=tcp FLAPS=10
[ -z "$RDMA" ] || KIND=rdma
unset LD_LIBRARY_PATH MESHNET_REACH
cleanup()
{
    traffic_kill
    cables_end
    [ -n "$KEEP" ] || rm -rf "$WORK"
}

# fault: one, its mending in MEND. KEPT is the cable that stays, OUT those that are out.
fault()
{
    local cable i names=("${!SENDS[@]}")
    dice $CABLES
    cable=$DICE
    dice 8
    [ $DICE -eq 7 ] || { [ $cable -ne $KEPT ] && [ -z "${OUT[$cable]-}" ]; } || return 0
    case $DICE in
    0 | 1 | 2)
        did "cable $cable pulled"
        OUT[$cable]=1
        pull $cable
        MEND+=("plug $cable") ;;
    3 | 4)
        did "cable $cable silent"
        OUT[$cable]=1
        silence $cable
        MEND+=("sound $cable") ;;
    5 | 6)
        did "cable $cable flaps"
        for ((i = 0; i < FLAPS; i++)); do
            pull $cable
            dice 4
            sleep 0.$DICE
            plug $cable
            dice 4
            sleep 0.$DICE
        done ;;
    7)
        dice ${#names[@]}
        stop_receiver ${names[DICE]} ;;
    esac
}

stop_receiver()
{
    did "receiver of $1 stopped"
    kill -STOP ${TAKES[$1]} 2>/dev/null || return 0
    MEND+=("resume ${TAKES[$1]}")
}

# begin N SECONDS: so many connections, their names in names.
begin()
{
    local i from to
    for ((i = 0; i < $1; i++)); do
        dice 2
        [ $DICE -eq 0 ] && from=a to=b || from=b to=a
        dice 3
        did "t$i from $from to $to, flows=$((DICE + 1)), $2 s"
        traffic t$i $from $to flows=$((DICE + 1)) seed=$SEED seconds=$2 leaks=1 >ended || {
            bad "t$i does not connect: $(cat ended)"
            continue
        }
        names+=(t$i)
    done
}

hurt()
{
    fault
    # Another one while the first is recovered from.
    dice 2
    [ $DICE -ne 0 ] || fault
    dice 30
    sleep $((DICE / 10)).$((DICE % 10))
    mend
    OUT=()
}

round()
{
    local i n names=() faults seconds
    RANDOM=$SEED
    BAD='' MEND=() OUT=() BEGAN=$EPOCHREALTIME
    : >done
    dice 2
    CABLES=$((DICE + 2))
    dice $CABLES
    KEPT=$DICE
    dice 3
    n=$((DICE + 1))
    dice 4
    faults=$((DICE + 1)) seconds=$((faults * 4 + 4))
    cables_up $KIND $CABLES || { echo "no network namespaces here"; exit 1; }
    did "$CABLES cables, $KEPT stays"
    begin $n $seconds
    for ((i = 0; i < faults && ${#names[@]}; i++)); do
        dice 10
        sleep 0.$DICE
        hurt
    done
    mend
    for i in "${names[@]}"; do
        ends_well $i
    done
    cables_end
}

# had NAME.END: what an end has first and at its end: KiB and numbers, a line each.
had()
{
    sed -n 's/^has //p' $1 | sed 's/ [a-zA-Z ]*//g; s/,/ /g'
}

# ends_leak: what an end of this round has at its end, while it is connected, is what it had. What is
# left when it is closed it says itself ("wrong: left behind").
ends_leak()
{
    local end first last i names=(KiB descriptors threads 'queue pairs' 'completion queues' regions channels)
    # A link that is out or comes back has some of its old and its new ones.
    local more=(16384 6 2 8 2 2 2)
    for end in t*.send t*.take; do
        [ -e $end ] && [ "$(had $end | wc -l)" -eq 2 ] || continue
        first=($(had $end | head -n 1)) last=($(had $end | tail -n 1))
        for i in "${!names[@]}"; do
            [ ${last[i]} -le $((first[i] + more[i])) ] ||
                bad "$end leaks ${names[i]}: ${first[i]}, now ${last[i]}"
            [ $((last[i] - first[i])) -le ${MOST[i]} ] || MOST[i]=$((last[i] - first[i]))
        done
    done
}
MOST=(0 0 0 0 0 0 0)

leaks()
{
    ends_leak
}

said_at_end()
{
    printf 'at its end an end had at most %d KiB, %d descriptors, %d threads, %d queue pairs, ' ${MOST[@]::4}
    printf '%d completion queues, %d regions and %d channels more\n' ${MOST[@]:4}
}
