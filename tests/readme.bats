#!/usr/bin/env bats
# What README.md and the other documents tell people to type exists.

load helper

@test "readme: every command and option that the documents show exists" {
    ROOT=$BATS_TEST_DIRNAME/..
    mapfile -t commands < <("$MESHNET" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p')
    for name in "${commands[@]}"; do
        "$MESHNET" "$name" --help >"$BATS_TEST_TMPDIR/$name"
    done
    for name in $("$MESHNET" topo --help | sed -n '/^usage/,/^Ex/s/^  \([a-z]*\)  .*/\1/p'); do
        "$MESHNET" topo "$name" --help >"$BATS_TEST_TMPDIR/topo $name"
    done
    seen=0
    while IFS=: read -r file line text; do
        read -r _ name rest <<<"${text//[\")]/ }"
        [ -e "$BATS_TEST_TMPDIR/$name" ] || {
            [[ "$name" == --* || "$name" == help ]] && continue
            echo "$file:$line: no command '$name': $text"
            false
        }
        [ "$name" != topo ] || [ ! -e "$BATS_TEST_TMPDIR/topo ${rest%% *}" ] || name="topo ${rest%% *}"
        # Up to what is somebody else's: a comment, another command, what run runs.
        rest=${rest%%[#;|]*}
        rest=${rest%% -- *}
        for option in $(grep -oE -- '(^|[ ([])--[a-z][a-z-]*' <<<" $rest" | tr -d ' (['); do
            seen=$((seen + 1))
            grep -qE -- "$option([^a-z-]|\$)" "$BATS_TEST_TMPDIR/$name" || {
                echo "$file:$line: $name has no $option: $text"
                false
            }
        done
    done < <(cd "$ROOT" && awk '
        # Lines of what is typed, and what stands between backticks elsewhere.
        /^ *```/ { typed = !typed; next }
        typed && match($0, /(^ *|[$] |bin\/|[$]\()meshnet [a-z-]/) {
            print FILENAME ":" FNR ":" substr($0, index($0, "meshnet "))
        }
        !typed { n = split($0, part, "`"); for (i = 2; i <= n; i += 2)
            if (part[i] ~ /^meshnet [a-z-]/) print FILENAME ":" FNR ":" part[i] }' README.md docs/*.md)
    [ "$seen" -ge 20 ]
}

@test "readme: the tables of its samples have the columns of today" {
    export NCCL_SOCKET_IFNAME=lo MESHNET_TOKEN=00112233445566778899aabbccddeeff NO_COLOR=1
    unset MESHNET_CONFIG MESHNET_NODE
    ROOT=$BATS_TEST_DIRNAME/..
    cd "$BATS_TEST_TMPDIR"
    port=$(free_port)
    start_server serve.out serve.err timeout 60 "$MESHNET" serve --listen 127.0.0.1 --port "$port" --once
    {
        "$MESHNET" discover
        "$MESHNET" discover --check "$ROOT/configs/pair-two-links.yaml"
        timeout 60 "$MESHNET" bench --peer 127.0.0.1 --port "$port" --sizes 8 --duration 30ms
    } >today
    wait "$SERVER"
    tr -s ' ' <today | sed 's/^ //; s/ $//' >squeezed
    seen=0
    while read -r head; do
        echo "README: $head"
        seen=$((seen + 1))
        grep -qxF -- "$head" squeezed || { cat today; false; }
    done < <(awk '/^```/ { block++ } block == 3' "$ROOT/README.md" | tr -s ' ' | sed 's/^ //; s/ $//' |
        grep -E '^(DEVICE|LINK|netdev) |^size (rounds|way) ')
    [ "$seen" -ge 4 ]
}
