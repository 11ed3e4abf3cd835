#!/usr/bin/env bats
# Text from outside reaches no terminal as it is: what moves the cursor, names a window or turns the
# direction of writing is put into every field that holds text, and looked for in what comes out.

load helper

FIXTURES="$BATS_TEST_DIRNAME/fixtures"
# ESC [ 31 m, BEL, C1 as a byte and as UTF-8, U+202E, U+2066, DEL.
BAD=$'\e[31m\a\x9b\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\x7f'

setup()
{
    cd "$BATS_TEST_TMPDIR"
    export NO_COLOR=1
}

# quiet FILE…: nothing of it is there.
quiet()
{
    local traps='[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]'
    if LC_ALL=C grep -qP "$traps" "$@"; then
        LC_ALL=C grep -nP "$traps" "$@" | cat -v
        return 1
    fi
    iconv -f UTF-8 -t UTF-8 "$@" >/dev/null
}

# harmless FILE: and what it was put beside is.
harmless()
{
    quiet "$1" && grep -q '?\[31m' "$1"
}

@test "escapes: discover shows none out of sysfs" {
    local field n=0
    for host in hgx-h100 mlx4-vpi; do
        cp -r "$FIXTURES/$host/sys" .
        chmod -R u+w sys
        while read -r field; do
            printf 'x%s' "$BAD" >>"$field"
            n=$((n + 1))
        done < <(find sys -type f \( -name fw_ver -o -name board_id -o -name hca_type \
            -o -name product_name -o -name phys_port_name -o -name phys_switch_id \
            -o -name state -o -name phys_state -o -name rate -o -name link_layer \
            -o -name node_guid -o -name sys_image_guid -o -name current_link_speed \
            -o -name max_link_speed -o -name uevent \))
        for format in '' --json --all; do
            "$MESHNET" discover --sysfs sys --netlink "$FIXTURES/$host/netlink.json" $format >out 2>err || [ $? -eq 1 ]
            cat out err >both
            harmless both
        done
        rm -rf sys
    done
    [ "$n" -gt 50 ]
}

@test "escapes: compare and report show none out of a results file" {
    local kind path
    for kind in link collectives matrix; do
        # Every text that has no fixed values; a name twice, so that rows find each other.
        jq --arg bad $'\e[31m\a\u009b\u202e\u2066\x7f' '
            walk(if type == "string" and (test("^(meshnet-results|link|collectives|matrix|ok|good|dead|slow|a-b|b-a|both|bandwidth|latency)$") | not)
                 then . + $bad else . end) |
            if .started then . else .started = $bad end' "$FIXTURES/results/$kind.json" >$kind.json
        jq -e '[.. | strings | select(test("\u202e"))] | length > 10' $kind.json
        "$MESHNET" compare --all $kind.json $kind.json >out 2>&1 || true
        "$MESHNET" compare --all --json $kind.json $kind.json >>out 2>&1 || true
        "$MESHNET" compare --all $kind.json "$FIXTURES/results/$kind.json" >>out 2>&1 || true
        harmless out
        for format in html md csv; do
            "$MESHNET" report $kind.json -o page.$format >out 2>&1 || true
            quiet page.$format
        done
    done
    printf '{"schema": "%s"}' "$BAD" >none.json
    "$MESHNET" compare none.json none.json >out 2>&1 || true
    harmless out
}

@test "escapes: a mesh file with none of them is refused with line and column" {
    for text in $'\xe2\x80\xae' $'\xe2\x81\xa6' $'\xc2\x9b' $'\e'; do
        printf 'nodes:\n  - name: a%sb\n' "$text" >mesh.yaml
        run --separate-stderr "$MESHNET" env --mesh mesh.yaml
        echo "$stderr"
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"mesh.yaml:2:12: control character U+"* ]]
        printf '%s' "$stderr" >out
        quiet out
    done
    printf 'nodes:\n  - name: "a\\u202eb"\n' >mesh.yaml
    run --separate-stderr "$MESHNET" env --mesh mesh.yaml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"mesh.yaml:2:11: "* ]]
}
