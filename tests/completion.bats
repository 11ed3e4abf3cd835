#!/usr/bin/env bats
# meshnet completion: the script runs in bash and completes what the tables hold.

load helper

setup()
{
    "$MESHNET" completion bash >"$BATS_TEST_TMPDIR/script"
}

# complete WORD...: the words offered for the last one, a line each.
complete_words()
{
    bash -c '
        source "$1" || exit 99
        shift
        COMP_WORDS=(meshnet "$@")
        COMP_CWORD=$#
        _meshnet
        printf "%s\n" "${COMPREPLY[@]}"
    ' bash "$BATS_TEST_TMPDIR/script" "$@"
}

@test "completion: the script is valid bash and registers itself" {
    bash -n "$BATS_TEST_TMPDIR/script"
    run bash -c 'source "$1" && complete -p meshnet' bash "$BATS_TEST_TMPDIR/script"
    [ "$status" -eq 0 ]
    [[ "$output" == *"-F _meshnet meshnet" ]]
}

@test "completion: commands" {
    [ "$(complete_words ver)" = verify-plugin ]
    [ "$(complete_words bench)" = bench ]
    [ -z "$(complete_words xyz)" ]
    missing=$("$MESHNET" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | sort | comm -23 - <(complete_words "" | sort))
    echo "$missing"
    [ -z "$missing" ]
}

@test "completion: every option of every command" {
    while read -r name; do
        offered=$(complete_words "$name" --)
        missing=$("$MESHNET" "$name" --help | grep -oE '^  (-., |    )--[a-z-]+' | grep -oE -- '--.*' | sort |
            comm -23 - <(sort <<<"$offered"))
        echo "$name: $missing"
        [ -z "$missing" ]
        grep -qx -- --help <<<"$offered"
    done < <("$MESHNET" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p')
    [ "$(complete_words bench --pe)" = --peer ]
    [ "$(complete_words help ya)" = yaml ]
}

@test "completion: another shell, or none, is wrong usage" {
    for args in "" zsh "bash bash"; do
        # shellcheck disable=SC2086
        run --separate-stderr "$MESHNET" completion $args
        [ "$status" -eq 2 ]
        [ -z "$output" ]
        [[ "$stderr" == *"expected the shell's name: bash"* ]]
    done
}
