#!/usr/bin/env bats
# meshnet compare: real results against themselves and against what was changed in them.

load helper

# Measured once, on loopback; each test changes a copy.
setup_file()
{
    export NO_COLOR=1
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN "${!NCCL_@}"
    NCCL_SOCKET_IFNAME=lo timeout 60 "$MESHNET" bench --collective all-reduce,broadcast --local 2 \
        --sizes 8,64K --duration 20ms --json >"$BATS_FILE_TMPDIR/old.json"
}

setup()
{
    cd "$BATS_TEST_TMPDIR"
    cp "$BATS_FILE_TMPDIR/old.json" .
}

compare()
{
    run --separate-stderr timeout 60 "$MESHNET" compare "$@"
    echo "$output"
    echo "$stderr"
}

@test "compare: results do not differ from themselves" {
    compare old.json old.json
    [ "$status" -eq 0 ]
    [[ "$output" == *" 0 faster, 0 slower, 0 broken, "*" 0 regressions over 5 %"* ]]
    [[ "$output" != *differs* ]]
    compare --json old.json old.json
    [ "$status" -eq 0 ]
    jq -e '.regressions == 0 and .warnings == [] and .counts.same == (.rows | length)' <<<"$output"
    jq -e '.rows | length > 8 and all(.[]; .verdict == "same" and .regression == false)' <<<"$output"
    compare --all old.json old.json
    [[ "$output" == *"collective=broadcast bytes=65536 type=float32 root=0"* ]]
}

@test "compare: slower beyond noise and threshold exits 1, faster does not" {
    jq '.collectives[] |= (.ci95_percent = 2 | .in_place_ci95_percent = 2)' old.json >a.json
    jq '.collectives[1].time_us *= 1.2' a.json >b.json
    compare a.json b.json
    [ "$status" -eq 1 ]
    [[ "$output" == *time_us*"20.0"*"2.8"*"slower, regression"* ]]
    [[ "$output" == *"1 regressions over 5 %"* ]]
    compare --threshold 30 a.json b.json
    [ "$status" -eq 0 ]
    [[ "$output" == *slower* ]]
    compare b.json a.json
    [ "$status" -eq 0 ]
    [[ "$output" == *faster* ]]
    jq '.collectives[1].ci95_percent = 40' b.json >noisy.json
    compare a.json noisy.json
    [ "$status" -eq 0 ]
    jq '.collectives[0].wrong = 1' a.json >wrong.json
    compare --threshold 900 --json a.json wrong.json
    [ "$status" -eq 1 ]
    [ "$(jq -r '.rows[] | select(.regression) | .metric' <<<"$output")" = wrong ]
    compare --csv a.json b.json
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = list,row,metric,before,after,change_percent,noise_percent,verdict,regression ]
}

@test "compare: what else differs is said" {
    jq '.environment[0].kernel = "Linux 1.0" | .environment[0].plugin.sha256 = "00"
        | (.environment[0].nics[] | select(.netdev == "lo")).mtu = 576 | .complete = false' old.json >b.json
    compare old.json b.json
    [ "$status" -eq 0 ]
    [[ "$output" == *"differs: "*": kernel: "*"'Linux 1.0' now"* ]]
    [[ "$output" == *"plugin sha256: "*"'00' now"* ]]
    [[ "$output" == *", lo: mtu: '65536' before, '576' now"* ]]
    [[ "$output" == *"the second file is of a run that ended early"* ]]
}

@test "compare: what is not results is refused with its name, and exits 2" {
    compare old.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"expected two files"* ]]
    compare old.json nowhere.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *nowhere.json* ]]
    echo '{"a": 1,}' >broken.json
    compare old.json broken.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"broken.json:1:"*": not JSON"* ]]
    echo '{"end": {"streams": []}}' >iperf.json
    compare iperf.json old.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"iperf.json: not results of meshnet"*"meshnet bench --json"* ]]
    jq '.schema_version = 99' old.json >new.json
    compare old.json new.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"new.json: \"schema_version\" is 99"* ]]
    jq '.kind = "link" | .results = []' old.json >link.json
    compare old.json link.json
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'collectives'"*"'link'"* ]]
    compare --threshold x old.json old.json
    [ "$status" -eq 2 ]
}

@test "compare: on a narrow terminal a column goes and is named; --wide, COLUMNS and a pipe show it" {
    run script -qec "stty cols 90; '$MESHNET' compare --all old.json old.json" /dev/null
    echo "$output"
    [[ "$output" == *"(no room for: NOISE %, LIST; --wide shows all)"* ]]
    [[ "$output" == *"ROW "*" CHANGE %"* ]]
    while IFS= read -r line; do
        line=${line%$'\r'}
        [[ "$line" != *collective=* && "$line" != ROW* ]] || [ "${#line}" -le 90 ]
    done <<<"$output"
    for how in --wide "--wide --threshold 3"; do
        run script -qec "stty cols 90; '$MESHNET' compare --all $how old.json old.json" /dev/null
        [[ "$output" == *"CHANGE %  NOISE %"* ]]
        [[ "$output" != *"no room for"* ]]
    done
    run script -qec "stty cols 90; COLUMNS=300 '$MESHNET' compare --all old.json old.json" /dev/null
    [[ "$output" == *"CHANGE %  NOISE %"* ]]
    COLUMNS=40 compare --all old.json old.json
    [[ "$output" == *"CHANGE %  NOISE %"* ]]
}
