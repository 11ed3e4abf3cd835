#!/usr/bin/env bats
# What README.md and the other documents tell people to type exists.

load helper

@test "readme: every command and option that the documents show exists" {
    ROOT=$BATS_TEST_DIRNAME/..
    mapfile -t commands < <("$MESHNET" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p')
    for name in "${commands[@]}"; do
        "$MESHNET" "$name" --help >"$BATS_TEST_TMPDIR/$name"
    done
    seen=0
    while IFS=: read -r file line text; do
        read -r _ name rest <<<"${text//[\")]/ }"
        [ -e "$BATS_TEST_TMPDIR/$name" ] || {
            [[ "$name" == --* || "$name" == help ]] && continue
            echo "$file:$line: no command '$name': $text"
            false
        }
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
