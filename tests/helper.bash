# Loaded by the shell tests: what is tested is the release preset, or what MESHNET_BUILD names.
bats_require_minimum_version 1.5.0

BUILD=${MESHNET_BUILD:-$(cd "$BATS_TEST_DIRNAME/.." && pwd)/build/release}
MESHNET=$BUILD/bin/meshnet
PLUGIN=$BUILD/lib/libnccl-net-mesh.so

# A port that nobody listens at: files run beside each other, and not all in a namespace of their own.
free_port()
{
    local port
    while port=$((20000 + RANDOM % 10000)); ss -Hltn "sport = :$port" | grep -q .; do
        :
    done
    echo "$port"
}
