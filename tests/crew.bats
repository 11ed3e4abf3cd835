#!/usr/bin/env bats
# Many nodes asked at once, by meshnet node --hosts: the ways to them, and all that can go wrong.

load helper
load namespaces

setup()
{
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN MESHNET_SSH
    cd "$BATS_TEST_TMPDIR"
    mkdir there bin
}

teardown()
{
    [ ! -e sshd.pid ] || kill "$(cat sshd.pid)"
    [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || true
    [ -z "$open" ] || rm -rf "$open"
    cd "$BATS_TEST_TMPDIR"
    : >go
    [ ! -s hangs ] || kill "$(cat hangs)" 2>/dev/null || true
}

# ask OPTION…: about, of each host a line in $output.
ask()
{
    run --separate-stderr timeout 300 "$MESHNET" node about "$@" <<<'{}'
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
    sed -i '3i [[ "$*" != *"-- b "* ]] || { printf "b: no route to host\\r\\n" >&2; exit 255; }' ssh
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

@test "crew: more hosts than can be asked at one time are refused before any is" {
    fake_ssh
    ask --hosts "$(seq -s, -f 'n%g' 257)"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"257 hosts: at most 256 are asked at one time; name some of them with --hosts"* ]]
    [ -z "$output" ]
}

# lacking: the hosts of fake_ssh have no meshnet, TMPDIR in there/, and bin/ first in PATH.
lacking()
{
    fake_ssh
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	command=\${3//"$MESHNET"//nonexistent/meshnet}
	export TMPDIR=$PWD/there PATH=$PWD/bin:/usr/sbin:/usr/bin:/sbin:/bin
	MESHNET_NODE=\$2 exec sh -c "\$command"
	END
}

# program NAME: one of bin/, from standard input.
program()
{
    { echo '#!/bin/sh' && cat; } >"bin/$1"
    chmod +x "bin/$1"
}

# real_ssh SCRIPT HOST…: an ssh to a server of this test's on loopback, by each of the names; bash runs
# the script there with the command in $SSH_ORIGINAL_COMMAND. See sshd_at for its home.
real_ssh()
{
    local port
    [ -x /usr/sbin/sshd ] || skip "no OpenSSH server"
    port=$(free_port)
    ssh-keygen -q -t ed25519 -N '' -f key
    echo "$1" >forced
    cat >sshd_config <<-END
	ListenAddress 127.0.0.1
	Port $port
	HostKey $PWD/key
	AuthorizedKeysFile $PWD/key.pub
	StrictModes no
	UsePAM no
	MaxStartups 200
	PidFile $PWD/sshd.pid
	SetEnv TMPDIR=$PWD/there HOME=$PWD
	ForceCommand bash $PWD/forced
	END
    printf 'Host *\nHostName 127.0.0.1\nPort %s\nIdentityFile %s\nIdentitiesOnly yes
StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\nKexAlgorithms curve25519-sha256\n' \
        "$port" "$PWD/key" >ssh_config
    printf '#!/bin/sh\nexec ssh -F %s "$@"\n' "$PWD/ssh_config" >ssh
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh
    mkdir -p /run/sshd
    /usr/sbin/sshd -f "$PWD/sshd_config" 3>&-
    for _ in $(seq 300); do
        [ -e sshd.pid ] && return
        sleep 0.1
    done
    return 1
}

# gone COMMAND…: waits until it fails.
gone()
{
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "still there: $*"
    return 1
}

# come COMMAND…: waits until it succeeds.
come()
{
    for _ in $(seq 300); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "never came: $*"
    return 1
}

@test "crew: a host without this meshnet gets a copy with its libraries, and has none afterwards" {
    lacking
    ask --hosts a,b,localhost
    [ "$status" -eq 0 ]
    [[ "$(of a .answer.program)" == "$PWD/there/meshnet."*/meshnet ]]
    [ "$(of a .answer.build)" = "$(of localhost .answer.build)" ]
    [ "$(of a .answer.program)" != "$(of b .answer.program)" ]
    [[ "$stderr" == *"meshnet node: a: has a copy of this meshnet until the end"* ]]
    [ -z "$(ls -A there)" ]
    # The libraries are its own: the loader takes them before the host's.
    program tar <<-'END'
	/usr/bin/tar "$@" || exit
	LD_TRACE_LOADED_OBJECTS=1 "$4/meshnet" >loaded
	END
    ask --hosts a
    [ "$status" -eq 0 ]
    grep -q "libcjson.so.1 => $PWD/there/meshnet.[^/]*/meshnet.libs/libcjson.so.1" loaded
    [ "$(grep -c "meshnet.libs/libc\.so" loaded)" -eq 0 ]
    [ -z "$(ls -A there)" ]
}

@test "crew: what a shell says when it starts is no part of an answer" {
    lacking
    sed -i '2i printf "%s\\n" Welcome "{no json}" "have a nice day" "lack of sleep" "ready to serve" "none of it"' ssh
    ask --hosts a
    [ "$status" -eq 0 ]
    [ "$(of a .answer.node)" = a ]
}

@test "crew: a host of another architecture is told with both and what to do" {
    lacking
    program uname <<<'echo riscv64'
    ask --hosts a
    [ "$status" -eq 1 ]
    [ "$(of a .code)" = CONFIG ]
    [[ "$(of a .error)" == "a: it has no meshnet of this build, and cannot take a copy: it is riscv64, this host is $(uname -m). Build this version "* ]]
    [ -z "$(ls -A there)" ]
}

@test "crew: a host whose C library does not run the copy is told with both" {
    lacking
    program tar <<-'END'
	/usr/bin/tar "$@" || exit
	printf '#!/bin/sh\necho "meshnet: version GLIBC_9.99 not found" >&2\nexit 1\n' >"$4/meshnet"
	END
    program getconf <<<'echo glibc 2.17'
    ask --hosts a
    [ "$status" -eq 1 ]
    [ "$(of a .code)" = CONFIG ]
    [[ "$(of a .error)" == *"this host's (glibc 2."*") does not run there ($(uname -m) glibc 2.17): "*"GLIBC_9.99 not found"* ]]
    [ -z "$(ls -A there)" ]
}

@test "crew: a host with no place for a copy, or whose place cannot run programs" {
    lacking
    program mktemp <<<'exit 1'
    ask --hosts a
    [ "$status" -eq 1 ]
    [[ "$(of a .error)" == "a: it has no meshnet of this build "*"takes no copy: neither /tmp"* ]]
    # The first folder that works is taken.
    program mktemp <<-END
	case \$2 in "$PWD/there/"*) exit 1;; /var/tmp/*) exec /usr/bin/mktemp -d "$PWD/there/v.XXXXXX";; esac
	exit 1
	END
    ask --hosts a
    [ "$status" -eq 0 ]
    [[ "$(of a .answer.program)" == "$PWD/there/v."* ]]
    [ -z "$(ls -A there)" ]
}

@test "crew: the connection breaks while the copy comes: nothing is left" {
    lacking
    # As much as comes before it breaks.
    program head <<<'exec /usr/bin/head -c 100000'
    ask --hosts a
    [ "$status" -eq 1 ]
    [ "$(of a .code)" = PROTO ]
    [ -z "$(ls -A there)" ]
}

@test "crew: twenty hosts at once by a real ssh" {
    real_ssh 'exec sh -c "$SSH_ORIGINAL_COMMAND"'
    ask --hosts "$(seq -s , -f 'n%g' 20)"
    [ "$status" -eq 0 ]
    [ "$(jq -r '.host' <<<"$output")" = "$(seq -f 'n%g' 20)" ]
    [ "$(jq -r '.answer.build' <<<"$output" | sort -u | wc -l)" -eq 1 ]
}

# hanging: a real ssh to hosts without meshnet, where the answer to a question never comes.
hanging()
{
    real_ssh "command=\${SSH_ORIGINAL_COMMAND//\"$MESHNET\"//nonexistent/meshnet}
        export PATH=/usr/sbin:/usr/bin:/sbin:/bin
        case \$command in *'exec \"\$0\" node about'*) echo \$\$ >$PWD/hangs; exec sleep 300;; esac
        exec sh -c \"\$command\""
    "$MESHNET" node about --hosts a <<<'{}' >out 2>err 3>&- &
    ASKER=$!
    come [ -e hangs ]
    [ -n "$(ls -A there)" ]
}

# For gone.
there_is_something()
{
    [ -n "$(ls -A there)" ]
}

@test "crew: an ssh that is killed is told, and the copy goes" {
    hanging
    kill -KILL $(pgrep -P "$ASKER")
    run wait "$ASKER"
    cat out err
    [ "$(jq -r .code out)" = PEER_DEAD ]
    [ "$(jq -r .error out)" = "a: its ssh was ended by signal 9" ]
    gone there_is_something
}

@test "crew: the asker is killed, and the copy goes" {
    hanging
    sshs=$(pgrep -P "$ASKER")
    kill -KILL "$ASKER"
    wait "$ASKER" || true
    for pid in $sshs; do
        gone kill -0 "$pid"
    done
    gone there_is_something
}

@test "crew: Ctrl-C ends all, and takes the copy along" {
    hanging
    sshs=$(pgrep -P "$ASKER")
    kill -INT "$ASKER"
    code=0
    wait "$ASKER" || code=$?
    cat out err
    [ $code -eq 1 ]
    [ "$(jq -r .error out)" = "a: interrupted" ]
    [ -z "$(ls -A there)" ]
    for pid in $sshs; do
        gone kill -0 "$pid"
    done
}

# unpacking: the same, where the copy is unpacked and not yet tried, until there is a file go.
unpacking()
{
    program tar <<-END
	/usr/bin/tar "\$@" || exit
	: >$PWD/unpacked
	for _ in \$(seq 600); do
	    [ ! -e $PWD/go ] || exit 0
	    sleep 0.1
	done
	END
    real_ssh "command=\${SSH_ORIGINAL_COMMAND//\"$MESHNET\"//nonexistent/meshnet}
        export PATH=$PWD/bin:/usr/sbin:/usr/bin:/sbin:/bin
        exec sh -c \"\$command\""
    "$MESHNET" node about --hosts a <<<'{}' >out 2>err 3>&- &
    ASKER=$!
    come [ -e unpacked ]
    there_is_something
}

# ends_unpacking SIGNAL: the asker; the shell there hears of it by its next word.
ends_unpacking()
{
    local sshs pid
    unpacking
    sshs=$(pgrep -P "$ASKER")
    kill "-$1" "$ASKER"
    wait "$ASKER" || true
    for pid in $sshs; do
        gone kill -0 "$pid"
    done
    # Its server lets go of the shell's output, too.
    gone pgrep -P "$(cat sshd.pid)"
    : >go
    gone there_is_something
}

@test "crew: the asker is killed while a copy is unpacked, and it goes" {
    ends_unpacking KILL
}

@test "crew: Ctrl-C while a copy is unpacked, and it goes" {
    ends_unpacking INT
}

@test "crew: a verb that sudo runs is for this host alone, and names no file that its caller may not read" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    touch token
    # As sudo leaves it.
    export SUDO_UID=65534 SUDO_GID=65534 SUDO_USER=nobody
    for bad in "--hosts a" "--hosts localhost" "--token-file token" --agents; do
        run --separate-stderr "$MESHNET" node about $bad <<<'{}'
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"not for sudo"* ]]
        # Behind "--" as a rule of sudoers has it.
        run --separate-stderr "$MESHNET" node about -- $bad <<<'{}'
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"unexpected '${bad%% *}'"* ]]
    done
    run "$MESHNET" node apply -- --help </dev/null
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    open=$(mktemp -d)
    chmod 755 "$open"
    printf 'version: 1\nnodes: []\n' | tee "$open/mine" >"$open/roots"
    chmod 600 "$open/roots"
    chmod 644 "$open/mine"
    run --separate-stderr "$MESHNET" node about -- "MESHNET_CONFIG=$open/roots" <<<'{}'
    echo "$stderr"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"MESHNET_CONFIG: $open/roots: Permission denied, as nobody reads it"* ]]
    ln -s "$open/roots" "$open/link"
    run "$MESHNET" node about -- "MESHNET_CONFIG=$open/link" <<<'{}'
    [ "$status" -eq 2 ]
    run --separate-stderr "$MESHNET" node about -- "MESHNET_CONFIG=$open/mine" <<<'{}'
    [ "$status" -eq 0 ]
    [ "$(jq -r .root <<<"$output")" = true ]
    rm -r "$open"
    # A file that is missing stops none who can do without it.
    run "$MESHNET" node about -- MESHNET_CONFIG=/nowhere <<<'{}'
    [ "$status" -eq 0 ]
    run "$MESHNET" node doctor -- MESHNET_CONFIG=/nowhere <<<'{"only": ["mesh"]}'
    [ "$(jq -r .mesh_error <<<"$output")" = "/nowhere: No such file or directory" ]
    unset SUDO_UID
    run "$MESHNET" node about -- MESHNET_CONFIG=/nowhere MESHNET_LOG= <<<'{}'
    [ "$status" -eq 0 ]
}

# The file $open/f becomes a link to root's while a doctor by sudo waits for its question; the answer
# is in "answer".
put_off()
{
    mkfifo question
    "$MESHNET" node doctor -- "MESHNET_CONFIG=$open/f" <question >answer 3>&- &
    exec 9>question
    for _ in {1..100}; do
        [[ "$(cat "/proc/$!/comm" "/proc/$!/wchan" | tr '\0\n' '  ')" == meshnet*poll* ]] && break
        sleep 0.1
    done
    ln -sf "$open/roots" "$open/f"
    echo '{"only": ["mesh"]}' >&9
    exec 9>&-
    wait $!
    rm question
    cat answer
}

@test "crew: what a verb by sudo reads is the file that its caller named, whatever its name leads to later" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    export SUDO_UID=65534 SUDO_GID=65534 SUDO_USER=nobody
    open=$(mktemp -d)
    chmod 755 "$open"
    echo 'a secret of root' >"$open/roots"
    chmod 600 "$open/roots"
    printf 'version: 1\nnodes: [{name: a}]\n' >"$open/f"
    chmod 644 "$open/f"
    put_off
    [ "$(jq -r .mesh_path answer)" = "$open/f" ]
    [ "$(jq 'has("mesh")' answer)" = true ]
    run ! grep -q secret answer
    # One that was missing stays so.
    rm "$open/f"
    put_off
    [ "$(jq -r .mesh_error answer)" = "$open/f: No such file or directory" ]
    # Nor one that only the asker names, or that lies where the caller's own does.
    mkdir "$open/meshnet"
    ln -s "$open/roots" "$open/meshnet/mesh.yaml"
    run "$MESHNET" node doctor -- <<<"{\"only\": [\"mesh\"], \"file\": \"$open/f\"}"
    [[ "$output" != *secret* ]]
    XDG_CONFIG_HOME=$open run "$MESHNET" node doctor -- <<<'{"only": ["mesh"]}'
    echo "$output"
    [[ "$output" != *secret* ]]
    [[ "$(jq -r .error <<<"$output")" == *"$open/meshnet/mesh.yaml: Permission denied, as nobody reads it"* ]]
    rm -r "$open"
}

# nobody COMMAND…
nobody()
{
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

@test "crew: where root is needed sudo is asked, without a password; else what it would need" {
    [ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
    nobody "$MESHNET" --version || skip "another user cannot run $MESHNET"
    # Where others may look.
    open=$(mktemp -d)
    chmod 755 "$open"
    cd "$open"
    mkdir bin
    fake_ssh
    sed -i "3i PATH=$PWD/bin:\$PATH" ssh
    program sudo <<<'echo "sudo: a password is required" >&2; exit 1'
    run --separate-stderr nobody timeout 60 "$MESHNET" node put-mesh-system --hosts a,localhost <<<'{}'
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(of a .code)" = CONFIG ]
    [[ "$(of a .error)" == "a: 'put-mesh-system' needs root: allow sudo without a password for it (in sudoers: NAME ALL=(root) NOPASSWD: "* ]]
    rule=$(of a .error)
    exe=$(readlink -f "$MESHNET")
    [[ "$rule" == *"$exe node apply -- *, $exe node "*"$exe node put-mesh-system -- *), or come as root" ]]
    [[ "$rule" == *", $exe node apply-check -- *,"* ]] # raw sockets ask more
    [[ "$rule" != *"put-mesh-at"* && "$rule" != *doctor* ]]
    [[ "$(of localhost .error)" == "localhost: 'put-mesh-system' needs root: "* ]]
    # With a sudo that works, and drops the environment.
    touch log
    chmod 666 log
    program sudo <<-END
	echo "\$*" >>$PWD/log
	shift 2
	exec env -i "\$@"
	END
    run --separate-stderr nobody timeout 60 "$MESHNET" node put-mesh-system --hosts a <<<'{}'
    cat log
    grep -qx -- "-n -- $MESHNET node put-mesh-system -- MESHNET_NODE=a MESHNET_LOG=" log
    [ "$(grep -vc -- "-n -- $MESHNET node put-mesh-system --" log)" -eq 0 ]
    # A program that its user may replace is none to be root by.
    mkdir own
    cp "$exe" own/meshnet
    chown -R 65534 own
    program sudo <<<'exit 1'
    MESHNET_SSH=$PWD/ssh nobody timeout 60 own/meshnet node put-mesh-system --hosts localhost <<<'{}' >out || true
    cat out
    [[ "$(jq -r .error out)" == *"needs root: install this version of meshnet there"* ]]
    [ "$(grep -c NOPASSWD out)" -eq 0 ]
    # Who is root asks none.
    : >log
    run --separate-stderr timeout 60 "$MESHNET" node put-mesh-system --hosts a <<<'{}'
    [ ! -s log ]
}

@test "crew: agents answer, each for itself; another token and none are told" {
    echo 00112233445566778899aabbccddeeff >token
    echo ff112233445566778899aabbccddeeff >other
    port=$(free_port)
    start_server out err timeout 120 "$MESHNET" serve --listen 127.0.0.1,127.0.0.2 --port "$port" \
        --token-file token --clients 8
    ask --hosts 127.0.0.1,127.0.0.2,localhost --agents --port "$port" --token-file token
    [ "$status" -eq 0 ]
    [ "$(of 127.0.0.2 .answer.build)" = "$(of localhost .answer.build)" ]
    ask --hosts 127.0.0.1 --agents --port "$port" --token-file other
    [ "$status" -eq 1 ]
    [ "$(of 127.0.0.1 .code)" = AUTH ]
    [[ "$(of 127.0.0.1 .error)" == "127.0.0.1: "*"refused this token"* ]]
    ask --hosts 127.0.0.1,127.0.0.3 --agents --port "$port" --token-file token
    [ "$status" -eq 1 ]
    [ "$(of 127.0.0.1 .error)" = null ]
    [[ "$(of 127.0.0.3 .error)" == *"connection refused: is meshnet serve running there"* ]]
    ask --hosts 127.0.0.1 --agents --port "$port"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *MESHNET_TOKEN*--token-file* ]]
}

@test "crew: an agent changes its host only with --manage, and writes no file wherever it is told" {
    echo 00112233445566778899aabbccddeeff >token
    port=$(free_port)
    # put VERB
    put()
    {
        run --separate-stderr timeout 60 "$MESHNET" node "$1" --hosts 127.0.0.1 --agents \
            --port "$port" --token-file token <<<'{}'
        echo "$output"
    }
    start_server out err env HOME="$PWD" timeout 120 "$MESHNET" serve --listen 127.0.0.1 \
        --port "$port" --token-file token
    put put-mesh
    [ "$status" -eq 1 ]
    [ "$(of 127.0.0.1 .code)" = CONFIG ]
    [[ "$(of 127.0.0.1 .error)" == *"'put-mesh' changes the host"*"--manage"* ]]
    kill "$SERVER"
    wait "$SERVER" || true
    start_server out err env HOME="$PWD" timeout 120 "$MESHNET" serve --listen 127.0.0.1 \
        --port "$port" --token-file token --manage
    put put-mesh
    [ "$status" -eq 1 ]
    [[ "$(of 127.0.0.1 .error)" != *--manage* ]]
    put put-mesh-at
    [[ "$(of 127.0.0.1 .error)" == *"'put-mesh-at' is not for a meshnet serve to do: ask over ssh"* ]]
}

@test "crew: a host whose name leads nowhere is reached by its address in the mesh file" {
    fake_ssh
    # By its name it is not known.
    sed -i '2i [[ "$*" == *"HostName=10.7.0.2"* ]] || { echo "ssh: unknown" >&2; exit 255; }' ssh
    export MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_NODE=a
    echo 'version: 1
nodes: [{name: a, nics: [{netdev: lo, addresses: [127.0.0.1/8]}]},
  {name: b, nics: [{netdev: x0, addresses: [10.6.0.2/24]}, {netdev: x1, addresses: [10.7.0.2/24]}]}]' >mesh.yaml
    ask --hosts b
    [ "$status" -eq 0 ]
    [ "$(of b .answer.node)" = b ]
}

# two_places: b has an address in the mesh file, and is not known by its name.
two_places()
{
    fake_ssh
    export MESHNET_CONFIG=$PWD/mesh.yaml MESHNET_NODE=a
    echo 'version: 1
nodes: [{name: a, nics: [{netdev: lo, addresses: [127.0.0.1/8]}]},
  {name: b, nics: [{netdev: x0, addresses: [10.6.0.2/24]}]}]' >mesh.yaml
}

@test "crew: a host reached nowhere is told with what its own name led to, and each address" {
    two_places
    sed -i '2i [[ "$*" == *"HostName=10.6.0.2"* ]] && echo "no route" >&2 || echo "ssh: b is unknown" >&2; exit 255' ssh
    ask --hosts b
    [ "$status" -eq 1 ]
    [ "$(of b .code)" = PEER_DEAD ]
    [ "$(of b .error)" = "b: ssh did not get there: ssh: b is unknown. Try: ssh -o BatchMode=yes b true; nor at 10.6.0.2: ssh did not get there: no route" ]
}

@test "crew: a host that is lost once it was reached is looked for nowhere else" {
    two_places
    lacking
    sed -i '2i echo x >>asked; [[ "$*" != *mktemp* ]] || { echo "lost it" >&2; exit 255; }' ssh
    ask --hosts b
    [ "$status" -eq 1 ]
    [[ "$(of b .error)" == "b: ssh did not get there: lost it. "* ]]
    [[ "$(of b .error)" != *"nor at"* ]]
    [ "$(wc -l <asked)" -eq 2 ]
}

@test "crew: a connection lost in mid-answer is told as that" {
    fake_ssh
    sed -i "3i [[ \$3 != *'exec \"\$0\" node about'* ]] || { printf '{\"node\": \"a'; echo 'closed by remote host' >&2; exit 255; }" ssh
    cat ssh
    ask --hosts a
    [ "$status" -eq 1 ]
    [ "$(of a .code)" = PEER_DEAD ]
    [ "$(of a .error)" = "a: the ssh connection failed: closed by remote host" ]
}

@test "crew: without standard input hosts are asked as well" {
    fake_ssh
    # run would have a pipe in its place.
    timeout 100 "$MESHNET" node about --hosts a,b <&- >out 2>err || cat err
    output=$(cat out)
    echo "$output"
    [ "$(of b .answer.node)" = b ]
}

@test "crew: a connection that was lost between two questions took the copy along: another goes there" {
    lacking
    # With the first answer what keeps the copy has ended.
    cat >ssh <<-END
	#!/bin/bash
	while [ "\$1" != -- ]; do shift; done
	command=\${3//"$MESHNET"//nonexistent/meshnet}
	export TMPDIR=$PWD/there PATH=/usr/sbin:/usr/bin:/sbin:/bin MESHNET_NODE=\$2 MESHNET_CONFIG=$PWD/config/mesh.yaml
	case \$command in *mktemp*) echo \$\$ >keeper ;; esac
	[[ \$command == *node\ mesh* && ! -e lost ]] || exec sh -c "\$command"
	sh -c "\$command"
	code=\$? keeper=\$(cat keeper)
	until cat=\$(pgrep -x -P "\$keeper" cat); do sleep 0.1; done
	kill \$cat
	while grep -q '^State:.[^Z]' /proc/\$keeper/status; do sleep 0.1; done
	: >lost
	exit \$code
	END
    cp "$BATS_TEST_DIRNAME/../configs/ring4.yaml" mesh.yaml
    mkdir config
    run --separate-stderr timeout 100 "$MESHNET" push mesh.yaml --hosts spark-b
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ -e lost ]
    [ "$(grep -c 'spark-b: has a copy of this meshnet' <<<"$stderr")" -eq 2 ]
    [ -z "$(ls -A there)" ]
}
