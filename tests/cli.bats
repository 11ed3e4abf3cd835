#!/usr/bin/env bats
# The program around the commands: help, versions, mistakes, output that cannot be written.

load helper

@test "cli: help lists every command, and every command has help" {
    run "$MESHNET" --help
    [ "$status" -eq 0 ]
    commands=$(sed -n 's/^  \([a-z-]*\)  .*/\1/p' <<<"$output")
    [ "$(wc -w <<<"$commands")" -ge 5 ]
    for command in $commands; do
        run "$MESHNET" "$command" --help
        [ "$status" -eq 0 ]
        [[ "$output" == *"usage: meshnet $command"* ]]
        help=$output
        run "$MESHNET" help "$command"
        [ "$status" -eq 0 ]
        [ "$output" = "$help" ]
    done
}

@test "cli: no command is wrong usage" {
    run --separate-stderr "$MESHNET"
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ "$stderr" == *"usage: meshnet COMMAND"* ]]
}

@test "cli: a misspelt command or option names the near one" {
    run --separate-stderr "$MESHNET" discovr
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'discovr'"*"'discover'"* ]]
    run --separate-stderr "$MESHNET" bench --toke-file x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'--toke-file'"*"--token-file"* ]]
    run --separate-stderr "$MESHNET" bench --port
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--port needs a value"* ]]
}

@test "cli: the version is one line" {
    run "$MESHNET" --version
    [ "$status" -eq 0 ]
    [[ "$output" =~ ^meshnet\ [0-9.]+$ ]]
}

@test "cli: output that cannot be written is an error" {
    run --separate-stderr bash -c '"$0" --help >/dev/full' "$MESHNET"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"writing the output failed"* ]]
}
