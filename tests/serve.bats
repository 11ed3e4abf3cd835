#!/usr/bin/env bats
# meshnet serve by itself; tests/bench.bats has it with clients.

load helper

serve()
{
    run --separate-stderr timeout 20 "$MESHNET" serve "$@"
    echo "$output"
    echo "$stderr"
}

@test "serve: an address that is not this host's fails with the address" {
    serve --listen 198.51.100.7
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"198.51.100.7 port 18515"* ]]
}

@test "serve: wrong usage" {
    serve --listen nonsense
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'nonsense'"* ]]
    serve --port 70000
    [ "$status" -eq 2 ]
    serve --clients 0
    [ "$status" -eq 2 ]
    serve operand
    [ "$status" -eq 2 ]
}

@test "serve: a token file that is none is named" {
    echo "too short" >"$BATS_TEST_TMPDIR/token"
    serve --token-file "$BATS_TEST_TMPDIR/token"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$BATS_TEST_TMPDIR/token"*"32 hexadecimal"* ]]
    serve --token-file "$BATS_TEST_TMPDIR/none"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"$BATS_TEST_TMPDIR/none"* ]]
}

@test "serve: without a token file it prints a fresh token each time, and ends on SIGINT" {
    for n in 1 2; do
        timeout -s INT 1 "$MESHNET" serve --port "$(free_port)" --listen 127.0.0.1 >"$BATS_TEST_TMPDIR/$n" || true
        grep -Eq '^token [0-9a-f]{32} ' "$BATS_TEST_TMPDIR/$n"
    done
    [ "$(grep ^token "$BATS_TEST_TMPDIR/1")" != "$(grep ^token "$BATS_TEST_TMPDIR/2")" ]
}
