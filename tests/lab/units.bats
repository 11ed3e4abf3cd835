#!/usr/bin/env bats
# The units of meshnet relayd and meshnet serve under systemd, on the node in the middle of a line of three,
# over RDMA: closed as they say, and restarted under load. The settings are the mesh file's, the key is
# root's alone, as README has it. By hand (LAB_SHAPES=all): some minutes.

load helper
load traffic
load shapes

setup()
{
    by_hand
    [ -x /lib/systemd/systemd ] || skip "no systemd"
    cd "$BATS_TEST_TMPDIR"
    (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >key)
    mesh_of line3 >lab.yaml
    lab_up "$PWD/lab.yaml"
    managed lab.yaml >mesh.yaml
    cat >>mesh.yaml <<-END
	plugin: {key_file: /etc/meshnet/key}
	transport: {handshake: 30s, connect: 90s}
	relay: {silence: 20s}
	END
    # Where services see it: /tmp is their own.
    DESTDIR=$PWD/root cmake --install "$BUILD" --prefix /opt/meshnet >log || { cat log; return 1; }
    lab sync
    for node in a b c; do
        on spark-$node "umask 077; mkdir -m 755 -p /etc/meshnet; cp $PWD/key /etc/meshnet
            echo $TOKEN >/etc/meshnet/token
            install -m 644 $PWD/mesh.yaml /etc/meshnet"
    done
}

teardown()
{
    [ -n "${BATS_TEST_COMPLETED-}" ] || on spark-b 'tail -n 40 /root/systemd /root/said' || true
    lab_down
}

# systemd_up: on spark-b, the first process of a namespace of processes, with the units of this tree's
# install and of a system that has nothing else to start. What they say is in /root/said.
systemd_up()
{
    on spark-b "set -e
        umask 022
        cp -a $PWD/root/opt/meshnet /opt/
        mkdir -p /root/units /etc/systemd/system/service.d
        cp /opt/meshnet/lib/systemd/system/meshnet-* /root/units
        for unit in sysinit basic sockets timers paths slices network network-online multi-user shutdown umount; do
            printf '[Unit]\nDescription=%s\n' \$unit >/root/units/\$unit.target
        done
        printf '[Service]\nStandardOutput=append:/root/said\nStandardError=append:/root/said\n' \
            >/etc/systemd/system/service.d/said.conf
        cat /proc/sys/kernel/hostname >/etc/hostname
        mount -t cgroup2 none /sys/fs/cgroup
        # Or services see no credentials.
        mount --make-rshared /
        container=lab SYSTEMD_UNIT_PATH=/etc/systemd/system:/root/units SYSTEMD_LOG_TARGET=console setsid unshare \
            --pid --fork --mount --mount-proc --propagation unchanged /lib/systemd/systemd --system \
            --unit=multi-user.target >/root/systemd 2>&1 </dev/null &
        for i in {1..300}; do
            pid=\$(pgrep -o -x systemd) && [ -S /proc/\$pid/root/run/systemd/private ] && exit 0
            sleep 0.2
        done
        exit 1"
}

# under CMD…: on spark-b, where systemd is the first process.
under()
{
    on spark-b "nsenter -t \$(pgrep -o -x systemd) -m -p -r -w bash -c $(printf %q "$*")"
}

# closed SERVICE: its process is a user of its own, can do nothing more than one, and sees no files of root's.
closed()
{
    under "set -e
        at=/proc/\$(systemctl show -P MainPID $1)
        grep -E '^(Uid|Cap|NoNewPrivs|Seccomp)' \$at/status
        awk '/^Uid:/ { exit !(\$2 > 60000 && \$3 == \$2 && \$4 == \$2) }' \$at/status
        ! grep -E '^Cap.*:.*[1-9a-f]' \$at/status || exit 1
        grep -q '^NoNewPrivs:.1' \$at/status
        grep -q '^Seccomp:.2' \$at/status
        [ -z \"\$(find \$at/root/{tmp,root} -mindepth 1)\" ]"
}

# active SERVICE RESTARTS: it is, after so many.
active()
{
    under "for i in {1..600}; do
            [ \"\$(systemctl is-active $1)\" = active ] && [ \"\$(systemctl show -P NRestarts $1)\" -ge $2 ] && exit 0
            sleep 0.2
        done
        systemctl status --no-pager $1
        exit 1"
}

# served: by spark-b.
served()
{
    bench_on spark-a spark-b /etc/meshnet/mesh.yaml --sizes 16K --iters 8 --warmup 1
    [ "$status" -eq 0 ]
    carried_by_rdma p1 p1
}

@test "units: systemd starts both, closed, and again under load" {
    systemd_up
    under systemctl enable --now meshnet-relayd meshnet-serve
    active meshnet-relayd 0
    active meshnet-serve 0
    under systemctl is-enabled meshnet-relayd.socket
    closed meshnet-relayd
    closed meshnet-serve
    stream_start spark-c spark-a /etc/meshnet/mesh.yaml
    stream_goes_on spark-c
    under '/opt/meshnet/bin/meshnet relayd --status --json' | tee status
    [ "$(jq .counts.bytes status)" -gt 1000000 ]
    under 'systemctl status --no-pager meshnet-relayd' | tee status
    grep -q 'Status: .*flow' status
    under systemctl kill -s KILL meshnet-relayd
    active meshnet-relayd 1
    stream_goes_on spark-c
    under systemctl restart meshnet-relayd
    stream_goes_on spark-c
    # It says nothing any more: the watchdog ends it.
    under systemctl kill -s STOP meshnet-relayd
    active meshnet-relayd 1
    stream_goes_on spark-c
    stream_kill spark-a spark-c
    served
    under systemctl stop meshnet-relayd meshnet-relayd.socket
    # A mesh without a key.
    on spark-a 'sed -i /key_file/d /etc/meshnet/mesh.yaml'
    under 'sed -i /key_file/d /etc/meshnet/mesh.yaml; rm /etc/meshnet/key; : >/root/said
        systemctl restart meshnet-serve
        for i in {1..300}; do
            ! grep -q "^listening at" /root/said || exit 0
            sleep 0.2
        done
        systemctl status --no-pager meshnet-serve
        exit 1'
    served
    under systemctl stop meshnet-serve
    under '[ ! -e /run/meshnet/relay.sock ] && ! pgrep -x meshnet'
}
