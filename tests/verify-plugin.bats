#!/usr/bin/env bats
# meshnet verify-plugin: report forms, exit codes, choice of rules, and plugins that crash or hang.

load helper

setup()
{
    PLUGINS=$BUILD/tests/broken
    MESH=$PLUGIN
    [ -e "$PLUGINS/libnccl-net-ref.so" ] || skip "test plugins are not built"
    export NO_COLOR=1
    unset MESHNET_CONFIG MESHNET_NODE "${!NCCL_@}"
    cd "$BATS_TEST_TMPDIR"
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
    [[ "$output" == *"v10 v9 v8"* ]]
    [[ "$output" == *" 0 failed, 0 warned, 0 skipped"* ]]
    [ "$(grep -c '^pass ' <<<"$output")" -ge 45 ]
    [[ "$output" != *requires:* ]]
}

@test "verify-plugin: our own plugin passes everything over loopback, in each version" {
    export NCCL_SOCKET_IFNAME=lo
    for abi in 8 9 10; do
        verify --abi "$abi" "$MESH"
        [ "$status" -eq 0 ]
        [[ "$output" == *" 0 failed, 0 warned,"* ]]
    done
}

@test "verify-plugin: without an operand it takes the library of the build" {
    NCCL_SOCKET_IFNAME=lo verify --only load --json
    [ "$status" -eq 0 ]
    [ "$(jq -r .library <<<"$output")" = "$MESH" ]
}

@test "verify-plugin: JSON is whole and agrees with its totals" {
    verify --json "$PLUGINS/libnccl-net-ref.so" --only load
    [ "$status" -ne 0 ] # options end at the operand
    verify --json --only load,device "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    jq -e '.name == "ref" and .abi == 10 and .exports == "v10 v9 v8"' <<<"$output"
    jq -e '.totals.rules == (.rules | length) and .totals.fail == 0' <<<"$output"
    jq -e '.totals.pass == ([.rules[] | select(.result == "pass")] | length)' <<<"$output"
    jq -e 'all(.rules[]; .id and .title and .requires and (.family == "load" or .family == "device"))' <<<"$output"
}

@test "verify-plugin: a failure says what is required, what was seen, and the plugin's warning" {
    verify --only connect.self --timeout 3s "$(fault SELF_REFUSED)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"fail  connect.self"* ]]
    [[ "$output" == *"seen:     connect returned ncclInvalidUsage"* ]]
    [[ "$output" == *"requires: "*"one thread"* ]]
    [[ "$output" == *"plugin:   ref: cannot connect to this very process"* ]]
    verify --json --only connect.self --timeout 3s "$(fault SELF_REFUSED)"
    [ "$status" -eq 1 ]
    jq -e '.rules[0].result == "fail" and .totals.fail == 1' <<<"$output"
    jq -e '.rules[0].plugin_log[0].line | contains("this very process")' <<<"$output"
}

@test "verify-plugin: TAP counts its plan, and a failure is not ok" {
    verify --format tap --only load "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "TAP version 13" ]
    plan=${lines[1]#1..}
    [ "$(grep -c '^ok ' <<<"$output")" -eq "$plan" ]
    verify --format tap --only load.name "$(fault NAME_NULL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"not ok 1 - load.name"* ]]
    [[ "$output" == *"# fail: name before init is NULL"* ]]
    verify --format tap --abi 8 --only device.vprops "$PLUGINS/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
    [[ "$output" == *"ok 1 - device.vprops "*" # SKIP v8 has no vProps"* ]]
}

@test "verify-plugin: a crash fails its rule, names signal and step, and the rest still runs" {
    verify --only close.idle,load.name "$(fault CLOSE_CRASHES)"
    [ "$status" -eq 1 ]
    [[ "$output" == *'crashed with SIGABRT in step "closeSend"'* ]]
    [[ "$output" == *"pass  load.name"* ]]
    [[ "$output" == *"2 rules: 1 passed, 1 failed"* ]]
}

@test "verify-plugin: a hang is killed at the limit and names it" {
    verify --json --timeout 1s --only transfer.test_returns "$(fault TEST_HANGS)"
    [ "$status" -eq 1 ]
    jq -e '.rules[0].timed_out and .rules[0].result == "fail"' <<<"$output"
    jq -e '.rules[0].seen | contains("limit of 1 s") and contains("test of a receive")' <<<"$output"
}

@test "verify-plugin: a library that crashes while loading is reported, not followed" {
    verify --only load.open,device.init "$(fault CRASH_AT_LOAD)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"crashed with SIGABRT in step \"dlopen"* ]]
}

@test "verify-plugin: a library without plugin symbols fails load.symbols" {
    verify "$(fault NO_SYMBOL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"fail  load.symbols"* ]]
    [[ "$output" == *"skip  transfer.sizes"* ]]
    [ "$(grep -c '^fail ' <<<"$output")" -eq 1 ]
}

@test "verify-plugin: an undefined symbol fails load.open by its name" {
    verify --only load.open "$(fault UNDEFINED_SYMBOL)"
    [ "$status" -eq 1 ]
    [[ "$output" == *"undefined symbol: ref_nobody_defines_this"* ]]
}

@test "verify-plugin: a stray symbol is a warning and no failure" {
    verify --only load.exports "$(fault STRAY_SYMBOL)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"warn  load.exports"* ]]
    [[ "$output" == *ref_stray_symbol* ]]
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
    verify "$BATS_TEST_TMPDIR"
    [ "$status" -eq 2 ]
    head -c 100 "$MESH" >cut.so
    verify cut.so
    [ "$status" -eq 1 ] || [ "$status" -eq 2 ]
    verify --only nonsense "$MESH"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *'"nonsense"'*"--list"* ]]
    verify --abi 7 "$MESH"
    [ "$status" -eq 2 ]
    verify --timeout never "$MESH"
    [ "$status" -eq 2 ]
    verify "$MESH" "$MESH"
    [ "$status" -eq 2 ]
}

@test "verify-plugin: --list names every rule, and so does the man page" {
    verify --list
    [ "$status" -eq 0 ]
    [[ "$output" == *"transfer.sizes"* ]]
    verify --list --json
    [ "$status" -eq 0 ]
    while read -r id; do
        grep -q "^$id" "$BATS_TEST_DIRNAME/../docs/man/meshnet-verify-plugin.1" || {
            echo "$id is not in the man page"
            return 1
        }
    done < <(jq -r '.rules[].id' <<<"$output")
    verify --list --only close --json
    jq -e 'all(.rules[]; .id | startswith("close."))' <<<"$output"
}
