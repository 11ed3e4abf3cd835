#!/usr/bin/env bats
# What every command has in common: help, unknown words, output that cannot be written, and a man
# page and a test of its own for each row of the command table.

load helper

setup()
{
    export NO_COLOR=1
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN MESHNET_LOG
    ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    mapfile -t COMMANDS < <("$MESHNET" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p')
    [ "${#COMMANDS[@]}" -ge 5 ]
    # "topo emit" and such: a command with parts is none by itself.
    mapfile -t PARTS < <(printf '%s\n' "${COMMANDS[@]}" | grep -vx topo)
    while read -r part; do
        PARTS+=("topo $part")
    done < <("$MESHNET" topo --help | sed -n '/^usage/,/^Ex/s/^  \([a-z]*\)  .*/\1/p')
    [ "${#PARTS[@]}" -ge "${#COMMANDS[@]}" ]
    cd "$BATS_TEST_TMPDIR"
}

meshnet()
{
    run --separate-stderr timeout 60 "$MESHNET" "$@"
    echo "meshnet $*: status $status"
    echo "$output"
    echo "$stderr"
}

@test "cli: help lists the commands and exits 0, however it is asked for" {
    meshnet --help
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    help=$output
    for word in help -h; do
        meshnet "$word"
        [ "$status" -eq 0 ]
        [ "$output" = "$help" ]
    done
    for name in discover serve bench verify-plugin completion; do
        [[ " ${COMMANDS[*]} " == *" $name "* ]]
    done
}

@test "cli: no arguments is wrong usage, and shows the commands on stderr" {
    meshnet
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ "$stderr" == *"usage: meshnet COMMAND"* ]]
}

@test "cli: version is the project's" {
    want=$(sed -n 's/^project(.*VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
    [ -n "$want" ]
    for word in --version -V; do
        meshnet "$word"
        [ "$status" -eq 0 ]
        [ "$output" = "meshnet $want" ]
    done
}

@test "cli: an unknown command exits 2 and names the nearest one" {
    meshnet discovr
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"unknown command 'discovr'"*"did you mean 'discover'?"* ]]
    meshnet help benhc
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"no page on 'benhc'; did you mean 'bench'?"* ]]
    meshnet something-else-entirely
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"unknown command"* ]]
    [[ "$stderr" != *"did you mean"* ]]
}

@test "cli: every command shows its options" {
    # Here and below a child's loop without "run", where there are many: each command here is traced.
    timeout 60 bash -c '
        for name; do
            help=$("$0" "$name" --help) && [[ $help == "meshnet $name: "*"usage: meshnet $name"* ]] &&
                short=$("$0" "$name" -h) && [ "$short" = "$help" ] || { echo "$name: $help"; exit 1; }
        done' "$MESHNET" "${COMMANDS[@]}"
}

@test "cli: help TOPIC shows the manual of every page, by its short name and its own" {
    for file in "$ROOT"/docs/man/*.[1-9]; do
        page=${file##*/}
        page=${page%.*}
        short=${page#meshnet[-.]}
        run --separate-stderr "$MESHNET" help "$short"
        echo "$short: status $status"
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        [[ "${lines[0]}" == "${page^^}("?")" ]]
        [ "${lines[1]}" = NAME ]
        text=$output
        # Every heading, every tag, and nothing of roff.
        sed -n 's/\\-/-/g; s/^\.SH "*\([^"]*\)"*$/\1/p' "$file" >headings
        awk 'NR == FNR { headings[$0]; next }
            { delete headings[$0] }
            /^ *\.[A-Z][A-Z]?( |$)/ || /\\[-f(&]/ { print "roff: " $0; bad = 1 }
            /^SYNOPSIS/ { synopsis = 1 }
            !synopsis && length > 160 { print "long: " $0; bad = 1 }
            /^DESCRIPTION/ { synopsis = 0 }
            END { for (heading in headings) { print "not there: " heading; bad = 1 } exit bad }' headings - <<<"$text"
        "$MESHNET" help "$page" | cmp - <(echo "$text")
    done
    # What is not filled stays as it is; what is filled is whole.
    "$MESHNET" help bench >bench
    words=$(sed -n '/^\.SH DESCRIPTION/,/^\.SH OPTIONS/p' "$ROOT/docs/man/meshnet-bench.1" | grep -v '^\.' |
        sed 's/\\(aq/'"'"'/g; s/\\-/-/g; s/\\f.//g; s/\\&//g' | tr -s ' ' '\n' | sort -u)
    comm -23 <(echo "$words") <(tr -s ' ' '\n' <bench | sort -u) >missing
    cat missing
    [ ! -s missing ]
    meshnet help yml
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"no page on 'yml'; did you mean 'yaml'?"*bench*verify-plugin* ]]
}

@test "cli: on a terminal with man, help TOPIC is man's" {
    command -v script >/dev/null || skip "script(1) is missing"
    mkdir -p bin
    printf '#!/bin/sh\necho "man $*: $(head -n 1)"\n' >bin/man
    chmod +x bin/man
    if [ -e /usr/bin/man.REAL ]; then skip "an image whose man shows no manuals"; fi
    run env PATH="$PWD/bin:$PATH" script -qec "'$MESHNET' help serve" /dev/null
    echo "$output"
    [[ "$output" == *'man -l -: .TH MESHNET-SERVE 1'* ]]
    # One that fails is replaced.
    printf '#!/bin/sh\nexit 3\n' >bin/man
    run env PATH="$PWD/bin:$PATH" script -qec "'$MESHNET' help serve" /dev/null
    [[ "$output" == *'MESHNET-SERVE(1)'*'EXIT STATUS'* ]]
}

@test "cli: an unknown option exits 2; a misspelt one is told its name" {
    timeout 60 bash -c '
        for name; do
            status=0
            said=$("$0" $name --no-such-option-anywhere 2>&1 >out) || status=$?
            [ $status -eq 2 ] && [ ! -s out ] &&
                [[ $said == "meshnet $name: unknown option '"'--no-such-option-anywhere'"'"* ]] ||
                { echo "$name: exit $status: $said"; exit 1; }
        done' "$MESHNET" "${PARTS[@]}"
    meshnet bench --pere x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"unknown option '--pere'"*"did you mean --peer?"* ]]
    meshnet discover --outptu=x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"did you mean --output?"* ]]
}

@test "cli: output that cannot be written exits 1 and says so" {
    for args in --help --version "completion bash" "bench --help"; do
        # shellcheck disable=SC2086
        run bash -c '"$0" "$@" 2>&1 >/dev/full' "$MESHNET" $args
        echo "$args: $status $output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"writing the output failed"* ]]
    done
}

@test "cli: a report that cannot be written is said, with the file that was" {
    local args mesh=$ROOT/configs/ring4.yaml
    cd "$BATS_TEST_TMPDIR"
    unset MESHNET_CONFIG
    while read -r args; do
        # shellcheck disable=SC2086
        run bash -c '"$0" "$@" 2>&1 >/dev/full' "$MESHNET" $args
        echo "$args: $status $output"
        [ "$status" -eq 1 ]
        [[ "$output" == "meshnet"*": "*writ* ]]
        [ ! -e o.yaml ] || { [[ "$output" == *"; o.yaml is written" ]] && rm o.yaml; }
    done <<-END
	discover
	discover --sysfs $ROOT/tests/fixtures/dgx-spark/sys --netlink $ROOT/tests/fixtures/dgx-spark/netlink.json -o o.yaml
	discover --check $mesh --json
	discover --merge $mesh -o o.yaml
	discover --neighbors --survey $ROOT/tests/fixtures/survey/spark-pair.json -o o.yaml
	env
	topo address -m $mesh -o o.yaml
	topo address -m $mesh --check
	topo plan --nodes 4 --ports 2 -o o.yaml
	topo ranks -m $mesh
	topo routes -m $mesh
	topo show -m $mesh
	topo show -m $mesh --json
	topo emit netplan -m $mesh --node spark-a
	tune --mesh $mesh
	verify-plugin --list
	verify-plugin --explain load.name
	END
}

@test "cli: a file that is named and not there is wrong usage" {
    local args mesh=$ROOT/configs/ring4.yaml
    cd "$BATS_TEST_TMPDIR"
    unset MESHNET_CONFIG
    export MESHNET_TOKEN=00112233445566778899aabbccddeeff
    while read -r args; do
        # shellcheck disable=SC2086
        meshnet $args
        echo "$args: $status $stderr"
        [ "$status" -eq 2 ]
        [[ "$stderr" == *nope* ]]
    done <<-END
	bench --peer localhost --token-file nope
	bench --peer localhost --plugin ./nope.so
	bench --links --mesh nope
	compare nope nope
	discover --agents --hosts b --token-file nope
	discover --check nope
	discover --merge nope
	discover --neighbors --key-file nope
	discover --neighbors --survey nope
	discover --sysfs nope --netlink nope
	doctor --answers nope
	env --mesh nope
	push nope
	report nope -o - --format md
	run --mesh nope --hosts a true
	serve --token-file nope
	topo address -m $mesh --survey nope
	topo show -m nope
	trace show nope
	tune --mesh $mesh --predict-from nope
	verify-plugin --baseline nope
	verify-plugin ./nope.so
	END
    meshnet topo show -m "$mesh" -o /dev/null
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"/dev/null is no file"* ]]
}

@test "cli: every command has a man page with all its options, and a test" {
    overview=$(sed 's/\\-/-/g' "$ROOT/docs/man/meshnet.1")
    for name in "${PARTS[@]}"; do
        page=$ROOT/docs/man/meshnet-${name// /-}.1
        echo "$name"
        [ -e "$page" ]
        [ -e "$ROOT/tests/${name// /-}.bats" ]
        grep -qF "meshnet-${name// /-} (1)" <<<"$overview"
        text=$(sed 's/\\-/-/g' "$page")
        "$MESHNET" $name --help | grep -oE '^  (-., |    )--[a-z-]+' | grep -oE -- '--.*' | sort -u >options
        missing=$(grep -oE -- '--[a-z-]+' <<<"$text" | sort -u | comm -23 options -)
        echo "$missing"
        [ -z "$missing" ]
    done
}

@test "cli: help and man page have the same words for each exit code" {
    for name in "${PARTS[@]}"; do
        rows=$("$MESHNET" $name --help | sed -n '/^Exit codes:/,$s/^  \([0-9]*\)  *\(.*\)/\1 \2/p')
        echo "$name: $rows"
        # The same beginnings everywhere.
        [[ $'\n'$rows == *$'\n2 wrong usage or configuration: '* ]]
        if [ "$name" != run ]; then
            [[ $'\n'$rows == *$'\n0 good'* ]]
            [[ $'\n'$rows == *$'\n1 failed: '* ]]
        fi
        # A line for each code, whatever follows it.
        page=$(sed -n '/^\.SH EXIT STATUS/,/^\.SH [^E]/p' "$ROOT/docs/man/meshnet-${name// /-}.1" | sed 's/\\-/-/g' |
            tr '\n' ' ' | sed 's/ \.TP \.B /\n/g')
        [ "$(grep -c '^[0-9]' <<<"$page")" -eq "$(wc -l <<<"$rows")" ]
        while read -r code text; do
            echo "  $code $text"
            [[ "${page,,}" == *"${code} ${text,,}."* ]]
        done <<<"$rows"
    done
}

@test "cli: a reader that leaves early is no failure" {
    export NCCL_SOCKET_IFNAME=lo
    while read -r args; do
        # shellcheck disable=SC2086
        run bash -c 'exec 3> >(:); wait $!; "$0" "$@" >&3; echo "$?"' "$MESHNET" ${args/RESULTS/"$BATS_TEST_DIRNAME/fixtures/results"}
        echo "$args: $output"
        [ "$output" = 0 ]
    done <<'ARGS'
--help
bench --help
completion bash
discover
discover --json
env --json
report RESULTS/link.json --format md -o -
verify-plugin --list
verify-plugin --rule load --format tap
verify-plugin --rule load --format junit
verify-plugin --rule load --json
ARGS
}
