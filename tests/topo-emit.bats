#!/usr/bin/env bats
# meshnet topo emit: what is emitted is what stands in the golden files, and the programs that it is for
# take it: ip in a namespace, systemd-networkd in one too, netplan's generator, nmcli offline. The
# last three are unpacked by ci/validators where they are not installed.

load helper

setup()
{
    FIXTURES=$BATS_TEST_DIRNAME/fixtures/emit
    REAL=$BATS_TEST_DIRNAME/../build/validators
    NS=mnt$$
    export NO_COLOR=1
    unset MESHNET_CONFIG MESHNET_NODE
    cd "$BATS_TEST_TMPDIR"
}

teardown()
{
    ip netns del $NS 2>/dev/null || true
}

emit()
{
    run --separate-stderr "$MESHNET" topo emit "$1" --mesh "$FIXTURES/mesh.yaml" --node "$2" "${@:3}"
    echo "$output"
    echo "$stderr"
}

# find_program PATH…: the first of these that is unpacked or installed, into $PROGRAM.
find_program()
{
    local path
    for path in "${@/#/$REAL}" "$@"; do
        if [ -x "$path" ] && [ ! -L "$path" ]; then
            PROGRAM=$path
            return
        fi
    done
    skip "not here: $1; see ci/validators"
}

# A command with the libraries that were unpacked beside it.
with_libraries()
{
    local folders
    folders=$(echo "$REAL"/usr/lib/*-linux-gnu "$REAL"/lib/*-linux-gnu \
        "$REAL"/usr/lib/*-linux-gnu/systemd "$REAL"/lib/systemd | tr ' ' :)
    echo env LD_LIBRARY_PATH="$folders" "$@"
}

# The two NICs of spark-a in a namespace, and how they are set up there.
spark()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    ip netns add $NS
    ip -n $NS link add enp1s0f0np0 address 4c:bb:47:00:00:01 type veth peer name far0
    ip -n $NS link add enP2p1s0f0np0 address 4c:bb:47:00:00:05 type veth peer name far1
    ip -n $NS link set far0 up
    ip -n $NS link set far1 up
}

spark_is()
{
    ip -n $NS -j addr show dev enp1s0f0np0 >first
    ip -n $NS -j addr show dev enP2p1s0f0np0 >second
    jq -e '.[0].mtu == 9000 and ([.[0].addr_info[] | select(.scope == "global") |
        "\(.local)/\(.prefixlen)"] == ["10.66.0.0/31", "fd66::1/127"])' first &&
        jq -e '.[0].mtu == 9000 and ([.[0].addr_info[] | select(.scope == "global") |
        "\(.local)/\(.prefixlen)"] == ["10.66.0.2/31"])' second
}

@test "topo: every format is as its golden files have it" {
    formats=$("$MESHNET" topo emit --help | sed -n '/^Formats:/,/^Example/s/^  \([a-z0-9]*\) .*/\1/p')
    [ "$(wc -w <<<"$formats")" -ge 6 ]
    for format in $formats; do
        ls "$FIXTURES/$format".*
    done
    for golden in "$FIXTURES"/*.{spark-a,strix}; do
        "$MESHNET" topo emit "$(basename "${golden%.*}")" --mesh "$FIXTURES/mesh.yaml" \
            --node "${golden##*.}" >got
        diff "$golden" got
    done
}

@test "topo: files go to their places below a folder, with their modes, and again" {
    for _ in 1 2; do
        emit networkd spark-a -o out
        [ "$status" -eq 0 ]
        [ "${lines[0]}" = out/etc/systemd/network/60-meshnet-enp1s0f0np0.network ]
        [[ "$stderr" == *"networkctl reload"* ]]
        emit netplan spark-a -o out
        [ "$(stat -c %a out/etc/netplan/60-meshnet.yaml)" = 600 ]
        diff "$FIXTURES/netplan.spark-a" out/etc/netplan/60-meshnet.yaml
        emit iproute2 spark-a -o out
        [ "$(stat -c %a out/meshnet-ip.sh)" = 755 ]
    done
    [ "$(find out -type f | wc -l)" -eq 4 ]
    touch file
    emit netplan spark-a -o file
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"file"* ]]
}

@test "topo: wrong words, an unknown node, a node without addresses, no mesh file" {
    for words in "" "netplan json"; do
        # shellcheck disable=SC2086
        run --separate-stderr "$MESHNET" topo emit $words
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"expected a format"* ]]
    done
    emit ifupdown spark-a
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"ifupdown: expected one of netplan, networkd"* ]]
    emit netplan spark-z
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--node spark-z: expected one of spark-a, spark-b, strix, bare"* ]]
    emit netplan bare
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"node bare has no NIC with an address"* ]]
    HOME=$PWD XDG_CONFIG_HOME=$PWD run --separate-stderr "$MESHNET" topo emit netplan --node a
    [ "$status" -eq 2 ] || [ -e /etc/meshnet/mesh.yaml ]
}

@test "topo: the names of NICs cannot carry commands into scripts" {
    sed "s/\"on\"/\"a';id;'\"/" "$FIXTURES/mesh.yaml" >evil.yaml
    for format in netplan networkd nmcli iproute2; do
        run --separate-stderr "$MESHNET" topo emit $format --mesh evil.yaml --node strix
        [ "$status" -eq 2 ]
        [ -z "$output" ]
        [[ "$stderr" == *"netdev \"a';id;'\": expected letters, digits"* ]]
    done
}

@test "topo: the script of iproute2 sets a node up, also when it is set up already" {
    spark
    emit iproute2 spark-a -o .
    for _ in 1 2; do
        ip netns exec $NS sh ./meshnet-ip.sh
        spark_is
    done
}

@test "topo: systemd-networkd sets a node up by the files" {
    find_program /lib/systemd/systemd-networkd /usr/lib/systemd/systemd-networkd
    spark
    emit networkd spark-a -o out
    # Its own /run and configuration; /sys read-only, so that it does not wait for udev.
    cat >run.sh <<-END
	mount -t tmpfs tmpfs /run
	mkdir -p /run/systemd/netif /run/systemd/network /etc/systemd/network
	mount --bind $PWD/out/etc/systemd/network /etc/systemd/network
	mount -t sysfs -o ro sysfs /sys
	getent passwd systemd-network >/dev/null || exit 77
	chown -R systemd-network:systemd-network /run/systemd/netif
	exec timeout 60 $(with_libraries "$PROGRAM")
	END
    unshare -m nsenter --net=/run/netns/$NS bash ./run.sh >log 2>&1 3>&- &
    server=$!
    for _ in $(seq 300); do
        ! spark_is >/dev/null || break
        kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    kill $server 2>/dev/null || true
    wait $server || [ $? -ne 77 ] || skip "there is no user systemd-network"
    cat log
    spark_is
}

@test "topo: netplan takes the file, and makes of it what was meant" {
    find_program /usr/libexec/netplan/generate /usr/lib/netplan/generate /lib/netplan/generate
    for node in spark-a strix; do
        rm -rf out
        emit netplan $node -o out
        run $(with_libraries "$PROGRAM") --root-dir out
        echo "$output"
        [ "$status" -eq 0 ]
        [ -z "$output" ]
        cat out/run/systemd/network/*.network >made
    done
    grep -q '^Name=on$' made
    grep -q '^Address=fd66:9::1/64$' made
}

@test "topo: nmcli takes the script" {
    find_program /usr/bin/nmcli
    mkdir bin
    # Offline it makes the profile and prints it; what deletes and brings up has nobody to ask.
    printf '#!/bin/sh\n[ "$2" = add ] || exit 0\nexec %s --offline "$@"\n' "$(with_libraries "$PROGRAM")" >bin/nmcli
    chmod +x bin/nmcli
    emit nmcli spark-a -o .
    PATH=$PWD/bin:$PATH run sh ./meshnet-nmcli.sh
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^mtu=9000$' <<<"$output")" -eq 2 ]
    grep -q '^address1=10.66.0.0/31$' <<<"$output"
    grep -q '^address1=fd66::1/127$' <<<"$output"
    grep -qi '^mac-address=4c:bb:47:00:00:05$' <<<"$output"
}

@test "topo: NetworkManager reads the keyfiles, and finds in them what was meant" {
    find_program /usr/bin/nmcli
    emit keyfile spark-a -o out
    file=out/etc/NetworkManager/system-connections/meshnet-enp1s0f0np0.nmconnection
    [ "$(stat -c %a "$file")" = 600 ]
    run $(with_libraries "$PROGRAM") --offline connection modify connection.autoconnect no <"$file"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^mtu=9000$' <<<"$output"
    grep -q '^address1=10.66.0.0/31$' <<<"$output"
    grep -q '^address1=fd66::1/127$' <<<"$output"
    grep -qi '^mac-address=4c:bb:47:00:00:01$' <<<"$output"
}
