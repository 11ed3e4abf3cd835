# For ci/gpu-check, which sources this and ring.sh: two ranks with two cables between them, of which one
# is pulled and put back, then the other, while they compute; beside it the same over NCCL's own sockets.

# cable_up: nodes a and b, and their mesh file.
cable_up()
{
    ring_nodes a b || return
    ring_cable a x0 10.217.1.0/31 b x0 10.217.1.1/31 &&
        ring_cable a x1 10.217.2.0/31 b x1 10.217.2.1/31 &&
        ring_management || return 1
    cat >"$WORK/mesh.yaml" <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: x0, addresses: [10.217.1.0/31]}
	      - {netdev: x1, addresses: [10.217.2.0/31]}
	      - {netdev: mgmt, addresses: [10.217.9.1/24], role: management}
	  - name: b
	    nics:
	      - {netdev: x0, addresses: [10.217.1.1/31]}
	      - {netdev: x1, addresses: [10.217.2.1/31]}
	      - {netdev: mgmt, addresses: [10.217.9.2/24], role: management}
	END
}

# cable_pull NAME OUT: once that run has begun, as ranks.py's "cable" counts: x0 is out in the second
# fifth of the time, x1 in the fourth.
cable_pull()
{
    local nic state i
    for ((i = 0; i < 1200; i++)); do
        [ ! -e "$WORK/$1.begun" ] || break
        sleep 0.1
    done
    [ $i -lt 1200 ] || return
    for nic in x0 x1; do
        for state in down up; do
            sleep "$2"
            # The end of a veth that is taken down keeps its addresses, and its peer loses the carrier.
            ip -n "$RING_NS-a" link set $nic $state
        done
    done
}

# cable_run NAME OUT VARIABLES: 0 when all was right.
cable_run()
{
    local name=$1 out=$2 puller code nic
    cable_pull "$name" "$out" &
    puller=$!
    ring_ranks "$name" $((5 * out + 120)) "$3" cable $((5 * out))
    code=$?
    kill $puller 2>/dev/null
    wait $puller 2>/dev/null
    for nic in x0 x1; do
        ip -n "$RING_NS-a" link set $nic up
    done
    return $code
}

# cable OUT: 0 when over the plugin nothing was wrong or failed.
cable()
{
    local out=$1 bad=0
    say "two cables, one after the other pulled for $out s: the plugin, then NCCL's sockets"
    cable_up 2>"$WORK/ring.up"
    ring_made $? || return
    cable_run plugin "$out" env && [ -s "$WORK/plugin" ] || bad=1
    ring_used plugin || bad=1
    # What becomes of NCCL's own is shown, and no verdict.
    cable_run sockets "$out" "NCCL_DEBUG=INFO NCCL_NET=Socket NCCL_NET_PLUGIN=none
        NCCL_SOCKET_IFNAME==x0,x1 NCCL_OOB_NET_IFNAME==mgmt" || ring_tell sockets
    python3 "$RANK" pulled "$WORK/plugin" "$WORK/sockets"
    [ $bad -eq 0 ] || ring_tell plugin
    grep -hoE 'peer b, link .*: (out|is back).*' "$WORK/plugin.log.0" | cut -c 1-200
    ring_down
    return $bad
}
