# Loaded by the shell tests: what is tested is the release preset, or what MESHNET_BUILD names.
bats_require_minimum_version 1.5.0

BUILD=${MESHNET_BUILD:-$(cd "$BATS_TEST_DIRNAME/.." && pwd)/build/release}
MESHNET=$BUILD/bin/meshnet
PLUGIN=$BUILD/lib/libnccl-net-mesh.so
