#!/usr/bin/env bats
# Many nodes asked at once, by meshnet node --hosts: the ways to them, and all that can go wrong.

load helper
load namespaces

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN MESHNET_SSH
    cd "$BATS_TEST_TMPDIR"
}

# ask OPTION…: about, of each host a line in $output.
ask()
{
    run --separate-stderr timeout 100 "$MESHNET" node about "$@" <<<'{}'
    echo "$output"
    echo "$stderr"
}

# of HOST FILTER: of that host's line.
of()
{
    jq -r "select(.host == \"$1\") | $2" <<<"$output"
}

# fake_ssh: an ssh that runs the command here, MESHNET_NODE being the host.
fake_ssh()
{
    cat >ssh <<-'END'
	#!/bin/bash
	while [ "$1" != -- ]; do shift; done
	MESHNET_NODE=$2 exec sh -c "$3"
	END
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
}

@test "crew: this host is asked without ssh, by whichever of its names" {
    export MESHNET_SSH=/nonexistent MESHNET_NODE=here
    ask --hosts "localhost,here,$(hostname)"
    [ "$status" -eq 0 ]
    [ "$(jq -r .answer.node <<<"$output")" = $'here\nhere\nhere' ]
}

@test "crew: hosts over ssh, each with its own answer" {
    fake_ssh
    ask --hosts a,b,localhost
    [ "$status" -eq 0 ]
    [ "$(of a .answer.node)" = a ]
    [ "$(of b .answer.node)" = b ]
    [ "$(of a .answer.build)" = "$(of localhost .answer.build)" ]
}

@test "crew: a host that ssh does not reach is named, and the others answer" {
    fake_ssh
    sed -i '3i [[ "$*" != *"-- b "* ]] || { echo "b: no route to host" >&2; exit 255; }' ssh
    ask --hosts a,b,c
    [ "$status" -eq 1 ]
    [ "$(of a .answer.node) $(of c .answer.node)" = "a c" ]
    [ "$(of b .code)" = PEER_DEAD ]
    [[ "$(of b .error)" == "b: ssh did not get there: b: no route to host. Try: ssh "*" b true" ]]
}

@test "crew: a host named twice, or none that is a name, is wrong usage" {
    ask --hosts a,b,a
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"host a is named twice"* ]]
    ask --hosts a,-oProxyCommand=x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'-oProxyCommand=x' is no host's name"* ]]
}
