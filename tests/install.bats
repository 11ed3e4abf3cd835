#!/usr/bin/env bats
# cmake --install: what it puts somewhere is whole, and runs from there.

load helper

setup()
{
    export NO_COLOR=1 NCCL_SOCKET_IFNAME=lo
    unset MESHNET_CONFIG MESHNET_NODE LD_LIBRARY_PATH
    cd "$BATS_TEST_TMPDIR"
    cmake --install "$BUILD" --prefix "$PWD/root" >log || { cat log; return 1; }
    LIB=$(dirname "$(find root -name libnccl-net-mesh.so)")
}

@test "install: program, plugins, their other names and the manual are there" {
    find root | sort
    [ -x root/bin/meshnet ]
    for name in libnccl-net-mesh libnccl-net-mesh-coll libnccl-net-meshtrace; do
        [ -f "$LIB/$name.so" ]
    done
    for name in libnccl-net librccl-net librccl-net-mesh libnccl-tuner-mesh; do
        [ "$(readlink "$LIB/$name.so")" = libnccl-net-mesh.so ]
        [ -e "$LIB/$name.so" ]
    done
    for page in "$BATS_TEST_DIRNAME"/../docs/man/*.[1-9]; do
        cmp "$page" "root/share/man/man${page##*.}/${page##*/}"
    done
    for unit in "$BATS_TEST_DIRNAME"/../configs/systemd/meshnet-*; do
        [ "$(sed "s#@BINDIR@#$PWD/root/bin#" "$unit")" = "$(cat "root/lib/systemd/system/${unit##*/}")" ]
    done
    # Nothing else.
    [ "$(find root ! -type d | wc -l)" -eq $((8 + $(ls "$BATS_TEST_DIRNAME"/../{docs/man/*.[1-9],configs/systemd/*} | wc -l))) ]
}

@test "install: what is installed runs with what is installed" {
    root/bin/meshnet --version
    run --separate-stderr root/bin/meshnet verify-plugin --rule load,device --json
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(realpath "$(jq -r .library <<<"$output")")" = "$(realpath "$LIB/libnccl-net-mesh.so")" ]
    run root/bin/meshnet verify-plugin "$LIB/libnccl-net-mesh-coll.so" --rule load,collnet
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"pass"*"collnet."* ]]
    run --separate-stderr root/bin/meshnet bench --collective all-reduce --local 2 --sizes 8 --iters 3 --json
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq '[.collectives[].wrong] | add' <<<"$output")" -eq 0 ]
    [[ "$(root/bin/meshnet env)" == *"$(realpath "$LIB")"* ]]
    if [ -x /usr/bin/man ] && [ ! -e /usr/bin/man.REAL ]; then
        [ "$(MANPATH=$PWD/root/share/man man -w meshnet-bench)" = "$PWD/root/share/man/man1/meshnet-bench.1" ]
    fi
}
