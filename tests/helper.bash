# Loaded by the shell tests: what is tested is the release preset, or what MESHNET_BUILD names.
bats_require_minimum_version 1.5.0

BUILD=${MESHNET_BUILD:-$(cd "$BATS_TEST_DIRNAME/.." && pwd)/build/release}
MESHNET=$BUILD/bin/meshnet
PLUGIN=$BUILD/lib/libnccl-net-mesh.so
# The distribution's programs: others of these names may be scripts that take a second to begin.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
# Files run beside each other.
export DRIVER_NAP=200 STREAM_PACE=1000

# joined PID…: ranks of bench; waits until each has come to the others: the plugin is loaded then.
joined()
{
    local pid
    for pid in "${@:-none}"; do
        for _ in $(seq 300); do
            ! grep -qs libnccl-net-mesh "/proc/$pid/maps" || continue 2
            sleep 0.1
        done
        return 1
    done
}

# no COMMAND…: that it fails. "! COMMAND" alone is passed over by errexit: nothing comes of it.
no()
{
    ! "$@"
}

# A port that nobody listens at: files run beside each other, and not all in a namespace of their own.
free_port()
{
    local port
    while port=$((20000 + RANDOM % 10000)); ss -Hltn "sport = :$port" | grep -q .; do
        :
    done
    echo "$port"
}

# new_fabric: a path for the double's fabric, into FABRIC: on a disk its fresh pages take longer than all
# that runs on it.
new_fabric()
{
    FABRIC=$(mktemp -u -p /dev/shm "fabric-$$-XXXXXX")
}

# start_server OUT ERR COMMAND…: in the background, its process in SERVER; returns when it says that it
# listens. Both files are emptied first: the line of a server before it would be taken for this one's.
start_server()
{
    local out=$1 err=$2
    shift 2
    : >"$out"
    : >"$err"
    "$@" >>"$out" 2>>"$err" 3>&- &
    SERVER=$!
    for _ in $(seq 300); do
        ! grep -q "^listening" "$out" || return 0
        kill -0 "$SERVER" 2>/dev/null || break
        sleep 0.1
    done
    cat "$out" "$err"
    return 1
}

# rounds_pass COUNT OUT…: until the rank of tests/drivers/rounds that writes the first OUT has done so
# many more. It fails, and shows their logs, when one of them says that something failed or came wrong.
rounds_pass()
{
    local done to more=$1
    shift
    for _ in $(seq 600); do
        done=$(awk '/^rounds/ { n = $2 } END { print n + 0 }' "$1")
        to=${to-$((done + more))}
        [ "$done" -lt "$to" ] || return 0
        ! grep -q '^failed\|^wrong' "$@" || break
        sleep 0.1
    done
    tail -n 3 "$@"
    cat ./*log*
    return 1
}
