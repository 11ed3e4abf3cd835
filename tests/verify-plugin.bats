#!/usr/bin/env bats
# meshnet verify-plugin: report forms, exit codes, choice of rules, and plugins that crash or hang.
# VERIFY_PLUGIN=all, for hands: every rule in every version, every shape; minutes.

load helper

setup()
{
    PLUGINS=$BUILD/tests/broken
    MESH=$PLUGIN
    [ -e "$PLUGINS/libnccl-net-ref.so" ] || skip "test plugins are not built"
    export NO_COLOR=1
    unset MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
    FABRIC=''
}

teardown()
{
    rm -f ${FABRIC:+"$FABRIC"}
}

verify()
{
    run --separate-stderr timeout 300 "$MESHNET" verify-plugin "$@"
    echo "status $status"
    echo "$output"
    echo "$stderr"
}

fault()
{
    echo "$PLUGINS/libnccl-net-fault-$1.so"
}

@test "verify-plugin: the reference plugin passes everything, as text" {
    verify "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [[ "$output" == *"$PLUGINS/libnccl-net-ref.so"* ]]
    [[ "$output" == *"v12 v11 v10 v9 v8 v7 v6 v5 v4"* ]]
    [[ "$output" == *" 0 failed, 0 warned, "* ]]
    [ "$(grep -c '^pass ' <<<"$output")" -ge 120 ]
    [[ "$output" != *requires:* ]]
}

# The newest and the oldest are two ways through everything; in those between them a call may be
# another one, which what makes connections and moves messages shows.
@test "verify-plugin: our own plugin passes everything over loopback, in each version" {
    local version rules
    export NCCL_SOCKET_IFNAME=lo
    for version in 4 5 6 7 8 9 10 11 12; do
        rules=(--rule load,device,memory,connect,transfer,group,request,context,close)
        [ "${VERIFY_PLUGIN-}" != all ] && [ $version -ne 4 ] && [ $version -ne 12 ] || rules=()
        verify --version $version "${rules[@]}" "$MESH"
        [ "$status" -eq 0 ]
        [[ "$output" == *" 0 failed, 0 warned,"* ]]
        [[ "$output" == *"ABI driven: $version"* ]]
        [ "$(grep -c '^pass ' <<<"$output")" -ge 90 ]
    done
    verify --all-versions --rule load.name "$MESH"
    [ "$status" -eq 0 ]
    for version in 4 5 6 7 8 9 10 11 12; do
        grep -qx "ABI v$version" <<<"$output"
    done
}

# In each by hand: what differs between them is above the links, and driven over loopback.
@test "verify-plugin: our own plugin passes over RDMA on the double, in versions old and new, in two processes" {
    local rules=device,group,visible,handshake.processes,handshake.order,request.full,transfer.sizes
    rules+=,transfer.order,death.sender_killed,death.receiver_killed,scenario.ring,scenario.rccl
    new_fabric
    export LD_LIBRARY_PATH=$BUILD/tests/fakeverbs FAKEVERBS=shm=$FABRIC,strict=0
    export NCCL_SOCKET_IFNAME=lo MESHNET_ALLOW_TCP=false
    [ -e "$LD_LIBRARY_PATH/libibverbs.so.1" ] || skip "the double is not built"
    local version versions="12 8 4" passed=0
    [ "${VERIFY_PLUGIN-}" != all ] || versions="12 11 10 9 8 7 6 5 4"
    for version in $versions; do
        rm -f "$FABRIC"
        run --separate-stderr timeout 300 "$MESHNET" verify-plugin --json --version $version \
            --rule $rules "$MESH"
        jq -c '.totals, (.rules[] | select(.result == "fail" or .result == "warn"))' <<<"$output"
        [ "$status" -eq 0 ]
        jq -e '.totals.warn == 0' <<<"$output"
        passed=$((passed + $(jq .totals.pass <<<"$output")))
        [ -s "$FABRIC" ] # TCP in its place would have been refused
    done
    [ $passed -ge $((28 * $(wc -w <<<"$versions"))) ]
}

# mesh_file SPEED: this host is node a, its NIC the loopback.
mesh_file()
{
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - {name: a, nics: [{netdev: lo, name: p0, addresses: [127.0.0.1/8], speed: $1}]}
	END
    export MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_NODE=a
}

@test "verify-plugin: devices are compared with the mesh file" {
    mesh_file 40000
    for mode in mesh per-link; do
        MESHNET_DEVICE_MODE=$mode verify --json --rule device.agrees --all-versions "$MESH"
        [ "$status" -eq 0 ]
        jq -e '.totals.pass == 9' <<<"$output"
    done
    verify --rule device.agrees "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [[ "$output" == *"warn  device.agrees"*"speed is 100000 Mb/s, the NICs of node a have from 40000 to 40000 together"* ]]
    mesh_file 100000
    verify --rule device.agrees "$PLUGINS/libnccl-net-ref.so"
    [[ "$output" == *"2 devices; node a of the mesh file has 1 NICs for data and 0 links"* ]]
    unset MESHNET_CONFIG
    HOME=$PWD verify --rule device.agrees "$PLUGINS/libnccl-net-ref.so"
    [[ "$output" == *"skip  device.agrees"*"no mesh file, and no device that is a NIC"* ]]
}

@test "verify-plugin: without an operand it takes the library of the build" {
    NCCL_SOCKET_IFNAME=lo verify --rule load --json
    [ "$status" -eq 0 ]
    [ "$(jq -r .library <<<"$output")" = "$MESH" ]
}

@test "verify-plugin: JSON is whole and agrees with its totals" {
    verify --json "$PLUGINS/libnccl-net-ref.so" --rule load.name
    [ "$status" -eq 0 ] # options may stand behind the operand
    jq -e '.totals.rules == 1' <<<"$output"
    verify --json --rule load,device "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    jq -e '.name == "ref" and .abi == 12 and .exports == "v12 v11 v10 v9 v8 v7 v6 v5 v4"' <<<"$output"
    jq -e '.totals.rules == (.rules | length) and .totals.fail == 0' <<<"$output"
    jq -e '.totals.pass == ([.rules[] | select(.result == "pass")] | length)' <<<"$output"
    jq -e 'all(.rules[]; .id and .title and .requires and (.family == "load" or .family == "device"))' <<<"$output"
}

@test "verify-plugin: a failure says what is required, what was seen, and the plugin's warning" {
    verify --rule connect.self --timeout 3s "$(fault SELF_REFUSED)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"fail  connect.self"* ]]
    [[ "$output" == *"seen:     connect returned ncclInvalidUsage"* ]]
    [[ "$output" == *"requires: "*"one thread"* ]]
    [[ "$output" == *"plugin:   ref: cannot connect to this very process"* ]]
    verify --json --rule connect.self --timeout 3s "$(fault SELF_REFUSED)"
    [ "$status" -eq 1 ]
    jq -e '.rules[0].result == "fail" and .totals.fail == 1' <<<"$output"
    jq -e '.rules[0].plugin_log[0].line | contains("this very process")' <<<"$output"
}

@test "verify-plugin: TAP counts its plan, and a failure is not ok" {
    verify --format tap --rule load "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "TAP version 13" ]
    plan=${lines[1]#1..}
    [ "$(grep -c '^ok ' <<<"$output")" -eq "$plan" ]
    verify --format tap --rule load.name "$(fault NAME_NULL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"not ok 1 - load.name"* ]]
    [[ "$output" == *"# fail: name before init is NULL"* ]]
    verify --format tap --version v8 --rule device.vprops "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [[ "$output" == *"ok 1 - device.vprops "*" # SKIP does not apply to v8"* ]]
}

@test "verify-plugin: a crash fails its rule, names signal and step, and the rest still runs" {
    verify --rule close.idle,load.name "$(fault CLOSE_CRASHES)"
    [ "$status" -eq 1 ]
    [[ "$output" == *'crashed with SIGABRT in step "closeSend"'* ]]
    [[ "$output" == *"pass  load.name"* ]]
    [[ "$output" == *"2 rules: 1 passed, 1 failed"* ]]
}

@test "verify-plugin: a hang is killed at the limit and names it" {
    verify --json --timeout 5s --rule transfer.test_returns "$(fault TEST_HANGS)"
    [ "$status" -eq 1 ]
    jq -e '.rules[0].timed_out and .rules[0].result == "fail"' <<<"$output"
    jq -e '.rules[0].seen | contains("limit of 5 s") and contains("test of a receive")' <<<"$output"
}

@test "verify-plugin: a library that crashes while loading is reported, not followed" {
    verify --rule load.open,device.init "$(fault CRASH_AT_LOAD)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"crashed with SIGABRT in step \"dlopen"* ]]
}

@test "verify-plugin: a library without plugin symbols fails load.symbols" {
    verify "$(fault NO_SYMBOL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"fail  load.symbols"* ]]
    [[ "$output" == *"not run: NCCL does not take the library (rule load.symbols)"* ]]
    [ "$(grep -c '^fail ' <<<"$output")" -eq 1 ]
}

@test "verify-plugin: an undefined symbol fails load.open by its name" {
    verify --rule load.open "$(fault UNDEFINED_SYMBOL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"undefined symbol: ref_nobody_defines_this"* ]]
}

@test "verify-plugin: a stray symbol is a warning and no failure" {
    verify --rule load.exports "$(fault STRAY_SYMBOL)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"warn  load.exports"* ]]
    [[ "$output" == *ref_stray_symbol* ]]
}

@test "verify-plugin: --strict lets what should hold fail the run, in each format" {
    verify --strict --rule load.exports "$(fault STRAY_SYMBOL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"warn  load.exports"*"grade:    should; "* ]]
    verify --format tap --rule load.exports "$(fault STRAY_SYMBOL)"
    [[ "$output" == *$'\n'"ok 1 - load.exports"*"# grade: should; "* ]]
    verify --strict --format tap --rule load.exports "$(fault STRAY_SYMBOL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"not ok 1 - load.exports"* ]]
    verify --strict --format junit --rule load.exports "$(fault STRAY_SYMBOL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *'failures="1"'*"<failure "*"grade: should; "* ]]
    verify --strict --json --rule load.exports,idle.test_cost "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    jq -e '.rules[0].grade == "should" and .rules[1].grade == "style" and .rules[1].evidence' <<<"$output"
}

@test "verify-plugin: what a hopeless plugin blocks in is waited for once" {
    local fault first left
    for fault in BLOCKS_EVERYWHERE BLOCKS_CONNECT NEVER_DONE; do
        verify --json --timeout 3s --jobs 16 "$(fault $fault)"
        [ "$status" -eq 1 ]
        first=$(jq -r '[.rules[] | select(.result == "fail")][0].id' <<<"$output")
        left=$(jq '[.rules[] | select(.result == "skip" and
            (.seen | contains("in vain")))] | length' <<<"$output")
        echo "$fault: $first, $left rules wait for the same"
        [ "$left" -ge 60 ]
        jq -e '.totals.pass >= 1 and .totals.fail <= 20' <<<"$output"
    done
}

@test "verify-plugin: failures with one cause are one, with the rule to begin with; skips with one reason are a line" {
    verify --rule load,connect,transfer,request "$(fault DONE_TWO)"
    [ "$status" -eq 1 ]
    [[ "$output" =~ "  "[0-9]+" rules: test returned success and left done at 0x2; NCCL does not initialise it; begin with transfer.sizes" ]]
    [[ "$output" == *$'\n      meshnet verify-plugin --version v12 --rule transfer.sizes --seed 1 '*$'\n      the others: --rule connect.'* ]]
    [[ "$output" =~ "fail  transfer.unaligned "[^$'\n']*": as connect."[a-z_]+$'\n'[a-z] ]]
    verify --json --rule load,connect,transfer,request "$(fault DONE_TWO)"
    jq -e '.failures[0].rules > 20 and .failures[0].begin_with == "transfer.sizes" and
        (.failures | map(.rules) | add) == .totals.fail' <<<"$output"
    verify "$(fault NO_SYMBOL)"
    [ "$(grep -c '^skip ' <<<"$output")" -le 3 ]
    [[ "$output" == *" to collnet.outstanding "*" rules"* ]]
}

@test "verify-plugin: known failures do not fail the run, and what no longer fails is said" {
    verify --rule load,device --version v12 --write-baseline known.txt "$(fault NAME_RESERVED)"
    [ "$status" -eq 1 ]
    cat known.txt
    grep -q '^load.reserved v12 # named "RCCL-ANP"' known.txt
    verify --rule load,device --version v12 --baseline known.txt "$(fault NAME_RESERVED)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"fail  load.reserved"*"(known)"*", 1 known"* ]]
    [[ "$output" != *"what fails"* ]]
    verify --rule load,device --version v11 --baseline known.txt "$(fault NAME_RESERVED)"
    [ "$status" -eq 1 ] # another version
    verify --format tap --rule load --version v12 --baseline known.txt "$(fault NAME_RESERVED)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"not ok 5 - load.reserved"*" # TODO a known failure"* ]]
    verify --format junit --rule load --version v12 --baseline known.txt "$(fault NAME_RESERVED)"
    [ "$status" -eq 0 ]
    [[ "$output" == *'failures="0"'*'<skipped message="known failure"/>'* ]]
    verify --rule load --version v12 --baseline known.txt "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [[ "$output" == *"load.reserved v12 no longer fails: take line 2 out of known.txt"* ]]
    verify --json --rule load --version v12 --baseline known.txt "$PLUGINS/libnccl-net-ref.so"
    jq -e '.mended == [{"id": "load.reserved", "abi": 12, "line": 2}]' <<<"$output"
    echo "load.nonsense v12" >known.txt
    verify --rule load --baseline known.txt "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *'known.txt:1: there is no rule "load.nonsense"'* ]]
    echo "load.name twelve" >known.txt
    verify --rule load --baseline known.txt "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *'known.txt:1: "load.name twelve": expected a rule and a version'* ]]
}

@test "verify-plugin: --fail-fast stops at the first failure, --total after its time" {
    # Without what runs alone, before all else. One at a time: else many others may run meanwhile.
    verify --json --jobs 1 --fail-fast --rule load,connect,memory,transfer,group,request,close,leave,context \
        --rule thread,scenario,guest "$(fault NAME_RESERVED)"
    [ "$status" -eq 1 ]
    jq -e '.totals.fail == 1 and .totals.skip > 100' <<<"$output"
    jq -e 'any(.rules[]; .seen == "not run after the first failure (rule load.reserved)")' <<<"$output"
    verify --json --total 1s --rule transfer.zero,transfer.sizes "$(fault NEVER_DONE)"
    [ "$status" -eq 1 ]
    jq -e '.totals.fail == 0 and all(.rules[]; .seen == "not judged: the 1 s of the whole run were over (--total)")' <<<"$output"
}

@test "verify-plugin: wrong usage is exit 2 with a reason" {
    verify ./absent.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"absent.so"*"No such file"* ]]
    verify libabsent-plugin.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"libabsent-plugin.so"*"LD_LIBRARY_PATH"* ]]
    echo text >file.so
    verify file.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"not a shared library"* ]]
    mkfifo pipe.so
    verify ./pipe.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"pipe.so is not a shared library"* ]]
    verify "$BATS_TEST_TMPDIR"
    [ "$status" -eq 2 ]
    head -c 100 "$MESH" >cut.so
    verify cut.so
    [ "$status" -eq 1 ] || [ "$status" -eq 2 ]
    verify --rule nonsense "$MESH"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *'"nonsense"'*"--list"* ]]
    verify --version v77 "$MESH"
    [ "$status" -eq 2 ]
    verify --timeout never "$MESH"
    [ "$status" -eq 2 ]
    verify "$MESH" "$MESH"
    [ "$status" -eq 2 ]
}

# What a Python expression over the first suite gives.
junit()
{
    python3 -c 'import sys, xml.etree.ElementTree as xml
suite = xml.fromstring(sys.stdin.read())[0]
print(eval(sys.argv[1]))' "$1" <<<"$output"
}

@test "verify-plugin: JUnit is XML that counts, and says why and how to see it again" {
    command -v python3 || skip "needs Python to read XML"
    verify --format junit --rule load "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [ "$(junit 'suite.get("failures")')" = 0 ]
    [ "$(junit 'suite.get("tests")')" = "$(junit 'len(suite.findall("testcase"))')" ]
    verify --format junit --rule connect.self,load.name "$(fault SELF_REFUSED)"
    [ "$status" -eq 1 ]
    [ "$(junit 'suite.get("failures")')" = 1 ]
    [[ "$(junit 'suite.find("testcase/failure").text')" == *"requires: "*"this very process"*"again: meshnet verify-plugin "* ]]
}

@test "verify-plugin: the command it prints shows the same failure alone" {
    verify --rule connect "$(fault SELF_REFUSED)"
    [ "$status" -eq 1 ]
    again=$(sed -n 's/^ *again: *meshnet //p' <<<"$output" | head -n 1)
    [[ "$again" == *"--rule connect.self --seed 1 "* ]]
    run --separate-stderr bash -c "$MESHNET $again"
    [ "$status" -eq 1 ]
    [[ "$output" == *"1 rules: 0 passed, 1 failed"* ]]
}

@test "verify-plugin: a path that a shell would split comes back quoted" {
    mkdir "it's a b"
    cp "$(fault SELF_REFUSED)" "it's a b/" # it has its fault by its name
    verify --rule connect.self "it's a b/"*
    again=$(sed -n 's/^ *again: *meshnet //p' <<<"$output")
    run --separate-stderr bash -c "$MESHNET $again"
    [ "$status" -eq 1 ]
    [[ "$output" == *"fail  connect.self"* ]]
}

@test "verify-plugin: --explain says what, why, where from and how" {
    verify --explain transfer.sizes
    [ "$status" -eq 0 ]
    [[ "$output" == *"what the API requires: "*"grade: must"*"--rule transfer.sizes"* ]]
    [[ "$output" == *"evidence: NCCL 2.27 transport/net.cc, sendProxyProgress: "*"--profile: nccl-2.27"* ]]
    verify --explain load --json
    jq -e '(.rules | length) > 5 and all(.rules[]; .requires and .grade and .evidence and .again)' <<<"$output"
    verify --explain nonsense
    [ "$status" -eq 2 ]
}

@test "verify-plugin: a profile drives the version its release loads" {
    verify --profile nccl-2.25 --json --rule load "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    jq -e '.abi == 9 and .profile == "nccl-2.25"' <<<"$output"
    verify --profile rccl-6.3 --json --rule connect,request "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    jq -e '.abi == 8' <<<"$output"
    local rules=load,device,memory,connect,transfer,group,request,close,context,collnet,thread
    verify --profile rccl-7 --rule $rules "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    verify --profile nccl-1.9 "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *'"nccl-1.9"'*nccl-2.30* ]]
    verify --profile nccl-2.25 --version v10 "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"v9 to v5"* ]]
}

@test "verify-plugin: a rule about what only some releases do is skipped for the others" {
    local rules=context.unload,context.unload_old,context.finalize_null,device.vdevice_one,device.dmabuf
    result() { jq -r --arg id "$1" '.rules[] | select(.id == $id) | .result' <<<"$output"; }
    verify --profile nccl-2.29 --json --rule $rules "$PLUGINS/libnccl-net-ref.so"
    [ "$(result context.unload) $(result context.finalize_null)" = "pass pass" ]
    verify --profile nccl-2.30 --json --rule $rules "$PLUGINS/libnccl-net-ref.so"
    [ "$(result context.unload) $(result context.finalize_null)" = "pass skip" ]
    verify --profile nccl-2.25 --json --rule $rules "$PLUGINS/libnccl-net-ref.so"
    [ "$(result context.unload_old) $(result device.vdevice_one)" = "pass pass" ]
    verify --profile nccl-2.27 --json --rule $rules "$PLUGINS/libnccl-net-ref.so"
    [ "$(result context.unload_old) $(result device.vdevice_one)" = "skip skip" ]
    jq -e 'any(.rules[]; .seen == "NCCL 2.27 does not do this")' <<<"$output"
    verify --profile nccl-2.25 --json --rule $rules "$(fault DMABUF_WITHOUT_BIT)"
    [ "$(result device.dmabuf)" = pass ]
    verify --profile rccl-7 --json --rule $rules "$(fault DMABUF_WITHOUT_BIT)"
    [ "$(result device.dmabuf)" = warn ]
}

@test "verify-plugin: a run with one job says the same as a run with many" {
    # With those that run first, alone or in two processes.
    local rules=load,device,connect,transfer,request,close,life,death,idle
    verify --json --jobs 1 --rule $rules "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    one=$(jq -c '[.rules[] | [.id, .result]]' <<<"$output")
    verify --json --jobs 8 --rule $rules "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [ "$one" = "$(jq -c '[.rules[] | [.id, .result]]' <<<"$output")" ]
}

@test "verify-plugin: stress repeats the random rules with new seeds" {
    verify --list --stress 1s --json
    [ "$(jq '.rules | length' <<<"$output")" -gt 0 ]
    verify --stress 1s --seed 100 --json "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    jq -e 'all(.rules[]; .runs >= 1 and .seed == .runs + 99)' <<<"$output"
    verify --stress 1s --rule load.name "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 2 ]
}

@test "verify-plugin: --list names every rule, where it comes from, and the man page every family" {
    verify --list
    [ "$status" -eq 0 ]
    [[ "$output" == *"transfer.sizes"* ]]
    verify --list --json
    [ "$status" -eq 0 ]
    jq -e 'all(.rules[]; .title and .requires and .evidence and
        (.grade | IN("must", "should", "style")))' <<<"$output"
    while read -r family; do
        grep -qP "^$family\t" "$BATS_TEST_DIRNAME/../docs/man/meshnet-verify-plugin.1" || {
            echo "$family is not in the man page"
            return 1
        }
    done < <(jq -r '.rules[].id | split(".")[0]' <<<"$output" | sort -u)
    verify --list --rule close --json
    jq -e 'all(.rules[]; .id | startswith("close."))' <<<"$output"
}

@test "verify-plugin: a report that cannot be written is said" {
    for format in text json tap junit; do
        run bash -c '"$0" verify-plugin --rule load.name --format $2 "$1" 2>&1 >/dev/full' \
            "$MESHNET" "$MESH" $format
        echo "$format: $output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"cannot write to standard output"* ]]
    done
}

@test "verify-plugin: each profile's name that an error lists is one" {
    verify --profile nonsense "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 2 ]
    names=$(grep -oE '[nr]ccl-[0-9.]+' <<<"$stderr")
    [ "$(wc -l <<<"$names")" -ge 15 ]
    for name in $names; do
        verify --profile "$name" --rule load.name "$MESH"
        [ "$status" -eq 0 ]
    done
}

# Processes that carry the mark in their environment.
marked()
{
    grep -lsz "^HOSTILE_MARK=$1$" /proc/[0-9]*/environ || true
}

# Runs the plugin that does harm: the rule must end as told, the other one must not notice, and
# nothing may be left.
hostile()
{
    local deed=$1 seen=$2 rule=${3:-device.init} limit=30s
    [ "$seen" != hung ] || limit=2s
    HOSTILE=$deed HOSTILE_MARK=$$-$deed verify --json --timeout $limit --rule "$rule,load.reserved" \
        "$BUILD/tests/hostile/libnccl-net-hostile.so"
    jq -e --arg seen "$seen" --arg rule "$rule" '.totals.rules == 2 and
        (.rules[] | select(.id == "load.reserved") | .result) == "pass" and
        (.rules[] | select(.id == $rule) |
            if $seen == "" then .result == "pass"
            else .result == "fail" and (.seen | contains($seen)) end)' <<<"$output"
    # Nobody waits for the end of one that has killed its warden.
    for _ in $(seq 300); do
        [ "$deed" = kills-parent ] && [ -n "$(marked "$$-$deed")" ] || break
        sleep 0.1
    done
    [ -z "$(marked "$$-$deed")" ]
}

@test "verify-plugin: a plugin that ends, stops or loses the process fails its rule and no other" {
    hostile crash "crashed with SIGSEGV"
    hostile overflows "crashed with SIGSEGV"
    hostile core "crashed with SIGQUIT"
    hostile kills-group "crashed with SIGKILL"
    hostile exit "ended without a verdict"
    hostile exit-at-once "ended without a verdict"
    hostile exit-from-thread "ended without a verdict"
    hostile child-hangs "ended without a verdict"
    # Of device.init, which is tried first, the other rule would be known to wait in vain.
    for deed in exit-hangs hang stop main-thread-ends outlives; do
        hostile $deed "hung" device.count
    done
    hostile kills-parent "was killed"
}

@test "verify-plugin: processes that a plugin starts are gone with its rule" {
    hostile child-stays ""
    hostile daemon-stays ""
    hostile family-stays ""
    hostile returns-twice ""
}

@test "verify-plugin: descriptors, limits, folder and output of the judge are its own" {
    hostile closes-input ""
    hostile closes-all ""
    hostile takes-all ""
    hostile writes-output ""
    hostile changes-process ""
    hostile logs-rubbish "crashed with SIGSEGV" device.count
}

@test "verify-plugin: harm done while loading fails load.open, and nothing else is lost" {
    local library=$BUILD/tests/hostile/libnccl-net-hostile.so
    for deed in crash exit exit-at-once kills-group; do
        HOSTILE=load-$deed HOSTILE_MARK=$$-load verify --json --rule load "$library"
        [ "$status" -eq 1 ]
        jq -e '.exports == null and .rules[0].id == "load.open" and .rules[0].result == "fail"' \
            <<<"$output"
        jq -e '.totals.rules == (.rules | length)' <<<"$output"
        [ -z "$(marked "$$-load")" ]
    done
    for deed in daemon-stays closes-all writes-output; do
        HOSTILE=load-$deed HOSTILE_MARK=$$-load verify --json --rule load.open,load.name "$library"
        [ "$status" -eq 0 ]
        jq -e '.name == "hostile" and .totals.pass == 2' <<<"$output"
        [ -z "$(marked "$$-load")" ]
    done
}

@test "verify-plugin: a judge that is killed takes everything with it" {
    local mark=$$-judge left=
    HOSTILE=hang HOSTILE_MARK=$mark "$MESHNET" verify-plugin --timeout 60s --rule device.init \
        "$BUILD/tests/hostile/libnccl-net-hostile.so" >out 2>&1 &
    judge=$!
    for _ in $(seq 300); do
        left=$(marked "$mark" | wc -l)
        [ "$left" -ge 3 ] && break
        sleep 0.1
    done
    [ "$left" -ge 3 ] # the judge, a warden, a rule
    kill -KILL "$judge"
    wait "$judge" || true
    for _ in $(seq 300); do
        left=$(marked "$mark" | wc -l)
        [ "$left" -eq 0 ] && break
        sleep 0.1
    done
    [ "$left" -eq 0 ]
}

@test "verify-plugin: recorded traffic is a scenario; traces that are none are refused" {
    traces="--trace $BATS_TEST_DIRNAME/fixtures/traces/rank0 --trace $BATS_TEST_DIRNAME/fixtures/traces/rank1"
    run env NCCL_SOCKET_IFNAME=lo "$MESHNET" verify-plugin --rule scenario.trace -v $traces
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"136 messages"* ]]
    run "$MESHNET" verify-plugin --rule scenario.trace $traces \
        "$BUILD/tests/broken/libnccl-net-fault-JOB_SIZE_SHORT.so"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"39 of 136 messages arrived with wrong data or size"* ]]
    [[ $output == *"again: "*"--trace "*"/rank1 "*JOB_SIZE_SHORT.so* ]]
    run "$MESHNET" verify-plugin --rule scenario.trace --trace "$MESHNET"
    [ "$status" -eq 2 ]
    [[ $output == *"is no trace"* ]]
}

@test "verify-plugin: a thread that spins is found where the plugin hardly gets a processor" {
    local busy=() i
    for i in {1..4}; do # in sessions of their own: the kernel may divide by those
        setsid timeout 100 taskset -c 0 sh -c 'while :; do :; done' 3>&- &
        busy+=($!)
    done
    run --separate-stderr nice -n 15 taskset -c 0 timeout 120 "$MESHNET" verify-plugin --json \
        --rule idle.loaded --timeout 60s "$(fault INIT_SPINS)"
    kill "${busy[@]}"
    wait "${busy[@]}" || true
    jq -c '.rules[] | [.result, .seen, .ms]' <<<"$output"
    jq -e '.rules[0].result == "warn" and (.rules[0].seen | contains("of a thread that spins"))' <<<"$output"
}

tuner()
{
    echo "$PLUGINS/tuner/libnccl-tuner-$1.so"
}

@test "verify-plugin: a library that has a tuner alone is judged by what is said of tuners" {
    verify --strict "$(tuner ref)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"tuner: ref tuner"*"tuner exports: v6 v5 v4 v3 v2"*"tuner ABI driven: 6"* ]]
    [[ "$output" != *connect.* && "$output" != *load.symbols* && "$output" != *"ABI driven: 0"* ]]
    [[ "$output" == *"pass  load.exports "*"pass  tuner.ranks "*" 0 failed, 0 warned, 0 skipped"* ]]
    verify --json --all-versions "$(tuner ref)"
    [ "$status" -eq 0 ]
    jq -e '.tuner == "ref tuner" and .tuner_abi == 6 and .name == null and .totals.pass == .totals.rules' <<<"$output"
    jq -e '[.rules[] | select(.family == "tuner").abi] | unique == [2, 3, 4, 5, 6]' <<<"$output"
    jq -e '[.rules[] | select(.id | startswith("tuner.pair")).abi] == [2, 2]' <<<"$output"
    verify --rule load "$(tuner ref)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"skip  load.symbols"*"the library has a tuner and no net plugin"* ]]
}

@test "verify-plugin: the versions of a tuner are its own" {
    verify --json --version v3 --rule tuner "$(tuner ref)"
    [ "$status" -eq 0 ]
    jq -e 'all(.rules[]; .abi == 3) and .tuner_abi == 3' <<<"$output"
    verify --json --version 2 "$(tuner ref)"
    [ "$status" -eq 0 ]
    jq -e '.tuner_abi == 2 and any(.rules[]; .id == "tuner.pair" and .result == "pass")' <<<"$output"
    verify --version v7 --rule tuner "$(tuner ref)"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"exports no tuner of v7; it exports v6 v5 v4 v3 v2"* ]]
    verify --version v3 "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"does not export ncclNetPlugin_v3; it exports v12 "* ]]
    verify --json --profile nccl-2.21 --rule tuner "$(tuner ref)"
    jq -e '.tuner_abi == 2' <<<"$output"
    verify --json --profile nccl-2.27 "$(tuner ref)"
    jq -e '.tuner_abi == 4 and .totals.fail == 0' <<<"$output"
    verify --profile nccl-2.20 --rule tuner "$(tuner ref)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"NCCL 2.20 loads none of the tuner's versions v6 v5 v4 v3 v2"* ]]
}

@test "verify-plugin: a library without a tuner skips its rules, with one reason" {
    verify "$PLUGINS/libnccl-net-ref.so" --rule load,tuner
    [ "$status" -eq 0 ]
    [[ "$output" == *"skip  tuner.symbols to tuner.cost"*"the library exports no tuner (ncclTunerPlugin_vN)"* ]]
    [[ "$output" != *"tuner exports"* ]]
    verify --rule tuner.symbols "$(tuner fault-NO_VERSION)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"NCCL opens a file of this name, finds none, and looks no further"* ]]
}

@test "verify-plugin: a broken tuner is told what it was asked, and shown again by the command" {
    verify "$(tuner fault-REVIVES)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"fail  tuner.possible"*"AllReduce of 1 bytes with rings alone"*"Tree/LL is chosen, which NCCL had marked as impossible"* ]]
    [[ "$output" == *"grade:    must; NCCL 2.27 enqueue.cc, topoGetAlgoInfo"* ]]
    again=$(sed -n 's/^ *again: *meshnet //p' <<<"$output" | head -n 1)
    [[ "$again" == *"--version v6 --rule tuner.possible "* ]]
    run --separate-stderr bash -c "$MESHNET $again"
    [ "$status" -eq 1 ]
    [[ "$output" == *"1 rules: 0 passed, 1 failed"* ]]
    verify --rule tuner.ranks --version v3 "$(tuner fault-RANK_PROCESS)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"Broadcast of 1 bytes"*"nChannels "*", but Ring/LL with nChannels "*" on another rank"* ]]
    verify --two --json "$(tuner fault-RANK_VARIABLE)"
    [ "$status" -eq 1 ]
    jq -e '[.rules[].id] == ["tuner.ranks"] and .totals.fail == 1' <<<"$output"
}

@test "verify-plugin: a tuner that hangs or crashes fails its rules and no more" {
    verify --json --timeout 2s "$(tuner fault-ASK_HANGS)"
    [ "$status" -eq 1 ]
    jq -e 'any(.rules[]; .id == "tuner.success" and .timed_out)' <<<"$output"
    jq -e '[.rules[] | select(.id | startswith("load.") or . == "tuner.init") | .result] | all(. == "pass")' <<<"$output"
    verify --rule tuner.bounds "$(tuner fault-POINTERS)"
    [ "$status" -eq 1 ]
    [[ "$output" == *'crashed with SIGSEGV in step "getCollInfo: Broadcast of 1 bytes'* ]]
}

@test "verify-plugin: tuners in TAP, JUnit and a baseline" {
    verify --format tap --all-versions --rule tuner.init,tuner.pair "$(tuner ref)"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok ' <<<"$output")" -eq 10 ]
    [[ "$output" == *"ok 1 - v6 tuner.init "* ]]
    verify --format junit --rule tuner "$(tuner ref)"
    [ "$status" -eq 0 ]
    [[ "$output" == *'<testsuite name="ref tuner tuner v6"'*'failures="0"'* ]]
    verify --version v2 --write-baseline known.txt "$(tuner fault-PAIR_NVLS)"
    [ "$status" -eq 1 ]
    grep -q '^tuner.pair v2 # ' known.txt
    verify --version v2 --baseline known.txt "$(tuner fault-PAIR_NVLS)"
    [ "$status" -eq 0 ]
}

# ring N: this host is one of N nodes, each cabled to the next; line: but for the last cable.
ring()
{
    local n=$1 cables=$1 i
    [ "${2:-}" != line ] || cables=$((n - 1))
    {
        echo "version: 1"
        echo "nodes:"
        for ((i = 0; i < n; i++)); do
            echo "  - name: n$i"
            echo "    nics:"
            [ "$i" -ge "$cables" ] ||
                echo "      - {netdev: up$i, addresses: [10.9.$i.1/30], speed: 100000}"
            [ "$i" -eq 0 ] && [ "$cables" -lt "$n" ] ||
                echo "      - {netdev: down$i, addresses: [10.9.$(((i + n - 1) % n)).2/30], speed: 100000}"
        done
    } >mesh.yaml
    export MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_NODE=n0
}

@test "verify-plugin: our own tuner passes everything on rings and lines, in each version" {
    for shape in "2" "3" "4" "4 line" "8" "128"; do
        ring $shape
        verify --json --all-versions --rule tuner "$MESH"
        [ "$status" -eq 0 ]
        jq -e '.totals.fail == 0 and .totals.warn == 0 and .totals.pass == 112' <<<"$output"
        jq -e '[.rules[] | select(.result == "skip") | .seen | startswith("does not apply to v")] | all' \
            <<<"$output"
    done
}
