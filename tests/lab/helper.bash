# Loaded by the tests that boot virtual machines; they are run as "bats tests/lab". A file boots its
# lab once, in setup_file, with lab_up, and ends it in teardown_file with lab_down.
bats_require_minimum_version 1.5.0

TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
BUILD=${MESHNET_BUILD:-$TOP/build/release}
MESHNET=$BUILD/bin/meshnet
PLUGIN=$BUILD/lib/libnccl-net-mesh.so

# lab_up FILE: the machines of that mesh file; skips where they cannot be.
lab_up()
{
    [ "$(uname -m)" = x86_64 ] || skip "the lab is for x86-64 hosts"
    command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"
    LAB_DIR=$(mktemp -u /tmp/mnlab.XXXXXX)
    export LAB_DIR LAB_TTL=${LAB_TTL:-900}
    "$TOP/ci/lab" up "$1" 3>&-
}

lab_down()
{
    [ -z "${LAB_DIR-}" ] || "$TOP/ci/lab" down
}

lab()
{
    "$TOP/ci/lab" "$@"
}

# on NODE CMD…: there, in this directory.
on()
{
    lab exec "$@"
}

# start_on NODE CMD…: the same in the background; JOB is its process, which "kill" ends together
# with the command in the node.
start_on()
{
    "$TOP/ci/lab" exec "$@" 3>&- &
    JOB=$!
}
