#!/usr/bin/env bats
# The checks of ci/ are seen to fail: each on a copy of the tree with one thing planted.

TOP=$BATS_TEST_DIRNAME/..

setup()
{
    cd "$BATS_TEST_TMPDIR"
    mkdir tree tree/tests
    cp -a "$TOP"/{topo,plugin,fleet,bench,cli,ci,docs,.clang-format} tree/
    cp -a "$TOP"/tests/fuzz "$TOP"/tests/*.bats tree/tests/
    cd tree
}

# planted CHECK TEXT: the check fails on the copy and its output holds the text.
planted()
{
    run "ci/$1"
    echo "$output"
    [ "$status" -eq 1 ] || [ "$status" -eq 123 ]
    [[ "$output" == *"$2"* ]]
}

@test "check-includes: an include that points right" {
    echo '#include "cli/cmd.h"' >>topo/nic.h
    planted check-includes 'topo/ may not include from cli/'
}

@test "check-includes: an include not written from the top" {
    echo '#include "nic.h"' >>plugin/net.h
    planted check-includes 'not written from the top'
}

@test "check-includes: an include of nothing" {
    echo '#include "topo/absent.h"' >>plugin/net.h
    planted check-includes 'does not exist'
}

@test "check-includes: headers that include each other" {
    echo '#include "topo/mesh.h"' >>topo/nic.h
    planted check-includes 'a circle of includes:'
}

@test "check-headers: a header that needs another before it" {
    # The others pass, as the check itself says: some of those that need no other are enough.
    find plugin fleet bench cli -name '*.h' -delete
    find topo -name '*.h' ! -name 'n*' -delete
    grep -lZ '^#include "' topo/*.h | xargs -0 rm -f
    ci/check-headers
    printf 'size_t mn_leaning(struct mn_nic *nic);\n' >topo/leaning.h
    planted check-headers 'topo/leaning.h: not alone'
}

@test "check-exports: a symbol too few" {
    local lib="$TOP/build/release/lib"
    [ -e "$lib/libnccl-net-mesh.so" ] || skip "the release preset is not built"
    mkdir -p build/release
    cp -a "$lib" build/release/
    ci/check-exports
    sed -i 's/global:/global: ncclNetPlugin_v99;/' plugin/exports.map
    planted check-exports ncclNetPlugin_v99
}

@test "check-exports: an alias that leads nowhere" {
    local lib="$TOP/build/release/lib"
    [ -e "$lib/libnccl-net-mesh.so" ] || skip "the release preset is not built"
    mkdir -p build/release
    cp -a "$lib" build/release/
    rm build/release/lib/librccl-net.so
    planted check-exports librccl-net.so
}

# one_command: the tree has that alone, with its page, and nothing in it is wrong.
one_command()
{
    find cli -name 'cmd_*.c' ! -name 'cmd_discover*' -delete
    find docs/man -type f ! -name meshnet-discover.1 -delete
    echo '&mn_cmd_discover' >cli/main.c
    ci/check-tables
}

@test "check-tables: a command without man page and shell test" {
    one_command
    printf '#include "cli/cmd.h"\nconst struct mn_command mn_cmd_planted = {0};\n' >cli/cmd_planted.c
    planted check-tables 'no man page docs/man/meshnet-planted.1'
    [[ "$output" == *"no shell test tests/planted.bats"* ]]
    [[ "$output" == *"mn_cmd_planted has no row"* ]]
}

@test "check-tables: an option the man page does not know" {
    one_command
    sed -i '0,/    {"all", /s//    {"planted", 0, MN_OPT_FLAG, .help = "x.", AT(all)},\n&/' \
        cli/cmd_discover.c
    planted check-tables 'meshnet-discover.1: --planted is missing'
}

@test "check-tables: a fuzzer without corpus" {
    one_command
    echo >tests/fuzz/fuzz_planted.c
    planted check-tables 'no corpus tests/fuzz/corpus/planted'
}

@test "check-tables: a man page with an error in it" {
    one_command
    printf '.nosuchmacro\n.TH\n' >>docs/man/meshnet-discover.1
    planted check-tables 'meshnet-discover.1'
}

@test "check-style: a line laid out otherwise" {
    find . -name '*.[ch]' ! -path './topo/n*' -delete # as for the headers
    run ci/check-style
    [ "$status" -ne 77 ] || skip "$output"
    [ "$status" -eq 0 ]
    printf 'int   planted ;\n' >>topo/nic.h
    planted check-style 'topo/nic.h'
}

@test "check-shell: what has to fail, and is passed over" {
    mkdir -p tests/lab
    cp "$BATS_TEST_DIRNAME"/helper.bash tests
    touch tests/lab/none.bats
    printf '@test "a" {\n    no false\n    ! true || return 1\n    ! false\n}\n' >tests/planted.bats
    ci/check-shell
    printf '@test "b" {\n    ! true\n    true\n}\n' >>tests/planted.bats
    planted check-shell 'tests/planted.bats:7:'
}

@test "check-warnings: what clang warns of" {
    command -v clang >/dev/null || skip "no clang"
    mkdir tests/{drivers,broken}
    find . -name '*.c' ! -path './topo/nic_a*' -delete # as for the headers
    ci/check-warnings
    printf 'void mn_planted(void)\n{\n}\n' >topo/planted.c
    planted check-warnings mn_planted
}

@test "seeds: one that fails is shown with the command that runs it again" {
    mkdir -p build/asan/tests
    cat >build/asan/tests/conformance <<'END'
#!/usr/bin/env bash
[[ "$*" != *"--seed 7 "* ]] || { echo 'not ok 1 - planted'; exit 1; }
END
    chmod +x build/asan/tests/conformance
    run ci/seeds --preset asan --count 9
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"not ok - seed 7, status 1"*"--seed 7 "*"not ok 1 - planted"* ]]
    [[ "$output" == *"9 seeds on asan: 1 failed"* ]]
    again=$(ci/seeds --preset asan --from 7 --show)
    [[ "$output" == *"$again"* ]]
    run ci/seeds --preset nothing
    [ "$status" -eq 2 ]
}

@test "gpu-check: where there is no GPU it says so; wrong usage is refused" {
    ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || skip "there is one"
    mkdir -p build/release/lib
    touch build/release/lib/libnccl-net-mesh.so
    run ci/gpu-check
    [ "$status" -eq 77 ]
    [ "$output" = "no GPU here" ]
    run ci/gpu-check --ranks 1
    [ "$status" -eq 2 ]
    run ci/gpu-check --build nowhere
    [ "$status" -eq 2 ]
    [[ "$output" == *"no plugin in nowhere"* ]]
}

@test "soak, bench/relay: wrong usage is told and measures nothing" {
    local words
    for words in "soak" "soak --relay --minutes 0" "soak --relay --shape ring:9" \
        "soak --failover --kept 1" "soak --failover --lab --kept 3" "bench/relay --part all" \
        "bench/relay --cores 1" "bench/relay --seconds x"; do
        run ci/$words
        echo "$words: $output"
        [ "$status" -eq 2 ]
        [[ "$output" == *expected* ]]
    done
}
