#!/usr/bin/env bats
# meshnet bench and meshnet serve between network namespaces: what carried the bytes, tokens, gates,
# and ends that go away.

load helper
load namespaces

setup()
{
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    NS=mnb$$
    unset MESHNET_CONFIG MESHNET_NODE MESHNET_TOKEN "${!NCCL_@}"
    export NO_COLOR=1
    cd "$BATS_TEST_TMPDIR"
    echo 00112233445566778899aabbccddeeff >token
    for node in a b c; do
        ip netns add $NS-$node
        ip -n $NS-$node link set lo up
    done
    SERVER=''
}

teardown()
{
    [ -z "$SERVER" ] || kill $SERVER 2>/dev/null || true
    wait
    printf "netns del $NS-%s\n" a b c | ip -force -batch - 2>/dev/null || true
}

bench()
{
    run --separate-stderr on a timeout 100 "$MESHNET" bench --token-file token --duration 30ms "$@"
    echo "$output"
    echo "$stderr"
}

# moved FILE END NETDEV: bytes a NIC moved.
moved()
{
    jq --arg nic "$3" ".counters_$2.nics[] | select(.netdev == \$nic) | .tx_bytes + .rx_bytes" "$1"
}

@test "bench: a reaches b over its own cable only, although it also has one to c" {
    cable a ab 10.1.0.0/31 b ba 10.1.0.1/31
    cable a ac 10.2.0.1/30 c ca 10.2.0.2/30
    cable b bc 10.3.0.1/24 c cb 10.3.0.2/24
    serve b --listen 10.1.0.1
    bench --peer 10.1.0.1 --sizes 8,64K,4M --json
    [ "$status" -eq 0 ]
    echo "$output" >report
    [ "$(jq '.results | length' report)" -eq 9 ]
    [ "$(jq '.latency | length' report)" -eq 2 ]
    [ "$(jq .wrong_messages report)" -eq 0 ]
    [ "$(jq .checked_messages report)" -gt 0 ]
    bytes=$(jq '[.results[] | .size * .messages] | add' report)
    [ "$(moved report here ab)" -ge "$bytes" ]
    [ "$(moved report here ac)" -lt 100000 ]
    [ "$(moved report peer ba)" -ge "$bytes" ]
    [ "$(moved report peer bc)" -lt 100000 ]
    [ "$(jq -r .counters_here.carried_by report)" = ab ]
    [ "$(jq -r .here.sha256 report)" = "$(sha256sum <"$PLUGIN" | cut -d ' ' -f 1)" ]
    [ "$(jq -r .here.symbol report)" = ncclNetPlugin_v12 ]
    [ "$(jq -r '"\(.schema) \(.schema_version) \(.kind)"' report)" = 'meshnet-results 1 link' ]
    [ "$(jq -r '.environment[1].kernel' report)" = "$(uname -srm)" ]
    [ "$(jq -r '.environment[1].plugin.sha256' report)" = "$(jq -r .peer.sha256 report)" ]
    [ "$(jq -r '.environment[1].nics[] | select(.netdev == "ba") | .mtu' report)" -eq 1500 ]
}

@test "bench: two parallel cables are used together, and either one is enough" {
    cable a ab1 10.1.1.1/24 b ba1 10.1.1.2/24
    cable a ab2 10.1.2.1/24 b ba2 10.1.2.2/24
    serve b --listen 10.1.1.2,10.1.2.2
    bench --peer 10.1.1.2 --sizes 4M --tests bandwidth --json
    [ "$status" -eq 0 ]
    echo "$output" >report
    both=$(jq '[.results[] | .size * .messages] | add' report)
    [ "$(moved report here ab1)" -gt $((both / 5)) ]
    [ "$(moved report here ab2)" -gt $((both / 5)) ]
    [ "$(jq -r .counters_here.carried_by report)" = 'ab1, ab2' ]
    ip -n $NS-a link set ab1 down
    bench --peer 10.1.2.2 --sizes 1M --tests bandwidth --json
    [ "$status" -eq 0 ]
    [ "$(jq -r .counters_here.carried_by <<<"$output")" = ab2 ]
}

@test "bench: the mesh file names the peer and is named in the report" {
    cable a ab 10.1.0.0/31 b ba 10.1.0.1/31
    on a "$MESHNET" discover --node a -o a.yaml
    on b "$MESHNET" discover --node b -o b.yaml
    "$MESHNET" discover -o mesh.yaml --merge a.yaml b.yaml
    export MESHNET_CONFIG=$PWD/mesh.yaml
    MESHNET_NODE=b serve b
    grep -q 'listening at 10.1.0.1 ' serve.out
    MESHNET_NODE=a bench --peer b --sizes 64K --tests bandwidth --json
    [ "$status" -eq 0 ]
    [ "$(jq -r .mesh_file <<<"$output")" = "$PWD/mesh.yaml" ]
    [ "$(jq -r .peer.node <<<"$output")" = b ]
    [ "$(jq -r '.environment[].node' <<<"$output")" = $'a\nb' ]
    [ "$(jq -r '.environment[1].mesh_file.sha256' <<<"$output")" = "$(sha256sum <mesh.yaml | cut -d ' ' -f 1)" ]
}

@test "bench: a default run leaves out what a slow cable has no time for, and ends in a line to quote" {
    cable a ab 10.1.0.0/31 b ba 10.1.0.1/31
    tc -n $NS-a qdisc add dev ab root tbf rate 100mbit burst 64k latency 50ms
    tc -n $NS-b qdisc add dev ba root tbf rate 100mbit burst 64k latency 50ms
    cat >mesh.yaml <<-END
	version: 1
	nodes:
	  - name: a
	    nics:
	      - {netdev: ab, addresses: [10.1.0.0/31], speed: 100}
	  - name: b
	    nics:
	      - {netdev: ba, addresses: [10.1.0.1/31], speed: 100}
	END
    export MESHNET_CONFIG=$PWD/mesh.yaml
    MESHNET_NODE=b serve b
    run --separate-stderr on a env MESHNET_NODE=a timeout 100 "$MESHNET" bench --token-file token --peer b --json
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
    [[ "$(jq -r .left_out <<<"$output")" == *"of 16M"* ]]
    # How much more has no time depends on the machine, too.
    jq -e '.latency[0].size == 8 and (.results | length > 0 and all(.size < 16777216))' <<<"$output"
    [[ "$(jq -r .summary <<<"$output")" =~ ^a\ to\ b:\ [0-9.e-]+\ Gb/s\ over\ cable\ a-b,\ [0-9]+\ %\ of\ what\ TCP\ can,\ [0-9.]+\ µs$ ]]
    MESHNET_NODE=a bench --peer b --sizes 64,4K --duration 20ms
    [ "$status" -eq 0 ]
    [[ "${lines[-1]}" == "a to b: "*" Gb/s over cable a-b, "*" % of what TCP can, "*" µs" ]]
    [[ "$output" != *"left out"* ]]
    bench --links --thorough
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--thorough goes with --peer"* ]]
}

@test "bench: several connections, text and CSV" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --sizes 4K,256K --connections 8 --direction out
    [ "$status" -eq 0 ]
    [[ "$output" == *"half round trip"* ]]
    bench --peer 127.0.0.1 --sizes 4K --tests bandwidth --direction both --iters 100 --csv
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = size,direction,messages,seconds,gbytes_per_s,gbps,messages_per_s,cpu_s_per_gb,cpu_s_per_gb_here,cpu_s_per_gb_peer,median_gbps,ci95_percent,repetitions,outliers,steady ]
    [[ "${lines[1]}" == 4096,both,200,* ]]
}

@test "bench: a row says how well it is known" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --sizes 64K --direction out --precision 1000 --json
    [ "$status" -eq 0 ]
    echo "$output" >report
    jq -e '.latency + .results | length == 2 and all(.[]; .repetitions >= 1 and .outliers >= 0)' report
    jq -e '.results[0].median_gbps > 0 and (.results[0].steady | type) == "boolean"' report
    jq -e '.precision_percent == 1000 and .clock == "CLOCK_MONOTONIC"' report
    bench --peer 127.0.0.1 --sizes 64K --direction out --iters 50 --json
    [ "$status" -eq 0 ]
    jq -e '.results[0] | .messages == 50 and .repetitions == 1 and .ci95_percent == null' <<<"$output"
    bench --peer 127.0.0.1 --max-duration 10ms
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--max-duration 10ms is less than --duration 30ms"* ]]
}

@test "bench: profiles, flows driven by threads, receives posted together, flushed" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --type all --sizes 512:8K:16,100K --flows 3 --threads 2 \
        --messages-per-request 4 --flush --burst 5 --iters 50 --json
    [ "$status" -eq 0 ]
    echo "$output" >report
    [ "$(jq -c '[.latency[].size]' report)" = '[512,8192]' ]
    [ "$(jq -c '[.bursts[] | [.size, .direction, .bursts]]' report)" = \
        '[[512,"out",50],[512,"in",50],[8192,"out",50],[8192,"in",50]]' ]
    [ "$(jq -c '[.rates[] | [.size, .direction, .messages]]' report)" = \
        '[[512,"out",150],[512,"in",150],[8192,"out",150],[8192,"in",150]]' ]
    [ "$(jq -c '[.results[] | [.size, .direction, .messages]]' report | md5sum)" = "$(echo \
        '[[512,"out",150],[512,"in",150],[512,"both",300],[8192,"out",150],[8192,"in",150],[8192,"both",300],[102400,"out",150],[102400,"in",150],[102400,"both",300]]' | md5sum)" ]
    [ "$(jq '.latency + .bursts | all(.p50_us <= .p90_us and .p90_us <= .p99_us and .p99_us <= .p999_us and .p999_us <= .max_us and .min_us <= .p50_us and .min_us > 0)' report)" = true ]
    # 3 sizes, 3 flows, 8 requests of 4 messages twice, both ways
    [ "$(jq .checked_messages report)" -eq $((3 * 3 * 8 * 4 * 2 * 2)) ]
    [ "$(jq .wrong_messages report)" -eq 0 ]
    [ "$(jq -c '[.connections, .threads, .messages_per_request, .flush, .burst_messages]' report)" = '[3,2,4,true,5]' ]
    # A plugin without receives of several messages says so.
    bench --peer 127.0.0.1 --type bw --sizes 8 --abi 4 --messages-per-request 2
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--messages-per-request 2"* ]]
}

@test "bench: --type has one meaning with --peer and another with --collective" {
    bench --peer 127.0.0.1 --type float32
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--type 'float32'"*"--collective"*"bw, lat, bi, rate, burst or all"* ]]
    bench --collective all-reduce --local 2 --type rate
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--type 'rate'"*"--peer"*float32* ]]
    bench --collective all-reduce --local 2 --flows 2
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--flows"*"--peer"* ]]
}

@test "bench: a wrong token is refused on both sides" {
    serve a --listen 127.0.0.1
    echo ffeeddccbbaa99887766554433221100 >token
    bench --peer 127.0.0.1
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 127.0.0.1 port 18515"*token* ]]
    # It answers first and writes then.
    for _ in $(seq 300); do
        grep -q 'has another token' serve.err && break
        sleep 0.1
    done
    grep 'has another token' serve.err
}

@test "serve: garbage does not end it, and it ends cleanly on SIGTERM" {
    serve a --listen 127.0.0.1
    for _ in 1 2 3; do
        on a bash -c 'head -c 500 /dev/urandom >/dev/tcp/127.0.0.1/18515' || true
    done
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --sizes 8 --iters 10 --tests bandwidth
    [ "$status" -eq 0 ]
    kill -TERM "$(pgrep -P $SERVER)"
    wait $SERVER
    SERVER=''
}

@test "serve: strangers who say nothing take no client's place" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    on a bash -c 'for i in {10..20}; do eval "exec $i<>/dev/tcp/127.0.0.1/18515"; done
        echo there >strangers; exec sleep 60' 3>&- &
    strangers=$!
    for _ in $(seq 300); do
        [ -s strangers ] && break
        sleep 0.1
    done
    for _ in 1 2; do
        bench --peer 127.0.0.1 --sizes 8 --iters 10 --tests bandwidth
        [ "$status" -eq 0 ]
        # The one place is taken until the client's process has ended.
        for _ in $(seq 300); do
            pgrep -P "$(pgrep -P $SERVER)" >left || break
            sleep 0.1
        done
        [ ! -s left ]
    done
    kill $strangers
}

@test "serve: a second client is told that the first has it" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    on a timeout 60 "$MESHNET" bench --token-file token --peer 127.0.0.1 --sizes 1M --duration 20s >/dev/null 2>&1 3>&- &
    first=$!
    for _ in $(seq 300); do
        [ "$(pgrep -c -P "$(pgrep -P $SERVER)")" -ge 1 ] && break
        sleep 0.1
    done
    bench --peer 127.0.0.1 --sizes 8
    kill $first
    [ "$status" -eq 1 ]
    [[ "$stderr" == *busy* ]]
}

@test "bench: a peer that is killed ends the run with its name" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    (
        for _ in $(seq 300); do
            client=$(pgrep -P "$(pgrep -P $SERVER)") && break
            sleep 0.1
        done
        sleep 1
        kill -9 $client
    ) 3>&- &
    bench --peer 127.0.0.1 --sizes 1M --duration 60s --direction out
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 127.0.0.1 port 18515"* ]]
}

@test "bench: Ctrl-C and a lost peer end a run with what was measured so far, a terminal follows it" {
    export NCCL_SOCKET_IFNAME=lo
    for end in INT KILL; do
        serve a --listen 127.0.0.1
        on a timeout 100 script -qfec "'$MESHNET' bench --token-file token --peer 127.0.0.1 \
            --sizes 8,64K,1M --type lat,bw --duration 1s --buffers 77777 --follow --json \
            >out.$end" tty.$end >/dev/null 2>&1 3>&- &
        bench=$!
        # Of eleven steps the fourth has begun, and two have left a row.
        for _ in $(seq 300); do
            ! grep -q '4/1[0-9] ' tty.$end 2>/dev/null || break
            sleep 0.1
        done
        if [ $end = INT ]; then
            kill -INT "$(pgrep -of "^$MESHNET bench .*--buffers 77777")"
        else
            kill -KILL "$(pgrep -P "$(pgrep -P $SERVER)")"
        fi
        status=0
        wait $bench || status=$?
        cat out.$end tty.$end
        [ $status -eq 1 ]
        [ "$(jq .complete out.$end)" = false ]
        [ "$(jq '.latency + .results | length' out.$end)" -ge 1 ]
        grep -q 'p50' tty.$end
        kill $SERVER
        wait $SERVER || true
        SERVER=''
    done
    [ "$(jq -r .error out.INT)" = interrupted ]
    [[ "$(jq -r .error out.KILL)" == *"peer 127.0.0.1 port 18515"* ]]
    # Nowhere to follow it: no table, and no control characters.
    serve a --listen 127.0.0.1
    bench --peer 127.0.0.1 --sizes 8 --type lat --follow
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
}

@test "bench: buffers that connections share are no reason for wrong data" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --sizes 4K,1M --connections 4 --buffers 1M --iters 8 --tests bandwidth --json
    [ "$status" -eq 0 ]
    [ "$(jq .wrong_messages <<<"$output")" -eq 0 ]
    [ "$(jq .checked_messages <<<"$output")" -eq 256 ]
}

@test "serve: ended or killed in the middle of a run, it takes its client's process along" {
    export NCCL_SOCKET_IFNAME=lo
    for signal in TERM KILL; do
        serve a --listen 127.0.0.1
        (
            for _ in $(seq 300); do
                client=$(pgrep -P "$(pgrep -P $SERVER)") && break
                sleep 0.1
            done
            sleep 1
            kill -$signal "$(pgrep -P $SERVER)"
            for _ in $(seq 300); do
                kill -0 "$client" || break
                sleep 0.1
            done
            kill -0 "$client" || touch gone.$signal
        ) 3>&- &
        waiter=$!
        bench --peer 127.0.0.1 --sizes 1M --duration 60s --tests bandwidth --direction out
        [ "$status" -eq 1 ]
        [[ "$stderr" == *"peer 127.0.0.1 port 18515"* ]]
        wait $waiter || true
        [ -e gone.$signal ]
        wait $SERVER || true
        SERVER=''
    done
}

@test "bench: gates and wrong usage" {
    serve a --listen 127.0.0.1
    export NCCL_SOCKET_IFNAME=lo
    bench --peer 127.0.0.1 --sizes 64 --iters 10 --tests bandwidth --min-gbps 100000
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"below the wanted"* ]]
    bench --peer 127.0.0.1 --sizes 64x
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'64x'"* ]]
    bench --peer 127.0.0.1 --tests speed
    [ "$status" -eq 2 ]
    bench
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--peer"* ]]
    bench --peer 127.0.0.1 --port 1
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"peer 127.0.0.1 port 1"* ]]
    bench --peer 127.0.0.1 --plugin /nonexistent.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"/nonexistent.so"* ]]
}

# ranks OPTION…: collectives between processes on loopback.
ranks()
{
    export NCCL_SOCKET_IFNAME=lo
    run --separate-stderr on a timeout 200 "$MESHNET" bench "$@"
    echo "$output"
    echo "$stderr"
}

none_left()
{
    for _ in $(seq 300); do
        pgrep -f "$MESHNET bench .*--buffers $1" >/dev/null || return 0
        sleep 0.1
    done
    pgrep -fa "$MESHNET bench"
    return 1
}

@test "bench: every collective by every algorithm is right, for 1 to 5 ranks" {
    for n in 1 2 3 4 5; do
        ranks --collective all --algorithm all --local $n --root $((n - 1)) --sizes 0,4,1000,100K \
            --iters 2 --warmup 1 --json
        [ "$status" -eq 0 ]
        [ "$(jq -c '[.complete, (.ranks | length), .kind, (.environment | length),
            ([.collectives[].collective] | unique | length), ([.collectives[] | select(.wrong != 0)] | length),
            ([.collectives[] | select(.collective == "all_reduce" and .in_place_wrong != 0)] | length),
            ([.collectives[] | select(.iterations != 2)] | length)]' <<<"$output")" = "[true,$n,\"collectives\",1,11,0,0,0]" ]
    done
}

@test "bench: ranks of a host share its CPUs out, or have those of --pin" {
    cpu=$(taskset -pc $$ | sed 's/.*: //; s/[,-].*//')
    ranks --collective all-reduce --local 2 --sizes 8 --iters 2 --pin "$cpu" --json
    [ "$status" -eq 0 ]
    if [ "$(nproc --all)" -gt 1 ]; then
        [ "$(jq -r '.environment[0].pinned, .ranks[].cpus' <<<"$output")" = "$(printf '%s\n' $cpu $cpu $cpu)" ]
    fi
    ranks --collective all-reduce --local 2 --sizes 8 --iters 2 --json
    [ "$status" -eq 0 ]
    cores=$(lscpu -p=core | grep -v '^#' | sort -u | wc -l)
    [ "$(nproc)" -lt "$(nproc --all)" ] ||
        [ "$(jq -r '.ranks[].cpus' <<<"$output" | sort -u | wc -l)" -eq "$((cores > 1 ? 2 : 1))" ]
    ranks --collective all-reduce --local 2 --sizes 8 --iters 2 --pin none --json
    [ "$status" -eq 0 ]
    [ "$(nproc)" -lt "$(nproc --all)" ] ||
        jq -e '.environment[0].pinned == null and all(.ranks[]; .cpus == null)' <<<"$output"
    ranks --collective all-reduce --local 2 --sizes 8 --pin 1,
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--pin '1,': expected auto, none or CPUs"* ]]
    ranks --collective all-reduce --local 2 --sizes 8 --iters 2 --pin 99999
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--pin 99999: this process may use the CPUs"* ]]
}

@test "bench: every type and operation is right" {
    ranks --collective all-reduce,reduce-scatter,broadcast --type all --op all --local 3 \
        --sizes 16,5000 --iters 2 --warmup 1 --json
    [ "$status" -eq 0 ]
    echo "$output" >report
    [ "$(jq '.collectives | length' report)" -eq $((12 * (4 + 4 + 1) * 2)) ]
    [ "$(jq '[.collectives[] | .wrong + .in_place_wrong] | add' report)" -eq 0 ]
}

@test "bench: collectives as text and CSV" {
    ranks --collective all-gather --local 2 --sizes 64K --duration 20ms
    [ "$status" -eq 0 ]
    [[ "$output" == *algbw*busbw*wrong* ]]
    [[ "$output" == *"rank 1 ("* ]]
    ranks --collective all-gather --local 2 --sizes 64K --type half --duration 20ms --no-check --csv
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ "${lines[0]}" == collective,bytes,count,type,* ]]
    [[ "${lines[1]}" == all_gather,65536,16384,float16,* ]]
    [[ "${lines[0]}" == *,wrong,ci95_percent,repetitions,outliers,steady,in_place_time_us,* ]]
}

@test "bench: a rank that is killed ends all ranks with its name" {
    (
        for _ in $(seq 300); do
            victim=$(pgrep -f "^$MESHNET bench .*--buffers 77777" | sed -n 4p)
            [ -n "$victim" ] && break
            sleep 0.1
        done
        sleep 1
        echo "$victim" >victim
        kill -9 "$victim"
    ) 3>&- &
    SECONDS=0
    ranks --collective all-reduce --local 4 --sizes 8,1M --duration 60s --buffers 77777 --json
    [ "$status" -eq 1 ]
    [ $SECONDS -lt 25 ]
    [[ "$stderr" == *"rank "[0-3]*"pid $(cat victim)"* ]]
    none_left 77777
}

@test "bench: a rank that stands still is waited for as long as --timeout says" {
    (
        for _ in $(seq 300); do
            victim=$(pgrep -f "^$MESHNET bench .*--buffers 66666" | sed -n 4p)
            [ -n "$victim" ] && break
            sleep 0.1
        done
        joined "$victim"
        sleep 1
        kill -STOP "$victim"
    ) 3>&- &
    SECONDS=0
    ranks --collective all-reduce --local 3 --sizes 1M --duration 60s --timeout 8s --buffers 66666
    [ "$status" -eq 1 ]
    [ $SECONDS -lt 50 ]
    [[ "$stderr" == *"nothing "*" for 8 s"*"rank "* ]]
    none_left 66666
}

@test "bench: a plugin that delivers wrong data is found out" {
    faulty=$BUILD/tests/broken/libnccl-net-fault-DROPS_LAST_BYTE.so
    [ -e "$faulty" ] || skip "the faulty plugins are not built"
    ranks --collective all-reduce --local 2 --sizes 8,100K --iters 3 --plugin "$faulty" --json
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"are wrong"* ]]
    [ "$(jq '.collectives[1].wrong' <<<"$output")" -gt 0 ]
    ranks --collective all-reduce --local 2 --sizes 8,100K --iters 3 --json \
        --plugin "$BUILD/tests/broken/libnccl-net-ref.so"
    [ "$status" -eq 0 ]
}

@test "bench: Ctrl-C says what was measured so far and leaves no process" {
    (
        for _ in $(seq 300); do
            launcher=$(pgrep -of "^$MESHNET bench .*--buffers 88888") &&
                [ "$(pgrep -cP "$launcher")" -eq 3 ] && break
            sleep 0.1
        done
        joined $(pgrep -P "$launcher")
        sleep 1
        kill -INT "$launcher"
    ) 3>&- &
    ranks --collective all-reduce --local 3 --sizes 8,1M --duration 20s --buffers 88888 --json
    [ "$status" -eq 1 ]
    [[ "$stderr" == *interrupted* ]]
    [ "$(jq .complete <<<"$output")" = false ]
    [ "$(jq -r .error <<<"$output")" = interrupted ]
    none_left 88888
}

@test "bench: the ranks of a launcher that is killed end too" {
    export NCCL_SOCKET_IFNAME=lo
    on a "$MESHNET" bench --collective all-reduce --local 3 --sizes 1M --duration 60s --buffers 99999 >/dev/null 2>&1 3>&- &
    for _ in $(seq 300); do
        [ "$(pgrep -cf "^$MESHNET bench .*--buffers 99999")" -eq 4 ] && break
        sleep 0.1
    done
    kill -9 "$(pgrep -of "^$MESHNET bench .*--buffers 99999")"
    none_left 99999
}

@test "bench: what cannot be measured of collectives is said first" {
    ranks --collective all-reduce
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--local"*"--hosts"*mpirun* ]]
    ranks --collective all-reduce --local 2 --hosts localhost
    [ "$status" -eq 2 ]
    ranks --collective all-reduce --hosts elsewhere.invalid,localhost
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"the first must be this host"* ]]
    RANK=0 WORLD_SIZE=2 ranks --collective all-reduce
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"torchrun"*"--coordinator"* ]]
    RANK=0 WORLD_SIZE=2 ranks --collective all-reduce --coordinator 127.0.0.1
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"which token?"*MESHNET_TOKEN*"--token-file FILE"* ]]
    # A launcher's PMIx that cannot be used is said, and what to do without it; not one of the things.
    mkdir -p none
    : >none/libpmix.so.2
    PMIX_NAMESPACE=x PMIX_RANK=0 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 LD_LIBRARY_PATH=$PWD/none \
        ranks --collective all-reduce
    [ "$status" -ne 0 ]
    [[ "$stderr" == *"the launcher speaks PMIx, this "*"--coordinator HOST"*"--token-file FILE or MESHNET_TOKEN"* ]]
    [[ "$stderr" != *"which token"* ]]
    RANK=0 WORLD_SIZE=2 ranks --collective all-reduce --coordinator 0.0.0.0 --token-file token
    [ "$status" -eq 2 ]
    RANK=2 WORLD_SIZE=2 ranks --collective all-reduce --coordinator 127.0.0.1
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"RANK=2"* ]]
    ranks --collective all-reduce --local 2 --peer 127.0.0.1
    [ "$status" -eq 2 ]
    ranks --collective all-redcue --local 2
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'all-redcue'"*all-gather* ]]
    ranks --collective all-reduce --type float31 --local 2
    [ "$status" -eq 2 ]
    ranks --collective all-reduce --op mean --local 2
    [ "$status" -eq 2 ]
    ranks --collective all-reduce --algorithm magic --local 2
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'magic'"*ring* ]]
    ranks --collective broadcast --root 2 --local 2
    [ "$status" -eq 2 ]
    ranks --collective all-reduce --local 2 --sizes 2G
    [ "$status" -eq 2 ]
    ranks --collective all-reduce --local 2 --sizes 8 --plugin /nonexistent.so
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"/nonexistent.so"* ]]
}

@test "bench: ranks that torchrun starts find each other" {
    export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 NCCL_SOCKET_IFNAME=lo
    for RANK in 3 1 2; do
        RANK=$RANK on a timeout 60 "$MESHNET" bench --token-file token --collective all-reduce \
            --sizes 8,100K --iters 5 >out.$RANK 2>err.$RANK 3>&- &
    done
    RANK=0 ranks --token-file token --collective all-reduce --sizes 8,100K --iters 5 --json
    wait
    [ "$status" -eq 0 ]
    [ "$(jq '.ranks | length' <<<"$output")" -eq 4 ]
    [ "$(jq '[.collectives[] | .wrong + .in_place_wrong] | add' <<<"$output")" -eq 0 ]
    [ ! -s out.1 ]
    [ ! -s err.1 ]
}

@test "bench: a rank with another token is not let in" {
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 NCCL_SOCKET_IFNAME=lo
    MESHNET_TOKEN=ffeeddccbbaa99887766554433221100 RANK=1 on a timeout 60 "$MESHNET" bench \
        --collective all-reduce --timeout 20s >out.1 2>err.1 3>&- &
    RANK=0 ranks --token-file token --collective all-reduce --sizes 8 --timeout 8s
    wait
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"did not come within 8 s: 1"* ]]
    grep -q token err.1
}

@test "bench: ranks that mpirun starts find each other" {
    command -v mpirun >/dev/null || skip "Open MPI is not installed"
    export NCCL_SOCKET_IFNAME=lo MESHNET_TOKEN=00112233445566778899aabbccddeeff
    run --separate-stderr on a timeout 60 mpirun --allow-run-as-root --oversubscribe -n 4 \
        "$MESHNET" bench --collective all-reduce --sizes 8,100K --iters 5 --json
    echo "$output"
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq '.ranks | length' <<<"$output")" -eq 4 ]
    [ "$(jq '[.collectives[] | .wrong + .in_place_wrong] | add' <<<"$output")" -eq 0 ]
}

@test "bench: PMIx tells ranks of mpirun all they need, its other variables or none" {
    command -v mpirun >/dev/null || skip "Open MPI is not installed"
    export NCCL_SOCKET_IFNAME=lo
    unset MESHNET_TOKEN
    for without in X OMPI_COMM_WORLD_RANK; do
        run --separate-stderr on a timeout 60 mpirun --allow-run-as-root --oversubscribe -n 4 \
            env -u $without "$MESHNET" bench --collective all-reduce --sizes 8,100K --iters 5 --json
        echo "$output"
        echo "$stderr"
        [[ "$stderr" != *libpmix-dev* ]] || skip "built without PMIx"
        [ "$status" -eq 0 ]
        [ "$(jq '.ranks | length' <<<"$output")" -eq 4 ]
        [ "$(jq '[.collectives[] | .wrong + .in_place_wrong] | add' <<<"$output")" -eq 0 ]
    done
    # A launcher that is not there, and a library that cannot be used, are said.
    PMIX_NAMESPACE=x PMIX_RANK=0 ranks --collective all-reduce
    [ "$status" -ne 0 ]
    [[ "$stderr" == *PMIx* ]]
}

@test "bench: one command measures three nodes over ssh, and all ends with it" {
    [ -x /usr/sbin/sshd ] || skip "no OpenSSH server"
    cable a ab 10.1.0.0/31 b ba 10.1.0.1/31
    cable a ac 10.2.0.1/30 c ca 10.2.0.2/30
    cable b bc 10.3.0.1/24 c cb 10.3.0.2/24
    ssh_to b 10.1.0.1 c 10.2.0.2
    export MESHNET_NODE=a
    sshd_at b
    sshd_at c
    run --separate-stderr on a timeout 100 "$MESHNET" bench --hosts a,b,c --json --iters 5 \
        --collective all-reduce,all-to-all --sizes 8,100K
    echo "$output"
    echo "$stderr"
    three=$status report=$output
    (
        for _ in $(seq 300); do
            launcher=$(pgrep -of "^$MESHNET bench --hosts a,b,c .*--duration 61s") && break
            sleep 0.1
        done
        sleep 3
        kill -INT "$launcher"
    ) 3>&- &
    run --separate-stderr on a timeout 100 "$MESHNET" bench --hosts a,b,c --collective all-reduce \
        --sizes 100K --duration 61s
    echo "$stderr"
    for _ in $(seq 300); do
        pgrep -f "$MESHNET bench .*--duration.61" || break
        sleep 0.1
    done
    left=$(pgrep -f "$MESHNET bench .*--duration.61" || true)
    kill "$(cat sshd.b.pid)" "$(cat sshd.c.pid)"
    [ $three -eq 0 ]
    [ "$(jq -r '.ranks[2].name' <<<"$report" | cut -d , -f 1)" = 'rank 2 (c' ]
    [ "$(jq '[.collectives[].wrong] | add' <<<"$report")" -eq 0 ]
    [ "$status" -eq 1 ]
    [[ "$stderr" == *interrupted* ]]
    [ -z "$left" ]
}

@test "bench: a host that ssh cannot reach is named" {
    printf '#!/bin/sh\necho no route to the host >&2\nexit 255\n' >ssh
    chmod +x ssh
    export MESHNET_SSH=$PWD/ssh MESHNET_NODE=a
    SECONDS=0
    ranks --hosts a,b --collective all-reduce --sizes 8
    [ "$status" -eq 1 ]
    [ $SECONDS -lt 15 ]
    [[ "$stderr" == *"[1 b] no route to the host"* ]]
    [[ "$stderr" == *"rank 1 failed; ending the others"* ]]
    [[ "$stderr" == *"meshnet bench: "*"rank 1 failed: no route to the host"* ]]
    [[ "$stderr" != *interrupted* ]]
}
