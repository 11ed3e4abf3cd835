#!/usr/bin/env bats
# The systemd units as they are installed: systemd takes them, and they are as closed as they were.

load helper

setup()
{
    command -v systemd-analyze >/dev/null || skip "systemd-analyze is not here"
    cd "$BATS_TEST_TMPDIR"
    cmake --install "$BUILD" --prefix "$PWD/root" >log || { cat log; return 1; }
    cd root/lib/systemd/system
}

@test "units: systemd finds nothing wrong with them" {
    run systemd-analyze verify --man=no ./meshnet-*
    echo "$output"
    [ "$status" -eq 0 ]
    # It says what it does not know, and leaves it out.
    [ -z "$output" ]
}

@test "units: the program and its options are those that are installed" {
    local unit command
    for unit in *.service; do
        command=$(sed -n 's/^ExecStart=//p' "$unit")
        [ -x "${command%% *}" ]
        "${command%% *}" "$(cut -d' ' -f2 <<<"$command")" --help
        for option in $(grep -o -- '--[a-z-]*' <<<"$command"); do
            "${command%% *}" "$(cut -d' ' -f2 <<<"$command")" --help | grep -q -- " $option"
        done
    done
    [ "$(sed -n 's/^ListenStream=//p' meshnet-relayd.socket)" = "$(sed -n \
        '/"relay", "socket"/s/.*MN_SETTING_STRING, "\([^"]*\)".*/\1/p' "$BATS_TEST_DIRNAME/../topo/mesh_setting.c")" ]
}

# systemctl enable --now starts what was named; Also= is for enabling alone.
@test "units: whoever starts relayd has its socket, too" {
    grep -qx 'Requires=.*meshnet-relayd\.socket.*' meshnet-relayd.service
}

# docs/security.md states it for one version of systemd; others look at more, or weigh it otherwise.
@test "units: systemd's level of exposure is not above the stated one" {
    local service stated
    for service in relayd serve; do
        systemd-analyze security --offline=true --no-pager "./meshnet-$service.service" | tee all
        stated=$(sed -n "s/.*\`meshnet-$service.service\`[^|]*| *\([0-9]\)\.\([0-9]\) .*/\1\2/p" \
            "$BATS_TEST_DIRNAME/../docs/security.md")
        [ -n "$stated" ]
        [[ $(systemd-analyze --version) == "systemd 252 "* ]] || stated=$((stated + 3))
        systemd-analyze security --offline=true --no-pager --threshold="$stated" "./meshnet-$service.service"
    done
}
