#!/usr/bin/env bats
# meshnet push: the same mesh file on every node. ssh is a script that runs the command here, each host
# having a home of its own.

load helper

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN
    export NO_COLOR=1 XDG_CONFIG_HOME=
    CONFIGS=$BATS_TEST_DIRNAME/../configs
    cd "$BATS_TEST_TMPDIR"
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	grep -qx "\$2" $PWD/gone 2>/dev/null && { echo "\$2: no route to host" >&2; exit 255; }
	mkdir -p $PWD/\$2
	[ -s $PWD/\$2/in-force ] || [ -e $PWD/\$2/fresh ] || export MESHNET_CONFIG=$PWD/\$2/mesh.yaml
	MESHNET_NODE=\$2 XDG_CONFIG_HOME=$PWD/\$2 exec sh -c "\$3"
	END
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
    cp "$CONFIGS/ring4.yaml" mesh.yaml
    for node in a b c d; do
        mkdir -p spark-$node/meshnet
    done
}

push()
{
    run --separate-stderr timeout 100 "$MESHNET" push "$@"
    echo "$output"
    echo "$stderr"
}

# of HOST FIELD: out of the JSON.
of()
{
    jq -r ".hosts[] | select(.host == \"$1\") | .$2" <<<"$output"
}

@test "push: what was done though the report could not be written is said" {
    for rest in "; nothing was written" "; every host has the file"; do
        run bash -c '"$0" push mesh.yaml "$@" 2>&1 >/dev/full' "$MESHNET" ${dry---dry-run}
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"the report could not be written$rest" ]]
        dry=
    done
    cmp mesh.yaml spark-a/mesh.yaml || cmp mesh.yaml spark-a/meshnet/mesh.yaml
}

# untouched FILE…: nothing is left of writing.
no_leftovers()
{
    [ -z "$(find . -type f -path './spark-*' ! -name mesh.yaml ! -name fresh)" ]
}

@test "push: every node of the file gets it, and who had another is told" {
    sed 's/30s/40s/' mesh.yaml >spark-b/mesh.yaml
    { cat mesh.yaml; echo "# and a word"; } >spark-c/mesh.yaml
    cp mesh.yaml spark-d/mesh.yaml
    : >spark-a/mesh.yaml
    echo "nodes: 7" >spark-a/mesh.yaml
    stat -c %i spark-d/mesh.yaml >before
    push mesh.yaml --json
    [ "$status" -eq 0 ]
    for node in a b c d; do
        cmp mesh.yaml spark-$node/mesh.yaml
        [ "$(of spark-$node node)" = spark-$node ]
    done
    [ "$(of spark-a had)/$(of spark-a now)" = "a broken one/written" ]
    [[ "$(of spark-a differs)" == *"mesh.yaml:1:"* ]]
    [ "$(of spark-b had)/$(of spark-b differs)" = "another/different: transport.silence" ]
    [ "$(of spark-c had)/$(of spark-c now)" = "the same in other words/written" ]
    [ "$(of spark-d had)/$(of spark-d now)" = "the same/unchanged" ]
    stat -c %i spark-d/mesh.yaml | cmp before -
    no_leftovers
    push mesh.yaml --json
    [ "$(jq -c '[.hosts[].now] | unique' <<<"$output")" = '["unchanged"]' ]
}

@test "push: --dry-run shows who has what and writes nothing" {
    sed 's/30s/40s/' mesh.yaml >spark-b/mesh.yaml
    cp spark-b/mesh.yaml other
    for node in a c d; do cp mesh.yaml spark-$node; done
    push -n mesh.yaml
    [ "$status" -eq 0 ]
    [[ "$output" == *"spark-b had another: different: transport.silence"* ]]
    grep -qE '^spark-b .* another +not written' <<<"$output"
    grep -qE '^spark-a .* the same +unchanged' <<<"$output"
    cmp other spark-b/mesh.yaml
}

@test "push: a host that is not reached leaves all as they are, but with --partial" {
    for node in a b c d; do cp "$CONFIGS/pair.yaml" spark-$node/mesh.yaml; done
    echo spark-c >gone
    push mesh.yaml --json
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"meshnet push: spark-c: ssh did not get there: spark-c: no route to host"* ]]
    [ "$(of spark-c now)" = failed ]
    for node in a b d; do
        [ "$(of spark-$node now)" = "not written" ]
        cmp "$CONFIGS/pair.yaml" spark-$node/mesh.yaml
    done
    push mesh.yaml --partial
    [ "$status" -eq 1 ]
    [[ "$output" == *"1 of 4 hosts failed"* ]]
    for node in a b d; do cmp mesh.yaml spark-$node/mesh.yaml; done
    cmp "$CONFIGS/pair.yaml" spark-c/mesh.yaml
}

@test "push: a place that cannot be written is known before anything is" {
    for node in a b c d; do cp "$CONFIGS/pair.yaml" spark-$node/mesh.yaml; done
    # A folder of that name: for root, too.
    rm spark-b/mesh.yaml
    mkdir spark-b/mesh.yaml
    push mesh.yaml
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"spark-b"* ]]
    [ -d spark-b/mesh.yaml ]
    cmp "$CONFIGS/pair.yaml" spark-a/mesh.yaml
    cmp "$CONFIGS/pair.yaml" spark-d/mesh.yaml
    no_leftovers
}

@test "push: a host without a file gets it where one is looked for, with its folders" {
    rmdir spark-a/meshnet
    : >spark-a/fresh
    if [ -e /etc/meshnet/mesh.yaml ]; then
        skip "this host has a mesh file of its own"
    fi
    place=$PWD/spark-a/meshnet/mesh.yaml
    [ "$(id -u)" -ne 0 ] || place=/etc/meshnet/mesh.yaml # which a test leaves alone
    push -n mesh.yaml --hosts spark-a --json
    [ "$status" -eq 0 ]
    [ "$(of spark-a path) $(of spark-a had)" = "$place none" ]
    if [ "$(id -u)" -ne 0 ]; then
        push mesh.yaml --hosts spark-a
        [ "$status" -eq 0 ]
        cmp mesh.yaml "$place"
    fi
}

@test "push: --to PATH, with its folders; --hosts; a host that is no node of it" {
    push mesh.yaml --hosts spark-b,spark-x --to "$PWD/new/folder/mesh.yaml" --json
    [ "$status" -eq 0 ]
    cmp mesh.yaml new/folder/mesh.yaml
    [ "$(stat -c %a new/folder/mesh.yaml)" = 644 ]
    [ "$(of spark-b path)" = "$PWD/new/folder/mesh.yaml" ]
    push mesh.yaml --hosts spark-x --to "$PWD/new/folder/mesh.yaml"
    [[ "$output" == *'spark-x has the file, and is no node of it: MESHNET_NODE="spark-x"'* ]]
    push mesh.yaml --to relative.yaml
    [ "$status" -eq 2 ]
    push mesh.yaml --hosts spark-b --agents --to "$PWD/anywhere.yaml"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"agents write a mesh file to its place only"* ]]
}

@test "push: this host without ssh, the file in force, and what is none" {
    export MESHNET_SSH=/nonexistent MESHNET_CONFIG=$PWD/spark-a/mesh.yaml
    cp mesh.yaml spark-a/mesh.yaml
    push --hosts localhost --json
    [ "$status" -eq 0 ]
    [ "$(of localhost now)" = unchanged ]
    echo "nodes: 7" >broken.yaml
    push broken.yaml --hosts localhost
    [ "$status" -eq 2 ]
    [[ "$stderr" == "meshnet push: broken.yaml:1:"* ]]
    cmp mesh.yaml spark-a/mesh.yaml
    push nowhere.yaml --hosts localhost
    [ "$status" -eq 2 ]
    push a b
    [ "$status" -eq 2 ]
}

@test "push: verbs take a mesh file alone, whole, and to its place" {
    export MESHNET_CONFIG=$PWD/spark-a/mesh.yaml
    cp mesh.yaml spark-a/mesh.yaml
    jq -n --rawfile text "$CONFIGS/pair.yaml" '{text: $text, path: "/tmp/never-written.yaml"}' >ask
    timeout 60 "$MESHNET" node put-mesh <ask >answer
    [ "$(jq -r .path answer)" = "$PWD/spark-a/mesh.yaml" ]
    [ ! -e /tmp/never-written.yaml ]
    cmp "$CONFIGS/pair.yaml" spark-a/mesh.yaml
    for ask in '{}' '{"text": 7}' '{"text": "nodes: 7"}' '{"text": "", "place": "elsewhere"}'; do
        run timeout 60 "$MESHNET" node put-mesh <<<"$ask"
        echo "$output"
        [ "$status" -ne 0 ]
        jq -e .error <<<"$output"
        cmp "$CONFIGS/pair.yaml" spark-a/mesh.yaml
    done
    run timeout 60 "$MESHNET" node put-mesh-at <<<'{"path": "relative"}'
    [ "$status" -eq 1 ]
    no_leftovers
}

@test "push: a symbolic link stays one, and what it leads to is replaced" {
    mkdir spark-b/kept
    sed 's/30s/40s/' mesh.yaml >spark-b/kept/mesh.yaml
    ln -s kept/mesh.yaml spark-b/mesh.yaml
    push mesh.yaml --hosts spark-b
    [ "$status" -eq 0 ]
    [ "$(readlink spark-b/mesh.yaml)" = kept/mesh.yaml ]
    cmp mesh.yaml spark-b/kept/mesh.yaml
}

@test "push: a file of another user in a folder like /tmp is not writable" {
    [ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
    setpriv --reuid=65534 --regid=65534 --clear-groups "$MESHNET" --version || skip "another user cannot run $MESHNET"
    open=$(mktemp -d)
    chmod 1777 "$open"
    cp mesh.yaml "$open/mesh.yaml"
    run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups \
        env MESHNET_CONFIG="$open/mesh.yaml" timeout 60 "$MESHNET" node mesh <<<'{}'
    rm -rf "$open"
    echo "$output"
    [ "$(jq .exists <<<"$output")" = true ]
    [ "$(jq .writable <<<"$output")" = false ]
}
