#!/usr/bin/env bats
# meshnet topo: what holds for all of its parts.

load helper

@test "topo: parts are listed, have a page, and are asked for by name" {
    run "$MESHNET" topo --help
    [ "$status" -eq 0 ]
    parts=$(sed -n '/^usage/,/^$/!s/^  \([a-z]*\)  .*/\1/p' <<<"$output" | grep -v '^$')
    [[ "$parts" == *emit* ]]
    for part in $parts; do
        run "$MESHNET" topo "$part" --help
        [ "$status" -eq 0 ]
        [[ "$output" == "meshnet topo $part: "* ]]
        run "$MESHNET" help "topo-$part"
        [ "$status" -eq 0 ]
        grep -q "meshnet.*topo.*$part *(1)" <<<"$("$MESHNET" help topo)"
    done
}

@test "topo: no part, or an unknown one, is wrong usage" {
    run --separate-stderr "$MESHNET" topo
    [ "$status" -eq 2 ]
    [ "$stderr" = "meshnet topo: expected one of $(sed 's/ *$//' <<<"${stderr##*one of }")" ]
    [[ "$stderr" == *emit* ]]
    run --separate-stderr "$MESHNET" topo emti
    [ "$status" -eq 2 ]
    [[ "$stderr" == "meshnet topo: unknown part 'emti'; did you mean 'emit'?; expected one of "* ]]
}
