#!/usr/bin/env bats
# meshnet topo emit: what is emitted is what stands in the golden files, and the programs that it is for
# take it: ip in a namespace, systemd-networkd in one too, netplan's generator, nmcli offline. The
# last three are unpacked by ci/validators where they are not installed.

load helper
load namespaces

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
    if [ -n "${SERVER:-}" ]; then
        kill "$SERVER" 2>/dev/null || true
    fi
    for node in "" -left -middle -right; do
        ip netns del $NS$node 2>/dev/null || true
    done
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
    for golden in "$FIXTURES"/*.{spark-a,strix,left,middle}; do
        mesh=mesh
        case $golden in *.left | *.middle) mesh=line ;; esac
        "$MESHNET" topo emit "$(basename "${golden%.*}")" --mesh "$FIXTURES/$mesh.yaml" \
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

@test "topo: systemd-networkd, systemd and sysctl take what transit needs" {
    find_program /lib/systemd/systemd-networkd /usr/lib/systemd/systemd-networkd
    for node in left middle; do
        run --separate-stderr "$MESHNET" topo emit networkd --mesh "$FIXTURES/line.yaml" --node $node -o $node
        [ "$status" -eq 0 ]
        [[ "$stderr" == *"networkctl reload && sysctl --system"* ]]
    done
    [ ! -e left/etc/meshnet ]
    [ -x middle/etc/meshnet/transit.sh ]
    # Whatever is in them, each line of sysctl.d is a setting or a comment.
    run grep -Evc '^(#.*|-net/ipv4/conf/[A-Za-z0-9]+/[a-z_]+ = [0-9])$' middle/etc/sysctl.d/60-meshnet.conf
    [ "$output" = 0 ]
    sh -n middle/etc/meshnet/transit.sh
    if command -v systemd-analyze; then
        mkdir -p root/etc/systemd/system
        sed 's,/bin/sh .*,/bin/true,' middle/etc/systemd/system/meshnet-transit.service >meshnet-transit.service
        run systemd-analyze verify --man=no ./meshnet-transit.service
        echo "$output"
        [[ "$output" != *meshnet-transit* ]]
    fi
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    line
    on left ip link set enp1s0f0np0 down
    on left ip link set enP2p1s0f0np0 down
    set_up_by_networkd left
}

# The three nodes of line.yaml in namespaces, cabled, without addresses.
line()
{
    local node
    for node in left middle right; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    wire left enp1s0f0np0 4c:bb:47:00:02:01 middle enp1s0f0np0 4c:bb:47:00:03:01
    wire left enP2p1s0f0np0 4c:bb:47:00:02:05 middle enP2p1s0f0np0 4c:bb:47:00:03:05
    wire middle enp1s0f1np1 4c:bb:47:00:03:02 right enp1s0f1np1 4c:bb:47:00:04:02
    wire middle enP2p1s0f1np1 4c:bb:47:00:03:06 right enP2p1s0f1np1 4c:bb:47:00:04:06
    ip -n $NS-middle link add enP7s7 type veth peer name office
}

# wire NODE NIC MAC NODE NIC MAC
wire()
{
    ip link add "$2" netns $NS-"$1" address "$3" type veth peer name "$5" netns $NS-"$4" address "$6"
    ip -n $NS-"$1" link set "$2" up
    ip -n $NS-"$4" link set "$5" up
}

# set_up_by_networkd NODE: by the files in the folder of its name, until it has the routes.
set_up_by_networkd()
{
    cat >run.sh <<-END
	mount -t tmpfs tmpfs /run
	mkdir -p /run/systemd/netif /run/systemd/network /etc/systemd/network
	mount --bind $PWD/$1/etc/systemd/network /etc/systemd/network
	mount -t sysfs -o ro sysfs /sys
	getent passwd systemd-network >/dev/null || exit 77
	chown -R systemd-network:systemd-network /run/systemd/netif
	exec timeout 60 $(with_libraries "$PROGRAM")
	END
    unshare -m nsenter --net=/run/netns/$NS-"$1" bash ./run.sh >log 2>&1 3>&- &
    server=$!
    for _ in $(seq 300); do
        ! left_has_routes || break
        kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    kill $server 2>/dev/null || true
    wait $server || [ $? -ne 77 ] || skip "there is no user systemd-network"
    cat log
    left_has_routes
}

left_has_routes()
{
    ip -n $NS-left -j route | jq -e '[.[] | select(.gateway) | "\(.dst) \(.gateway) \(.dev)"] | sort == [
        "10.66.1.0/31 10.66.0.1 enp1s0f0np0", "10.66.1.2/31 10.66.0.3 enP2p1s0f0np0"]' >/dev/null &&
        ip -n $NS-left -6 -j route show fd66:0:0:1::/127 |
        jq -e '[.[] | .gateway] == ["fd66::1"]' >/dev/null
}

# reach ADDRESS: from left to the server on right.
reach()
{
    on left timeout 5 bash -c "exec 3<>/dev/tcp/$1/47611"
}

# The address from which left asks is that of the first half.
all_reach()
{
    for to in 10.66.1.1 10.66.1.3 fd66:0:0:1::1; do
        reach $to
    done
}

@test "topo: nodes without a cable to each other speak through the one between, also past Docker's rules" {
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    line
    for node in left middle right; do
        # Where the distribution is strict.
        on $node sysctl -qw net.ipv4.conf.all.rp_filter=1
        "$MESHNET" topo emit iproute2 --mesh "$FIXTURES/line.yaml" --node $node >$node.sh
        for _ in 1 2; do
            on $node sh ./$node.sh
        done
    done
    left_has_routes
    [ "$(on middle sysctl -n net.ipv6.conf.enP7s7.accept_ra)" = 2 ]
    [ "$(on middle sysctl -n net.ipv4.conf.enP7s7.forwarding)" = 0 ]
    # IPv6 addresses can be used when nobody has answered for them.
    for node in left middle right; do
        for _ in $(seq 300); do
            [ -n "$(ip -n $NS-$node -6 addr show tentative)" ] || break
            sleep 0.1
        done
    done
    echo 00112233445566778899aabbccddeeff >token
    chmod 600 token
    MESHNET_NODE=right serve right --listen 10.66.1.1,10.66.1.3,fd66:0:0:1::1 --port 47611
    all_reach
    on middle nft list table inet meshnet | grep -E 'counter packets [1-9]'

    find_program /usr/sbin/xtables-nft-multi
    mkdir bin
    for tool in iptables ip6tables; do
        printf '#!/bin/sh\nexec %s %s "$@"\n' "$(with_libraries XTABLES_LIBDIR="$(echo "$REAL"/usr/lib/*/xtables)" "$PROGRAM")" $tool >bin/$tool
        chmod +x bin/$tool
    done
    [ -d "$(echo "$REAL"/usr/lib/*/xtables)" ] || rm -r bin
    PATH=$PWD/bin:$PATH
    tools() { on middle iptables -w "$@" && on middle ip6tables -w "$@"; }
    tools -P FORWARD DROP
    for to in 10.66.1.1 10.66.1.3 fd66:0:0:1::1; do
        run reach $to
        [ "$status" -ne 0 ]
    done
    # Without Docker, as ufw has it; then with it.
    on middle sh ./middle.sh
    all_reach
    tools -N DOCKER-USER
    tools -I FORWARD -j DOCKER-USER
    for _ in 1 2; do
        on middle sh ./middle.sh
        all_reach
    done
    [ "$(on middle iptables -S | grep -c -- '-j MESHNET$')" -eq 1 ]
    on middle iptables -S DOCKER-USER | grep -x -- '-A DOCKER-USER -j MESHNET'
    "$MESHNET" topo emit networkd --mesh "$FIXTURES/line.yaml" --node middle -o out
    on middle sh out/etc/meshnet/transit.sh remove
    run on middle iptables -S
    [[ "$output" != *MESHNET* ]]
    run on middle nft list table inet meshnet
    [ "$status" -ne 0 ]
    run reach 10.66.1.1
    [ "$status" -ne 0 ]
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
    rm -rf out
    "$MESHNET" topo emit netplan --mesh "$FIXTURES/line.yaml" --node left -o out
    run $(with_libraries "$PROGRAM") --root-dir out
    [ -z "$output" ]
    cat out/run/systemd/network/*.network >made
    grep -qx 'Destination=10.66.1.2/31' made
    grep -qx 'Gateway=10.66.0.3' made
    grep -qx 'Gateway=fd66::1' made
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

    # What it has no profile for goes into files: here below a folder.
    "$MESHNET" topo emit nmcli --mesh "$FIXTURES/line.yaml" --node middle |
        sed "s,/etc/,$PWD/root/etc/,g; s/^sysctl --system.*/true/" >middle.sh
    "$MESHNET" topo emit nmcli --mesh "$FIXTURES/line.yaml" --node left |
        sed "s,/etc/,$PWD/left/etc/,g; s/^sysctl --system.*/true/" >left.sh
    PATH=$PWD/bin:$PATH run sh ./left.sh
    [ "$status" -eq 0 ]
    grep -q '^route1=10.66.1.0/31,10.66.0.1$' <<<"$output"
    grep -q '^route1=fd66:0:0:1::/127,fd66::1$' <<<"$output"
    PATH=$PWD/bin:$PATH run sh ./middle.sh
    [ "$status" -eq 0 ]
    [ -x root/etc/meshnet/transit.sh ]
    sh -n root/etc/meshnet/transit.sh
    [ "$(stat -c %a root/etc/systemd/system/meshnet-transit.service)" = 644 ]
    grep -q forwarding root/etc/sysctl.d/60-meshnet.conf
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

@test "topo: the script for what passes leaves out programs whose part of the kernel is missing" {
    "$MESHNET" topo emit networkd --mesh "$FIXTURES/line.yaml" --node middle -o out
    mkdir bin
    printf '#!/bin/sh\necho "$0 $*" >>%s/ran\nexit 3\n' "$PWD" | tee bin/iptables bin/ip6tables bin/nft >bin/sysctl
    printf '#!/bin/sh\ncase "$*" in *"-D "*) exit 1 ;; esac\necho "$0 $*" >>%s/ran\n' "$PWD" | tee bin/ip6tables >bin/sysctl
    chmod +x bin/*
    # What the kernel has of this machine stays out of it.
    sed -i 's,/proc/sys,proc,' out/etc/meshnet/transit.sh
    PATH=$PWD/bin:$PATH sh out/etc/meshnet/transit.sh
    cat ran
    run ! grep -E 'bin/(nft -f|iptables .*-[NAI])' ran
    grep -q 'bin/ip6tables -w -N MESHNET' ran
    grep -q 'bin/sysctl -qw net/ipv6/conf/all/forwarding=1' ran
}
