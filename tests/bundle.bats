#!/usr/bin/env bats
# ci/bundle, and what it packs where there is nothing but libc, or other versions of what it took in.

load helper

JUDGE=$BUILD/tests/judge
TOP=$BATS_TEST_DIRNAME/..

setup_file()
{
    export NO_COLOR=1 NCCL_SOCKET_IFNAME=lo
    unset LD_LIBRARY_PATH LD_PRELOAD MESHNET_CONFIG MESHNET_NODE
    cd "$BATS_FILE_TMPDIR"
    # What compilers of distributions newer than the one bundles are made on take from glibc is new too.
    local newest=()
    grep -qx 'VERSION_ID="12"' /etc/os-release ||
        newest=(--glibc "$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)")
    "$TOP/ci/bundle" --from "$BUILD" --output first "${newest[@]}"
    "$TOP/ci/bundle" --from "$BUILD" --output second "${newest[@]}"
    mkdir root
    tar -xzf first/meshnet-plugin-*.tar.gz -C root
    mv root/meshnet-plugin-* root/bundle
}

teardown()
{
    rm -f ${FABRIC:+"$FABRIC"}
}

setup()
{
    cd "$BATS_FILE_TMPDIR"
}

# double LIBRARY.so: one with its name in which every function kills whoever calls it.
double()
{
    local real soname
    real=$(cc -print-file-name="$1")
    soname=$(readelf -dW "$real" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    {
        echo 'void abort(void);'
        nm -D --defined-only "$real" | sed -n 's/.* [TW] \([^@]*\).*/void \1(void) { abort(); }/p'
    } | cc -w -x c -shared -fPIC -Wl,-soname,"$soname" -o "$soname" -
    echo "$PWD/$soname"
}

families()
{
    local rules=load,connect,transfer
    run --separate-stderr "$@" --rule $rules bundle/libnccl-net-mesh.so
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
    [[ "$output" == *" 0 failed, 0 warned, "* ]]
    [ "$(grep -c '^pass ' <<<"$output")" -ge 35 ]
}

@test "bundle: the same bytes each time, with aliases, licences and how to use it" {
    cmp first/meshnet-plugin-*.tar.gz second/meshnet-plugin-*.tar.gz
    for alias in libnccl-net librccl-net librccl-net-mesh libnccl-tuner-mesh; do
        [ "$(readlink root/bundle/$alias.so)" = libnccl-net-mesh.so ]
    done
    [ -s root/bundle/libnccl-net-mesh-coll.so ]
    [ -s root/bundle/libnccl-net-meshtrace.so ]
    grep -q 'GNU LESSER GENERAL PUBLIC LICENSE' root/bundle/licenses/LGPL-2.1
    grep -q "NCCL_NET_PLUGIN=/PATH/meshnet-plugin-.*/libnccl-net-mesh.so" root/bundle/README
    [[ "$(tar -tvzf first/meshnet-plugin-*.tar.gz)" != *"$(id -un)"* ]] || [ "$(id -un)" = root ]
}

@test "bundle: a plugin for a newer glibc, or that needs more than libc, is not packed" {
    run "$TOP/ci/bundle" --from "$BUILD" --output third --glibc 2.30
    [ "$status" -eq 2 ]
    [[ "$output" == *"needs glibc 2.3"*" for "*" of meshnet, and is to run on 2.30"* ]]
    [ ! -e third ]
    mkdir -p more/lib
    cp "$BUILD/CMakeCache.txt" more/
    echo 'int f(void) { return 0; }' | cc -x c -shared -fPIC -Wl,-soname,libextra.so.7 -o libextra.so -
    echo 'int f(void); int g(void) { return f(); }' |
        cc -x c -shared -fPIC -o more/lib/libnccl-net-mesh.so - -x none ./libextra.so
    run "$TOP/ci/bundle" --from "$PWD/more" --output "$PWD/third"
    [ "$status" -eq 2 ]
    [[ "$output" == *"libnccl-net-mesh.so needs libextra.so.7 beside libc"* ]]
    [ ! -e third ]
}

@test "bundle: it loads, connects and transfers where there is only libc" {
    [ "$(id -u)" -eq 0 ] || skip "another root needs root"
    local file
    while read -r file; do
        [ -e "$file" ] || continue
        mkdir -p "root${file%/*}"
        cp -L "$file" "root$file"
    done < <(dpkg -L libc6 | grep -E '^(/usr)?/lib.*\.so(\.|$)')
    # Where the program says that its loader is.
    file=$(readelf -lW "$JUDGE" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
    mkdir -p "root${file%/*}" root/proc root/dev root/judge
    [ -e "root$file" ] || cp -L "$file" "root$file"
    cp "$JUDGE" "$MESHNET" "$(ldd "$JUDGE" | awk '/libcjson/ { print $3 }')" root/judge/
    inside()
    {
        unshare --mount --pid --fork --kill-child sh -c '
            mount -t proc proc root/proc && mount --rbind /dev root/dev || exit 1
            export LD_LIBRARY_PATH=/judge
            exec timeout 60 chroot root "$@"' inside "$@"
    }
    # It is as bare as it should be.
    run -127 inside /judge/meshnet --version
    [[ "$output" == *"libnl"*"cannot open shared object file"* ]]
    families inside /judge/judge --
    for file in bundle/libnccl-net-mesh-coll.so bundle/libnccl-net-meshtrace.so; do
        run inside /judge/judge -- --rule load.open $file
        echo "$output"
        [ "$status" -eq 0 ]
    done
}

@test "bundle: an application with other versions of what was taken in keeps them to itself" {
    local preload file doubles=()
    cd root
    for file in libnl-3 libnl-route-3 libyaml libsodium; do
        doubles+=("$(double $file.so)")
    done
    preload=$(IFS=:; echo "${doubles[*]}")
    # They would be deadly.
    run env LD_PRELOAD="$preload" "$MESHNET" discover
    [ "$status" -ge 126 ]
    # libibverbs is the host's, with the libnl that it finds: a double that needs none.
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs
    new_fabric
    export FAKEVERBS=strict=0,shm=$FABRIC
    # Linked with the application, then opened by it.
    families env LD_PRELOAD="$preload" "$JUDGE" --
    families "$JUDGE" "${doubles[@]}" --
}
