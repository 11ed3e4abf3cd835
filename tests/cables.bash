# Two nodes a and b as namespaces with several cables, which can be pulled and silenced one by one, for
# what loads this after namespaces.bash and relay.bash: over TCP, or RDMA on the double of libibverbs.
# Cable I is mesh$I at both ends, its subnet 10.66.$I.0/30.

# cables_up tcp|rdma CABLES
cables_up()
{
    local i node at
    CABLES=$2 CABLE_KIND=$1
    printf "netns add $NS-%s\n" a b | ip -batch - || return
    ip -n $NS-a link set lo up
    ip -n $NS-b link set lo up
    for ((i = 0; i < CABLES; i++)); do
        cable a mesh$i 10.66.$i.1/30 b mesh$i 10.66.$i.2/30 || return
    done
    rm -f pulled muted fabric
    : >names.pulled
    : >names.muted
    for node in a b; do
        at=1
        [ $node = a ] || at=2
        FABRIC[$node]="shm=$PWD/fabric,pulled=$PWD/pulled,muted=$PWD/muted"
        for ((i = 0; i < CABLES; i++)); do
            FABRIC[$node]+=",dev=roce$i:mesh$i:10.66.$i.$at"
        done
    done
}
declare -gA FABRIC=() # in a function as well: bats loads files in one

cables_end()
{
    local i
    for ((i = 0; i < ${CABLES-0}; i++)); do
        ip -n $NS-a link del mesh$i 2>/dev/null
    done
    ip netns del $NS-a 2>/dev/null
    ip netns del $NS-b 2>/dev/null
    rm -f fabric
}

# of_node NODE COMMAND…: what traffic runs its ends by.
of_node()
{
    local node=$1
    shift
    if [ $CABLE_KIND = rdma ]; then
        exec nsenter --net=/run/netns/$NS-$node env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" \
            FAKEVERBS="${FABRIC[$node]}" MESHNET_ALLOW_TCP=false "$@"
    else
        exec nsenter --net=/run/netns/$NS-$node env MESHNET_TRANSPORT=tcp "$@"
    fi
}

# told FILE: the names in it are for the double, from now on.
told()
{
    if [ -s names.$1 ]; then
        cp names.$1 $1.new && mv $1.new $1
    else
        rm -f $1
    fi
}

pull()
{
    ip -n $NS-a link set mesh$1 down
    echo roce$1 >>names.pulled
    told pulled
}

plug()
{
    ip -n $NS-a link set mesh$1 up
    sed -i "/^roce$1\$/d" names.pulled
    told pulled
}

# silence CABLE: all that comes at either end is lost, the carrier stays.
silence()
{
    lossy a mesh$1 100
    lossy b mesh$1 100
    echo roce$1 >>names.muted
    told muted
}

sound()
{
    local node
    for node in a b; do
        tc -n $NS-$node qdisc del dev mesh$1 root 2>/dev/null || on $node nft delete chain netdev lossy mesh$1
    done
    sed -i "/^roce$1\$/d" names.muted
    told muted
}
