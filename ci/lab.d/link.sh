# The cables of a lab and what is wrong with them. Sourced by ci/lab; the tables are those of vm.sh.

declare -A FAULT

# Into FAULT: cable (down or nothing), loss, delay, rate of link LINK.
read_faults()
{
    local what value
    FAULT=([cable]='' [loss]='' [delay]='' [rate]='')
    [ -e "$LAB/link.$1" ] || return 0
    while read -r what value; do
        FAULT[$what]=$value
    done <"$LAB/link.$1"
}

write_faults()
{
    local what
    for what in cable loss delay rate; do
        [ -z "${FAULT[$what]}" ] || echo "$what ${FAULT[$what]}"
    done >"$LAB/link.$1~"
    mv "$LAB/link.$1~" "$LAB/link.$1"
}

# plug NODE NIC: pulls or plugs the NIC's cable, as FAULT says.
plug()
{
    local up=true
    [ -z "${FAULT[cable]}" ] || up=false
    qmp "$1" set_link "{\"name\": \"nic$2\", \"up\": $up}"
}

# shape NETDEV: the shell lines that do the rest in the node. The limit is above what the queue pairs
# of a few connections have under way, so that the queue does not drop by itself.
shape()
{
    local words=''
    words+=${FAULT[loss]:+ loss ${FAULT[loss]}}
    words+=${FAULT[delay]:+ delay ${FAULT[delay]}}
    words+=${FAULT[rate]:+ rate ${FAULT[rate]}}
    # A rate stays when netem is changed without naming one.
    [ -n "${FAULT[rate]}" ] || printf 'tc qdisc del dev %q root 2>/dev/null || :\n' "$1"
    [ -z "$words" ] || printf 'tc qdisc replace dev %q root netem limit 4000%s\n' "$1" "$words"
}

run_shape()
{
    run_job "$1" "set -e; $2" || fail "$(node_name "$1"): tc failed on ${2//$'\n'/; }"
}

# apply_faults NODE: to all its NICs, after it has booted.
apply_faults()
{
    local of nic netdev device mac mtu mbps link side addresses lines
    lines=$(
        while read -r of nic netdev device mac mtu mbps link side addresses; do
            [ "$of" = "$1" ] || continue
            read_faults "$link"
            [ "$link" != 0 ] || FAULT[cable]=down
            plug "$1" "$nic" && shape "$netdev" || exit
        done <"$LAB/nics"
    ) || exit
    [[ $lines != *replace* ]] || run_shape "$1" "$lines"
}

# set_fault WHAT VALUE: checked, into FAULT.
set_fault()
{
    local pattern
    case $1 in
    loss) pattern='^([0-9]{1,2}(\.[0-9]+)?|100)%$' ;;
    delay) pattern='^[0-9]+(\.[0-9]+)?(us|ms|s)$' ;;
    rate) pattern='^[0-9]+(\.[0-9]+)?[kmg]?bit$' ;;
    esac
    if [[ $2 =~ ^0(\.0+)?[%a-z]*$ ]]; then
        FAULT[$1]=''
    elif [[ $2 =~ $pattern ]]; then
        FAULT[$1]=$2
    else
        case $1 in
        loss) die "loss \"$2\": expected percent, like 1%" ;;
        delay) die "delay \"$2\": expected a time, like 5ms" ;;
        rate) die "rate \"$2\": expected bits a second, like 40mbit" ;;
        esac
    fi
}

# each_end LINK COMMAND…: with the node, the NIC and its netdev behind, at either end whose node is up.
each_end()
{
    local link=$1 of nic netdev device mac mtu mbps at side addresses
    shift
    while read -r of nic netdev device mac mtu mbps at side addresses; do
        [ "$at" = "$link" ] && [ -n "$(qemu_pid "n$of")" ] || continue
        "$@" "$of" "$nic" "$netdev"
    done <"$LAB/nics"
}

shape_end()
{
    run_shape "$1" "$(shape "$3")"
}

cmd_link()
{
    local link shaped out='' began left
    [ $# -ge 2 ] || die "link: a link and what to do are expected; see ci/lab --help"
    need_lab
    link=$(number_of links "$1") || exit
    shift
    exec {LOCK}>"$LAB/links.lock"
    flock -w 60 "$LOCK" || fail "$LAB/links.lock is held by another; waited 60 s"
    read_faults "$link"
    shaped=${FAULT[loss]}${FAULT[delay]}${FAULT[rate]}
    while [ $# -gt 0 ]; do
        case $1 in
        up) FAULT[cable]='' ;;
        down)
            FAULT[cable]=down
            [[ ! ${2-} =~ ^([1-9][0-9]{0,2})s$ ]] || { out=${BASH_REMATCH[1]} && shift; }
            ;;
        clear) FAULT=([cable]='' [loss]='' [delay]='' [rate]='') ;;
        loss | delay | rate)
            set_fault "$1" "${2-}"
            shift
            ;;
        *) die "link: \"$1\"; expected up, down, loss, delay, rate or clear" ;;
        esac
        shift
    done
    shaped+=${FAULT[loss]}${FAULT[delay]}${FAULT[rate]}
    write_faults "$link"
    began=${EPOCHREALTIME/./}
    each_end "$link" plug
    [ -z "$shaped" ] || each_end "$link" shape_end
    [ -n "$out" ] || return 0
    left=$((began + out * 1000000 - ${EPOCHREALTIME/./}))
    [ "$left" -lt 0 ] || nap "$(printf '%d.%06d' $((left / 1000000)) $((left % 1000000)))"
    FAULT[cable]=''
    write_faults "$link"
    each_end "$link" plug
}

# The tables of status, tab between the fields.
node_rows()
{
    local node name hostname pid state
    while read -r node name hostname; do
        state=dead pid=$(qemu_pid "n$node")
        [ -z "$pid" ] || state=booting
        [ -z "$pid" ] || [ ! -e "$LAB/n$node/ready" ] || state=up
        printf '%s\t' "$name" "$hostname" "$state" "${pid:--}"
        printf '%s\n' "$MANAGEMENT.$node"
    done <"$LAB/nodes"
}

link_rows()
{
    local link name
    while IFS=$'\t' read -r link name; do
        read_faults "$link"
        printf '%s\t' "$name"
        for side in a b; do
            awk -F '\t' -v link="$link" -v side="$side" 'FNR == NR { name[$1] = $2; next }
                $8 == link && $9 == side { printf "%s\t%s\t%s\t", name[$1], $3, $4 }' \
                "$LAB/nodes" "$LAB/nics"
        done
        printf '%s\t%s\t%s\t%s\n' "${FAULT[cable]:-up}" "${FAULT[loss]:--}" "${FAULT[delay]:--}" \
            "${FAULT[rate]:--}"
    done <"$LAB/links"
}

# as_json KEY…: rows to a list of objects.
as_json()
{
    jq -Rn --args '[inputs | split("\t") | map(if . == "-" then null else . end) |
        [$ARGS.positional, .] | transpose | map({(.[0]): .[1]}) | add]' "$@"
}

cmd_status()
{
    [ $# -eq 0 ] || [ "$*" = --json ] || die "status: only --json is known"
    need_lab
    if [ $# -eq 1 ]; then
        jq -n --arg dir "$LAB" \
            --argjson nodes "$(node_rows | as_json node hostname state pid mgmt)" \
            --argjson links "$(link_rows | as_json link a a_netdev a_device b b_netdev b_device \
                cable loss delay rate)" \
            '{$dir, nodes: $nodes | map(.pid |= (tonumber? // null)), $links}'
    else
        { printf 'NODE\tHOST\tSTATE\tPID\tMGMT\n'; node_rows; } | column -ts $'\t'
        echo
        { printf 'LINK\tEND\tNETDEV\tRDMA\tEND\tNETDEV\tRDMA\tCABLE\tLOSS\tDELAY\tRATE\n'
          link_rows; } | column -ts $'\t'
    fi
}
