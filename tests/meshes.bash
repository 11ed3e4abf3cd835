# Mesh files that tests draw up.

# mesh_of FILE NODES PAIR…: nodes n0, n1, … on hosts host0, … and a cable between the numbers of each
# pair, "0-2", of 10 Gb/s. MESH_MORE[i]: more NICs of node i.
mesh_of()
{
    local file=$1 n=$2 i pair net=0 list
    declare -A nics
    shift 2
    for pair; do
        net=$((net + 1))
        nics[${pair%-*}]+="{netdev: e$net, speed: 10000, addresses: [10.$((net / 250)).$((net % 250)).1/30]},"
        nics[${pair#*-}]+="{netdev: e$net, speed: 10000, addresses: [10.$((net / 250)).$((net % 250)).2/30]},"
    done
    {
        echo "version: 1"
        echo "nodes:"
        for ((i = 0; i < n; i++)); do
            list=${nics[$i]}${MESH_MORE[$i]}
            echo "  - {name: n$i, hostname: host$i, nics: [${list%,}]}"
        done
    } >"$file"
}
