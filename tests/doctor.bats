#!/usr/bin/env bats
# meshnet doctor: a ring of four nodes in namespaces, healthy and with one fault after the other; what
# needs hardware is a fault in the recorded answers of that ring.

load helper
load namespaces

# ring: the nodes, their mesh file, and an ssh that finds them.
ring()
{
    local node
    for node in a b c d; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    cable a ab 10.31.1.1/30 b ba 10.31.1.2/30
    cable b bc 10.31.2.1/30 c cb 10.31.2.2/30
    cable c cd 10.31.3.1/30 d dc 10.31.3.2/30
    cable d da 10.31.4.1/30 a ax 10.31.4.2/30
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics: [{netdev: ab, addresses: [10.31.1.1/30]}, {netdev: ax, addresses: [10.31.4.2/30]}]
	  - name: b
	    nics: [{netdev: ba, addresses: [10.31.1.2/30]}, {netdev: bc, addresses: [10.31.2.1/30]}]
	  - name: c
	    nics: [{netdev: cb, addresses: [10.31.2.2/30]}, {netdev: cd, addresses: [10.31.3.1/30]}]
	  - name: d
	    nics: [{netdev: dc, addresses: [10.31.3.2/30]}, {netdev: da, addresses: [10.31.4.1/30]}]
	END
    mkdir empty
    for node in a b c d; do
        cp mesh.yaml $node.yaml
        echo 127.0.1.1 $node >>hosts
    done
    # Each node has a file of its own, and neither NCCL's libraries nor settings of this host.
    cat >ssh <<-END
	#!/bin/sh
	while [ "\$1" != -- ]; do shift; done
	[ ! -e $PWD/\$2.gone ] || { echo "ssh: connect to host \$2 port 22: No route to host" >&2; exit 255; }
	exec nsenter --net=/run/netns/$NS-\$2 env HOME=$PWD/empty MESHNET_NODE=\$2 \\
	    MESHNET_CONFIG=$PWD/\$2.yaml sh -c "\$3"
	END
    chmod +x ssh
}

setup_file()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    export NS=mnd$$ NO_COLOR=1 HOME=$BATS_FILE_TMPDIR/empty MESHNET_SSH=$BATS_FILE_TMPDIR/ssh
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN LD_LIBRARY_PATH VIRTUAL_ENV CONDA_PREFIX "${!NCCL_@}"
    cd "$BATS_FILE_TMPDIR"
    ring
    on a env MESHNET_NODE=a timeout 60 "$MESHNET" doctor --mesh a.yaml --no-write --save live >live.out
    # As on hardware: speeds, PCIe, firmware, RDMA and one NCCL, and every cable was written over.
    cp -r live healthy
    for node in a b c d; do
        jq '.facts.versions.nvidia = "580.95.05" | .facts.rccl = [] | .facts.settings = [] |
            .facts.limits = {memlock: -1, files: []} |
            .facts.nccl = [{path: "/usr/lib/libnccl.so.2", version: "2.28.9+cuda13.0"}] |
            .facts.firewall = {drops: []} |
            .facts.nics |= map(. + {speed: 200000, driver: "mlx5_core", firmware: "28.45.4028",
                device: ("rocep-" + .netdev), rdma_state: "ACTIVE",
                pcie: {width: 4, speed: 32, max_width: 4, max_speed: 32},
                gids: [.addresses[] | split("/")[0] | {index: 3, type: "RoCE v2", address: .}]}) |
            (.facts.counters, .counters.counters) |= map(.values += {fec_uncorrectable: 0,
                phy_symbol_errors: 7, rx_dropped: 3, rx_packets: 1000})' \
            live/$node.json >healthy/$node.json
    done
    jq -n '{writes: [["a-b", "b-c", "c-d", "a-d"][] | {link: ., state: "ok", gbps: 92.5, error: ""}]}' \
        >healthy/write.json
}

teardown_file()
{
    printf "netns del $NS-%s\n" a b c d | ip -force -batch - 2>/dev/null || true
}

setup()
{
    cd "$BATS_FILE_TMPDIR"
}

@test "doctor --save: what an earlier run left of a node that is not asked now is gone" {
    cp -r live again
    on a env MESHNET_NODE=a timeout 60 "$MESHNET" doctor --mesh a.yaml --no-write --hosts a,b \
        --save again || true
    [ "$(cd again && echo *)" = 'a.json b.json mesh.yaml write.json' ]
}

# doctor OPTION…: from a, without writing; its JSON in $output.
doctor()
{
    run --separate-stderr on a env MESHNET_NODE=a timeout 60 "$MESHNET" doctor --mesh a.yaml --no-write --json "$@"
    echo "$output"
    echo "$stderr"
}

# recorded NODE FILTER: judges the healthy recording with that change of that node's answers.
recorded()
{
    cp -rT healthy sick
    jq "$2" healthy/"$1".json >sick/"$1".json
    run --separate-stderr "$MESHNET" doctor --answers sick --json
    echo "$output"
    echo "$stderr"
}

# first ID WHERE [SEEN]: the first finding is that one, there, and nothing of its grade stands beside it.
first()
{
    local got
    # One jq for all: it is asked for each of many findings.
    mapfile -t got < <(jq -r '(.findings[0] | .id, .where, .seen),
        ([.findings[0].severity as $s | .findings[] | select(.severity == $s)] | length), .to_do[0].id,
        (.findings[] | "\(.severity) \(.id) \(.where): \(.seen)")' <<<"$output")
    printf '%s\n' "${got[@]:5}"
    [ "${got[0]}" = "$1" ]
    [[ "${got[1]}" == $2 ]]
    [[ "${got[2]}" == ${3-*} ]]
    [ "${got[3]}" -eq "${4-1}" ]
    [ "${got[4]}" = "$1" ]
}

@test "doctor: a healthy ring has no finding" {
    doctor
    [ "$status" -eq 0 ]
    # What this host has lying around is no fault of the ring.
    [ "$(jq -c '[.findings[] | select(.id | IN("two-nccl", "settings", "plugin") | not)]' <<<"$output")" = '[]' ]
    [ "$(jq -r .answered <<<"$output")" = '4 of 4' ]
    [ "$(jq -c '[.cables[] | [.state, .passes, .back]] | unique' <<<"$output")" = '[["up","all","all"]]' ]
    [ "$(jq -c '[.nodes[].mesh_hash] | unique | length' <<<"$output")" -eq 1 ]
    run "$MESHNET" doctor --answers healthy --wide
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"No findings."* ]]
    [[ "$output" == *"a-b    a ab  b ba       up      200G  1500  yes   all     all   ok     92.5"* ]]
    # What is slow in a ring is no fault: opposite nodes, at the speed that the NICs tell.
    [[ "$output" == *"2 pairs without a cable, slow by the mesh's shape:"*"a - c: TCP over "[bd]", at most 18"?" Gb/s"* ]]
    [[ "$output" == *"a cable between the two is faster"* ]]
    run "$MESHNET" doctor --answers healthy --json
    [ "$(jq -c '[.pairs_without_cable, (.slow_pairs | map([.from, .to, .way, .gbps > 180 and .gbps < 200]))]' <<<"$output")" = \
        '[2,[["a","c","nodes",true],["b","d","nodes",true]]]' ]
}

@test "doctor: a cable that is down, whichever end and why" {
    ip -n $NS-c link set cd down
    doctor
    ip -n $NS-c link set cd up
    [ "$status" -eq 1 ]
    first cable-down 'c cd - d dc' 'c: switched off; d: no carrier'
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == 'ip link set dev cd up '*'# on c' ]]
    [ "$(jq -r '.cables[] | select(.link == "c-d") | .state' <<<"$output")" = down ]
}

@test "doctor: MTU unlike at both ends" {
    ip -n $NS-d link set da mtu 1400
    doctor
    ip -n $NS-d link set da mtu 1500
    [ "$status" -eq 1 ]
    first cable-mtu 'a ax - d da' '*d 1400*'
}

@test "doctor: an address that is missing, and one that is wrong" {
    ip -n $NS-b addr del 10.31.2.1/30 dev bc
    doctor
    [ "$status" -eq 1 ]
    first file-address 'b bc'
    ip -n $NS-b addr add 10.31.22.1/30 dev bc
    doctor
    ip -n $NS-b addr del 10.31.22.1/30 dev bc
    ip -n $NS-b addr add 10.31.2.1/30 dev bc
    [ "$status" -eq 1 ]
    first file-address 'b bc' '*10.31.22.1*'
}

@test "doctor: another mesh file on one node, a broken one, and none" {
    sed '1a transport: {silence: 33s}' mesh.yaml >c.yaml
    doctor
    [ "$status" -eq 1 ]
    first mesh-file c '*transport.silence*'
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == 'meshnet push '* ]]
    echo 'version: 99' >c.yaml
    doctor
    [ "$status" -eq 1 ]
    first mesh-broken c '*c.yaml:1:*'
    cp mesh.yaml c.yaml
    recorded c 'del(.facts.mesh_path, .facts.mesh)'
    [ "$status" -eq 1 ]
    first no-mesh-file c
}

@test "doctor: a file that MESHNET_CONFIG names here is looked for at its path on each node" {
    sed "s|MESHNET_CONFIG=[^ ]*|MESHNET_CONFIG=|" ssh >unnamed
    chmod +x unnamed
    run --separate-stderr on a env MESHNET_NODE=a MESHNET_CONFIG=a.yaml MESHNET_SSH="$PWD/unnamed" timeout 60 \
        "$MESHNET" doctor --no-write --hosts a,b --json
    echo "$output"
    echo "$stderr"
    [ "$(jq -c '[.findings[] | select(.id | test("mesh|unreach"))]' <<<"$output")" = '[]' ]
    [ "$(jq '[.nodes[] | select(.asked)] | length' <<<"$output")" -eq 2 ]
}

@test "doctor: a node that cannot be reached is one finding, and its cables none" {
    touch c.gone
    doctor
    rm c.gone
    [ "$status" -eq 1 ]
    first unreachable c '*No route to host*'
    [ "$(jq -r .answered <<<"$output")" = '3 of 4' ]
    [ "$(jq -r '.cables[] | select(.link == "b-c") | .state' <<<"$output")" = '?' ]
}

@test "doctor: a firewall that drops what comes in over a cable" {
    command -v nft >/dev/null || skip "no nft"
    on b nft -f - <<-END
	table inet wall {
	  chain in {
	    type filter hook input priority 0; policy accept;
	    iifname "ba" drop
	  }
	}
	END
    doctor
    on b nft delete table inet wall
    [ "$status" -eq 1 ]
    first firewall 'b ba' 'chain in of table inet wall: TCP*'
}

@test "doctor: a node in between that forwards nothing, or whose FORWARD policy is Docker's" {
    local key
    on a ip route add 10.31.2.0/30 via 10.31.1.2
    on c ip route add 10.31.1.0/30 via 10.31.2.1
    for key in all ba bc; do on b sysctl -qw net.ipv4.conf.$key.forwarding=0; done
    doctor
    [ "$status" -eq 1 ]
    first forwarding b '*forwarding is 0*'
    # The file was named: so it is in what is to be done.
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == "meshnet topo apply --mesh $PWD/a.yaml, "* ]]
    on b sysctl -qw net.ipv4.ip_forward=1
    on b nft -f - <<-END
	table ip filter {
	  chain DOCKER-USER { }
	  chain FORWARD {
	    type filter hook forward priority 0; policy drop;
	    jump DOCKER-USER
	    oifname "docker0" accept
	  }
	}
	END
    doctor
    [ "$(jq -r '.findings[0].id' <<<"$output")" = forward-drop ]
    first forward-drop b 'the policy of chain FORWARD of table ip filter drops what goes*'
    on b nft flush chain ip filter DOCKER-USER
    on b nft add rule ip filter DOCKER-USER iifname '{ "ba", "bc" }' oifname '{ "ba", "bc" }' accept
    doctor
    [ "$(jq '[.findings[] | select(.severity == "error")] | length' <<<"$output")" -eq 0 ]
    for key in all ba bc; do on b sysctl -qw net.ipv4.conf.$key.rp_filter=1; done
    doctor
    on b nft delete table ip filter
    for key in all ba bc; do on b sysctl -qw net.ipv4.conf.$key.rp_filter=0; done
    on a ip route del 10.31.2.0/30
    on c ip route del 10.31.1.0/30
    first rp-filter b '*rp_filter is 1*'
}

@test "doctor: what may drop what passes through is a warning, what drops it an error" {
    local routes='{routes: [{to: "10.31.2.0/30", via: "10.31.1.2"}], sysctls: [], drops: []}'
    rm -rf sick
    cp -r healthy sick
    jq ".facts.forwarding = $routes" healthy/a.json >sick/a.json
    jq '.facts.forwarding = {routes: [], sysctls: [], drops: [{from: "ba", to: "bc", verdict: "may",
        where: "the policy of chain FORWARD"}]}' \
        healthy/b.json >sick/b.json
    run "$MESHNET" doctor --answers sick --json
    [ "$status" -eq 0 ]
    first forward-may b 'the policy of chain FORWARD may drop what goes from ba to bc'
    [ "$(jq -r '.findings[0].severity' <<<"$output")" = warning ]
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == 'meshnet topo apply --hosts b '* ]]
    jq '.facts.forwarding.drops += [{from: "bc", to: "ba", verdict: "drops", where: "chain FORWARD"}]' \
        sick/b.json >more.json
    mv more.json sick/b.json
    run "$MESHNET" doctor --answers sick --json
    [ "$status" -eq 1 ]
    first forward-drop b 'chain FORWARD drops what goes from bc to ba'
    [ "$(jq '.findings | length' <<<"$output")" -eq 1 ]
}

@test "doctor: large packets that do not pass though both ends say they do, and a cable that is silent" {
    command -v nft >/dev/null || skip "no nft"
    on c nft -f - <<-END
	table netdev wall {
	  chain in {
	    type filter hook ingress device "cb" priority 0; policy accept;
	    ip length > 1000 drop
	  }
	}
	END
    doctor
    on c nft delete table netdev wall
    [ "$status" -eq 1 ]
    # What is in between is not on the node: only what passes tells.
    first cable-large 'b bc - c cb' 'from b small packets*'
    recorded d '(.facts.probes[] | select(.netdev == "dc")) |= . + {small: 0, answered: 0}'
    [ "$status" -eq 0 ]
    [ "$(jq '.findings | length' <<<"$output")" -eq 0 ] # ICMP is filtered: the write passed
    jq '.writes |= map(if .link == "c-d" then .state = "unknown" else . end)' healthy/write.json >sick/write.json
    run "$MESHNET" doctor --answers sick --json
    [ "$status" -eq 1 ]
    first cable-silent 'c cd - d dc' 'd asked c*'
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == 'meshnet discover --neighbors --hosts c,d '* ]]
    # Large packets that do not pass are no matter of echo requests: a write of small ones passes.
    recorded d '(.facts.probes[] | select(.netdev == "dc")) |= . + {small: 5, answered: 0}'
    first cable-large 'c cd - d dc'
}

@test "doctor: what a node says is another node's" {
    recorded b '.facts.node = "c" | .facts.hostname = "spark-c"'
    [ "$status" -eq 1 ]
    first wrong-node b 'spark-c answers, and is node c by its NICs'
    recorded b 'del(.facts.node) | .facts.node_error = "this host is no node of the mesh"'
    [ "$status" -eq 1 ]
    first wrong-node b 'this host is no node of the mesh'
}

@test "doctor: a clock that is off, the asker's own too, and not one that was slow to answer" {
    recorded c '.facts.clock |= map_values(. + 5)'
    [ "$status" -eq 0 ]
    first clock c '* s ahead'
    recorded c '.facts.clock.begin -= 20 | .begin -= 20 | .end += 10'
    [ "$(jq '.findings | length' <<<"$output")" -eq 0 ]
    recorded a '.'
    for node in b c d; do
        jq '.facts.clock |= map_values(. - 60)' healthy/$node.json >sick/$node.json
    done
    run "$MESHNET" doctor --answers sick --json
    first clock a '@(59|60).* s ahead' # as exact as the round trip
    run "$MESHNET" doctor --answers sick --strict
    [ "$status" -eq 1 ]
}

@test "doctor: one answer that took long says nothing against the clocks of the others" {
    # All were asked at once, and the last answer came after 30 s: from a, b and d it was there in no time.
    rm -rf sick
    cp -r healthy sick
    for node in a b d; do
        jq '.begin = 1000 | .end = 1030 | .facts.clock = {begin: 1000.4, end: 1000.6}' \
            healthy/$node.json >sick/$node.json
    done
    jq '.begin = 1000 | .end = 1030 | .facts.clock = {begin: 1029.3, end: 1029.8}' healthy/c.json >sick/c.json
    run "$MESHNET" doctor --answers sick --json
    echo "$output"
    [ "$(jq -c '.findings' <<<"$output")" = '[]' ]
    # A clock that is off by more than that is told all the same, and it alone.
    jq '.facts.clock |= map_values(. + 100)' healthy/b.json |
        jq '.begin = 1000 | .end = 1030 | .facts.clock = {begin: 1100.4, end: 1100.6}' >sick/b.json
    run "$MESHNET" doctor --answers sick --json
    first clock b '* s ahead'
    [ "$(jq '.findings | length' <<<"$output")" -eq 1 ]
}

@test "doctor: GIDs: none for the address, and another index than the mesh file has" {
    recorded b '(.facts.nics[] | select(.netdev == "ba") | .gids) |= map(.type = "RoCE v1")'
    [ "$status" -eq 1 ]
    first cable-gid 'a ab - b ba' 'b: rocep-ba has no RoCE v2 GID for 10.31.1.2'
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == *'meshnet topo apply --hosts b sets again the IPv6 addresses and routes'* ]]
    recorded b '.facts.findings = [{id: "file-gid", nic: "ba", seen: "index 5", expected: "3", fix: "…"}]'
    [ "$status" -eq 0 ]
    first file-gid 'b ba' 'index 5'
}

@test "doctor: an end that is slower, has fewer lanes, other firmware or no RDMA" {
    recorded c '(.facts.nics[] | select(.netdev == "cb")).speed = 100000'
    first cable-speed 'b bc - c cb' 'b 200 Gb/s, c 100 Gb/s'
    recorded c '(.facts.nics[] | select(.netdev == "cb")).pcie.width = 2'
    first cable-pcie 'b bc - c cb' 'c: 32 GT/s x2, 63 Gb/s'
    recorded c '(.facts.nics[] | select(.netdev == "cb")).firmware = "28.39.1002"'
    first firmware 'b bc - c cb' 'b: 28.45.4028, c: 28.39.1002'
    recorded c '(.facts.nics[] | select(.netdev == "cb")) |= del(.device, .gids)'
    first cable-rdma 'b bc - c cb' 'b: rocep-bc; c: no RDMA device'
}

@test "doctor: unlike cards and lanes that are enough are no finding" {
    none() { [ "$status" -eq 0 ] && [ "$(jq -c .findings <<<"$output")" = '[]' ]; }
    recorded c '(.facts.nics[] | select(.netdev == "cb")).speed = 100000'
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == 'ip link set dev cb down && ip link set dev cb up '* ]]
    recorded c '(.facts.nics[] | select(.netdev == "cb")) |= . + {speed: 100000, driver: "bnxt_en"}'
    [[ "$(jq -r '.findings[0].fix' <<<"$output")" == 'ethtool -r cb '* ]]
    # Another model, by PCI or by the board's number behind the version.
    recorded c '(.facts.nics[] | select(.netdev == "cb")) |= . + {firmware: "28.39.1002", card: "15b3:1021:15b3:0023"}'
    none
    recorded c '(.facts.nics[] | select(.netdev == "cb")).firmware = "28.39.1002 (MT_0000000834)"'
    none
    # Lanes for 252 Gb/s at one end, for 126 at the other: enough for 100G, too few for 200G.
    recorded c '.'
    for node in b c; do
        jq '.facts.nics |= map(.speed = 100000)' healthy/$node.json >sick/$node.json
    done
    for node in a d; do
        jq '.facts.nics |= map(.speed = 100000 | .pcie.width = 8 | .pcie.max_width = 8)' healthy/$node.json >sick/$node.json
    done
    run "$MESHNET" doctor --answers sick --json
    none
    recorded a '.facts.nics |= map(.pcie.width = 8 | .pcie.max_width = 8)'
    none # four lanes are all that the others' cards have
    recorded a '.facts.nics |= map(.pcie.width = 2)'
    first cable-pcie 'a ab - b ba' 'a: 32 GT/s x2*' 2
}

@test "doctor: limits: of the session, and of files that new sessions go by" {
    recorded d '.facts.findings = [{id: "memlock", nic: "host", seen: "RLIMIT_MEMLOCK is 8M", expected: "unlimited", fix: "…"}]'
    first memlock d 'RLIMIT_MEMLOCK is 8M'
    recorded d '.facts.limits.files = [{file: "/etc/security/limits.conf", line: 4, who: "*", value: 8192}]'
    first memlock-files d '/etc/security/limits.conf:4: memlock 8192 KiB for \*'
    # The session's user has more by his group.
    recorded d '.facts.limits.files = [{file: "/etc/security/limits.conf", line: 4, who: "*", value: 8192, counts: false},
        {file: "/etc/security/limits.d/rdma.conf", line: 1, who: "@rdma", value: -1, counts: true}]'
    [ "$(jq -c .findings <<<"$output")" = '[]' ]
}

@test "doctor: of the limits in files those count that the user's sessions get" {
    mkdir -p security/limits.d
    printf '* - memlock 64\n@nogroup soft memlock 2048\n' >security/limits.conf
    printf '@nogroup - memlock unlimited # jobs\nroot - memlock 128\n' >security/limits.d/10-rdma.conf
    limits() { run unshare -m sh -c "mount --bind '$PWD/security' /etc/security && $1 exec '$MESHNET' node doctor" \
        <<<'{"only": ["limits"]}'; echo "$output"; }
    limits 'unset SUDO_USER;'
    [ "$(jq -c '.limits | [.user, [.files[] | [.who, .value, .counts]]]' <<<"$output")" = \
        '["root",[["*",64,false],["@nogroup",2048,false],["@nogroup",-1,false],["root",128,true]]]' ]
    limits "export SUDO_USER=nobody SUDO_UID=$(id -u nobody);"
    [ "$(jq -c '.limits | [.user, [.files[] | .counts]]' <<<"$output")" = '["nobody",[false,false,true,false]]' ]
}

@test "doctor: settings left in files: against meshnet env, and unlike on other nodes" {
    recorded a '.facts.settings = [{file: "/etc/nccl.conf", line: 2, name: "NCCL_NET", value: "Socket"}]'
    first settings a '/etc/nccl.conf:2: NCCL_NET=Socket'
    recorded a '.facts.settings = [{file: "/etc/nccl.conf", line: 1, name: "NCCL_NET", value: "meshnet"}]'
    first settings-differ a 'NCCL_NET=meshnet by /etc/nccl.conf:1; on b it is not set'
    recorded a '.facts.settings = [{file: "/etc/environment", line: 1, name: "NCCL_ALGO", value: "Ring"}]'
    first settings-differ a 'NCCL_ALGO=Ring by /etc/environment:1; on b it is not set'
}

@test "doctor: the files on a node are read: settings of NCCL, and two libraries of it" {
    mkdir -p libs empty
    printf '\0NCCL version 2.27.3+cuda12.9\0' >libs/libnccl.so.2.27.3
    printf '\0NCCL version %%d\0NCCL version 2.28.9+cuda13.0\0' >libs/libnccl.so.2.28.9
    printf '# old\nNCCL_NET=IB\nexport MESHNET_CONFIG="/old.yaml"\nMESHNET_TOKEN=topsecret\n' >empty/.nccl.conf
    run on a env HOME="$PWD/empty" LD_LIBRARY_PATH="$PWD/libs" "$MESHNET" node doctor <<<'{"only": ["libraries", "settings"]}'
    rm empty/.nccl.conf
    echo "$output"
    [ "$(jq -r '[.nccl[] | select(.path | startswith("'"$PWD"'")) | .version] | join(" ")' <<<"$output")" = '2.27.3+cuda12.9 2.28.9+cuda13.0' ]
    [ "$(jq -r '[.settings[] | select(.file | startswith("'"$PWD"'")) | "\(.line) \(.name)=\(.value)"] | join(" ")' <<<"$output")" = '2 NCCL_NET=IB 3 MESHNET_CONFIG=/old.yaml 4 MESHNET_TOKEN=(not told)' ]
    # By sudo the user's own, with his rights: a link of his does not lead to root's.
    local open sudo
    open=$(mktemp -d)
    chmod 755 "$open"
    mkdir "$open/user" "$open/root"
    sed "s|^nobody:\(.*\):[^:]*:\([^:]*\)$|nobody:\1:$open/user:\2|" /etc/passwd >passwd
    sudo="HOME=$open/root SUDO_USER=nobody SUDO_UID=$(id -u nobody)"
    by_sudo()
    {
        run unshare -m sh -c "mount --bind '$PWD/passwd' /etc/passwd && export $sudo && exec $1 '$MESHNET' node doctor" \
            <<<'{"only": ["settings"]}'
        own=$(jq -r '[.settings[] | select(.file | endswith("/.nccl.conf")) | "\(.file) \(.value)"] | join(" ")' <<<"$output")
    }
    printf 'NCCL_NET=user\n' >"$open/user/.nccl.conf"
    by_sudo ""
    [ "$own" = "$open/user/.nccl.conf user" ]
    printf 'NCCL_NET=own\n' >"$open/root/.nccl.conf"
    chmod 600 "$open/root/.nccl.conf"
    ln -sf "$open/root/.nccl.conf" "$open/user/.nccl.conf"
    by_sudo ""
    [ "$own" = "" ]
    # Who is not root any more, as behind sudo -u, has his own.
    chmod 644 "$open/root/.nccl.conf"
    by_sudo "setpriv --reuid=1 --regid=1 --clear-groups"
    [ "$own" = "$open/root/.nccl.conf own" ]
    rm -r "$open"
    # A file that is no mesh file is not told of, whoever asks.
    echo 'root:secrethash:0' >empty/shadow
    run on a "$MESHNET" node doctor <<<"{\"file\": \"$PWD/empty/shadow\"}"
    [ "$status" -eq 0 ]
    [[ "$output" != *secrethash* ]]
    recorded a '.facts.nccl += [{path: "/opt/venv/lib/libnccl.so.2", version: "2.21.5"}]'
    first two-nccl a '/usr/lib/libnccl.so.2 (2.28.9+cuda13.0), /opt/venv/lib/libnccl.so.2 (2.21.5)'
}

@test "doctor: versions that are not the others'" {
    recorded d '.facts.versions.meshnet = "0.0.9"'
    first version d 'meshnet 0.0.9'
    recorded d '.facts.nccl[0].version = "2.21.5"'
    first nccl-version d 'NCCL 2.21.5'
    recorded d '.facts.versions.nvidia = "570.1"'
    first driver d 'NVIDIA driver 570.1'
    recorded d '.facts.plugin.sha256 = "00ff"'
    first plugin d 'sha256 00ff'
    recorded d 'del(.facts.plugin)'
    first plugin-missing d
    recorded d '.facts.versions.kernel = "Linux 5.15.0 x86_64"'
    [ "$status" -eq 0 ]
    [ "$(jq -r '.findings[0] | "\(.severity) \(.id) \(.where)"' <<<"$output")" = 'note kernel d' ]
}

@test "doctor: counters that grow, each in its words, and those that do not" {
    recorded a '(.counters.counters[] | select(.netdev == "ab") | .values) |= (.phy_symbol_errors += 12)'
    first cable-errors 'a ab - b ba' 'a ab: phy_symbol_errors grew by 12'
    recorded a '(.counters.counters[] | select(.netdev == "ab") | .values) |= (.fec_uncorrectable += 2)'
    first cable-errors 'a ab - b ba' 'a ab: fec_uncorrectable grew by 2'
    recorded a '(.counters.counters[] | select(.netdev == "ax") | .values) |= (.rx_dropped += 50 | .rx_packets += 9000)'
    first cable-drops 'a ax - d da' 'a ax: rx_dropped grew by 50'
    recorded a '(.counters.counters[] | select(.netdev == "ax") | .values) |= (.rx_dropped += 50 | .rx_packets += 9000000)'
    [ "$(jq '.findings | length' <<<"$output")" -eq 0 ]
    recorded a '(.counters.counters[].values) |= (.phy_symbol_errors = 0)'
    [ "$(jq '.findings | length' <<<"$output")" -eq 0 ]
}

@test "doctor: names that lead to another node" {
    recorded a '.facts.names = {c: ["10.31.3.2"], b: ["127.0.1.1"]}'
    first names a "c is 10.31.3.2 here, which is d's"
    recorded a '.facts.names = {c: ["10.31.3.1"]}'
    [ "$(jq '.findings | length' <<<"$output")" -eq 0 ]
}

@test "doctor: a write that failed or came out wrong, and one that could not be tried" {
    recorded a '.'
    jq '.writes[1] |= . + {state: "dead", error: "link b-c: no answer for 10 s"}' healthy/write.json >sick/write.json
    run "$MESHNET" doctor --answers sick --json
    [ "$status" -eq 1 ]
    first write-failed 'b bc - c cb' 'link b-c: no answer*'
    jq '.writes[1] |= . + {state: "wrong"}' healthy/write.json >sick/write.json
    run "$MESHNET" doctor --answers sick --json
    [ "$status" -eq 1 ]
    first write-wrong 'b bc - c cb'
    echo '{"error": "not a node"}' >sick/write.json
    run "$MESHNET" doctor --answers sick --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '.findings[0].id' <<<"$output")" = write-unmeasured ]
}

@test "doctor: a stranger's answer of any shape is no crash, and nothing in it reaches the terminal" {
    local filter
    for filter in '.facts = []' '.facts = {node: "b", nics: {a: 1}, findings: [1, {}], clock: 7, counters: "x"}' \
        '.facts.nics = [null, {nic: 5}, {nic: "ba", mtu: "x", gids: {}, addresses: [1]}]' \
        '.counters = {counters: [{netdev: "ba", values: [1]}]}' '.facts.probes = [[]]' \
        '.facts.findings = [{id: "memlock", nic: "host", seen: "\u001b[31mred"}]' \
        '.begin = -1e300 | .end = 1e300' '.facts.forwarding = {routes: [3], sysctls: {}, drops: 1}'; do
        recorded b "$filter"
        [ "$status" -le 1 ]
        jq . <<<"$output" >/dev/null
        [[ "$output" != *$'\e'* ]]
    done
    echo '[' >sick/b.json
    run "$MESHNET" doctor --answers sick
    [ "$status" -eq 2 ]
    [[ "$output" == *"sick/b.json: no JSON object"* ]]
}

@test "doctor: --watch says what is new and what is gone" {
    nsenter --net=/run/netns/$NS-a env MESHNET_NODE=a timeout 100 "$MESHNET" doctor --mesh a.yaml \
        --no-write --watch --interval 5s >watch.out 2>&1 3>&- &
    watcher=$!
    wait_for "No findings."
    ip -n $NS-c link set cd down
    wait_for "new: error: c cd - d dc: cable down: c: switched off; d: no carrier"
    ip -n $NS-c link set cd up
    wait_for "gone: error: c cd - d dc: cable down"
    kill -TERM $watcher
    wait $watcher
    [ "$(grep -c '^new: error' watch.out)" -eq 1 ]
}

# wait_for TEXT: a line of watch.out has it.
wait_for()
{
    for _ in $(seq 200); do
        ! grep -qF "$1" watch.out || return 0
        nap 0.2
    done
    cat watch.out
    return 1
}

@test "doctor: on a terminal it says what it does, and nothing elsewhere" {
    doctor --hosts a,b
    [ -z "$stderr" ]
    run on a env MESHNET_NODE=a TERM=xterm script -qec "'$MESHNET' doctor --mesh a.yaml --no-write --hosts a,b" /dev/null
    echo "$output"
    [[ "$output" == *"1/3 asking 2 nodes"*"2/3 waiting"*"3/3 asking for the counters again"* ]]
}

@test "doctor: only the nodes that are named are asked" {
    doctor --hosts a,b
    [ "$status" -eq 0 ]
    [ "$(jq -r '[.nodes[] | select(.asked) | .node] | join(" ")' <<<"$output")" = 'a b' ]
    doctor --hosts a,x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--hosts x: no node of"* ]]
    run "$MESHNET" doctor --answers healthy --hosts a
    [ "$status" -eq 2 ]
    run "$MESHNET" doctor --mesh none.yaml
    [ "$status" -eq 2 ]
    while IFS='|' read -r asked said; do
        # shellcheck disable=SC2086
        run "$MESHNET" doctor --no-write $asked
        [ "$status" -eq 2 ]
        [[ "$output" == *"$said: add it" ]]
    done <<-END
	--hosts a --port 1|--port belongs to --agents
	--answers healthy --port 1|--port belongs to --agents
	--hosts a --token-file nope|--token-file belongs to --agents
	--hosts a --interval 5s|--interval belongs to --watch
	END
}

@test "doctor: hosts by names and addresses that the mesh file does not know" {
    # The office's addresses: 192.0.2.1 leads to a, and so on.
    cat >office <<-END
	#!/bin/bash
	args=()
	while [ "\$1" != -- ]; do shift; done
	host=\$2
	case \$host in
	192.0.2.*) number=\${host##*.}; names=(x a b c d e); host=\${names[number]} ;;
	lab-*) host=\${host#lab-} ;;
	esac
	exec $PWD/ssh -- "\$host" "\$3"
	END
    chmod +x office
    at_office() { MESHNET_SSH=$PWD/office doctor "$@"; }
    at_office --hosts 192.0.2.3,192.0.2.2,lab-d
    [ "$status" -eq 0 ]
    [ "$(jq -r '[.nodes[] | select(.asked) | .node] | join(" ")' <<<"$output")" = 'b c d' ]
    [ "$(jq -r '.cables[] | select(.link == "b-c") | [.state, .passes, .back] | join(" ")' <<<"$output")" = 'up all all' ]
    at_office --hosts 192.0.2.3,c
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--hosts: c and 192.0.2.3 are both node c"* ]]
    # Of all that were named the one that is left is the one that does not answer.
    touch c.gone
    at_office --hosts 192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4
    first unreachable c '192.0.2.3: *No route to host*'
    at_office --hosts 192.0.2.1,192.0.2.3
    rm c.gone
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--hosts 192.0.2.3: no node of $PWD/a.yaml by its name, and its answer could not tell: "*"No route to host"* ]]
    # A host that is none of the mesh's.
    ip netns add $NS-e
    sed 's/name: d$/name: dd/' mesh.yaml >e.yaml
    at_office --hosts 192.0.2.1,192.0.2.5
    ip netns del $NS-e
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--hosts 192.0.2.5: no node of $PWD/a.yaml: "* ]]
}

# Measuring wants ssh's own way back, which the script above has not.
@test "doctor: every cable is written over, by ssh from one node" {
    local node i=0
    [ -x /usr/sbin/sshd ] || skip "no OpenSSH server"
    mkdir -p write
    cd write
    for node in b d; do
        cp ../mesh.yaml $node.yaml
    done
    MESHNET_SSH='' ssh_to b 10.31.1.2 d 10.31.4.1
    for node in b d; do
        sshd_at $node
    done
    run --separate-stderr on a env MESHNET_NODE=a timeout 100 "$MESHNET" doctor --mesh ../mesh.yaml --hosts a,b,d --json
    for node in b d; do
        kill "$(cat sshd.$node.pid)"
    done
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq -r '[.cables[] | "\(.link) \(.write)"] | join("; ")' <<<"$output")" = 'a-b ok; a-d ok; b-c null; c-d null' ]
    [ "$(jq '[.cables[] | select(.write == "ok") | .write_gbps > 0] | all' <<<"$output")" = true ]
}
