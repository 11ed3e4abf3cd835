#!/usr/bin/env bats
# meshnet report: a page, Markdown and CSV from files of results, with strings that would like to be
# more than text; and the page in a browser.

load helper
load browser

setup()
{
    export NO_COLOR=1 LC_ALL=C.UTF-8
    RESULTS=$BATS_TEST_DIRNAME/fixtures/results
    cd "$BATS_TEST_TMPDIR"
}

teardown()
{
    browser_stop
}

report()
{
    run --separate-stderr timeout 60 "$MESHNET" report "$@"
    echo "report $*: status $status"
    echo "$stderr"
}

# none OPTIONS PATTERN FILE: the pattern is nowhere in the file.
none()
{
    local rc=0
    grep "$@" || rc=$?
    [ $rc -eq 1 ] || { echo "grep $*: status $rc"; return 1; }
}

# only PATTERN ALLOWED FILE: what the pattern finds is allowed.
only()
{
    local found
    found=$(grep -oiE "$1" "$3" | grep -vE "$2") || return 0
    echo "found: $found"
    return 1
}

# What a page must not have: anything from elsewhere, anything that runs.
alone()
{
    none -oiE '<(script|iframe|object|embed|form|base|img|image|foreignObject)\b' "$1" &&
        none -oiE '<[^<>]*\b(src|srcset|action|formaction|background|ping)=|@import|url\(' "$1" &&
        none -oiE "<[a-z]+([^<>\"'=]|=\"[^\"]*\"|='[^']*')* on[a-z]+=" "$1" &&
        only "<[^<>]*\bhref=[\"'][^\"']*" "href=[\"'](data:,|#)[^\"']*$" "$1" &&
        only "=[\"'](https?:)?//[^\"']*" 'http://www\.w3\.org/(2000/svg|1999/xlink)$' "$1" &&
        grep -qF "default-src 'none'" "$1"
}

# Results of a mesh whose texts want out, in every way there is.
hostile()
{
    jq --arg text "</title></style></text></svg><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;]]>" '
        . as $all | ($text + "\u0001\u001b[31m\n\\l\\N \u202e\u2066|`=HYPERLINK(1)` @octocat #1 [x](http://evil.example) $(reboot)\u0000") as $bad |
        .nodes[0].name = $bad | .started = $bad | .meshnet = $bad | .error = $bad | .complete = false |
        .cells |= map((if .from == "spark-a" then .from = $bad else . end) |
                      .link = (if .link then .link + $bad else null end) |
                      .netdev_from = $bad | .expected_by = $bad |
                      if .status == "dead" then .status = $bad | .error = $bad else . end) |
        .findings |= map(.text = $bad | .link = $bad | .from = $bad) |
        .environment |= map(.host = $bad | .cpu = $bad | .plugin.path = $bad | .nics |= map(.netdev = $bad))
    ' "$RESULTS/matrix.json" >mesh.json
    jq --arg text "\" onload=1 '); system('touch owned') #<script>" '
        ($text + "\n`touch owned`\u202e") as $bad | .ranks[0].name = $bad |
        .collectives |= map(.algorithm += $bad | .type = $bad | .op = "=1+1" + $bad)
    ' "$RESULTS/collectives.json" >coll.json
    jq '.here.node = "=1+1" | .peer.node = "<b>peer</b>"' "$RESULTS/link.json" >link.json
}

@test "report: wrong usage, and files that hold no results, exit 2 and say why" {
    local file='{"schema": "meshnet-results", "schema_version": 1, "kind": "link", "environment": [],'
    report
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"which results?"* ]]
    report "$RESULTS/link.json"
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--output report.html"* ]]
    report "$RESULTS/link.json" -o page
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"'page': which format?"*".html, .md or .csv"* ]]
    report "$RESULTS/link.json" -o -
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"which format?"* ]]
    report --format pdf "$RESULTS/link.json" -o page
    [ "$status" -eq 2 ]
    report "$RESULTS/nothing.json" -o page.html
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"$RESULTS/nothing.json"* ]]
    echo '{' >broken.json
    echo '{"rules": []}' >other.json
    echo "$file \"results\": 7}" >shape.json
    for name in broken other shape; do
        report "$RESULTS/link.json" $name.json -o page.html
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"$name.json"*"expected what meshnet bench --json writes"* ]]
    done
    # Members of other types are not there.
    echo "$file"' "latency": [{"size": "x", "p50_us": []}, {}], "results": [{"size": 1e300,
        "direction": 7, "gbps": -1}], "here": [], "counters_here": {"nics": {"a": 3}}}' >odd.json
    for format in html md csv; do
        report odd.json -o odd.$format
        [ "$status" -eq 0 ]
    done
    [ ! -e page.html ]
}

@test "report: the page has its parts, needs nothing else, and takes several files" {
    report "$RESULTS/matrix.json" "$RESULTS/link.json" -o page.html "$RESULTS/collectives.json"
    [ "$status" -eq 0 ]
    [ -z "$output$stderr" ]
    alone page.html
    [ "$(grep -c '<svg class="mesh"' page.html)" -eq 1 ]
    [ "$(grep -c '<svg class="chart"' page.html)" -eq 8 ]
    [ "$(grep -c '<span>time, median, µs over' page.html)" -eq 3 ]
    [ "$(grep -c 'class="verdict' page.html)" -eq 3 ]
    # What is long is folded away.
    [ "$(grep -c '<details' page.html)" -ge 4 ]
    none -E '<details[^>]* open' page.html
    grep -q '2 of 6 links are as they should be; 1 is dead, 3 need attention (at worst spark-c' page.html
    grep -q '<title>Mesh of 4 nodes, vm to vm and collectives of 4 ranks</title>' page.html
    for text in 'Content-Security-Policy' 'prefers-color-scheme:dark' '@media print' \
        '<h2>Findings</h2>' '<summary>Environment</summary>' '28.39.1002' '✕ dead' '⚠ 48213 lost' \
        'p99.9 µs' 'bidirectional-ring' 'plugin sha256'; do
        grep -qF -- "$text" page.html
    done
    # Names within the pictures are the page's, each once.
    ids=$(grep -oE " id=['\"][^'\"]*" page.html)
    [ -z "$(sort <<<"$ids" | uniq -d)" ]
    while read -r name; do
        grep -qE "id=['\"]$name['\"]" page.html
    done < <(grep -oE "href='#[^']*" page.html | cut -d'#' -f2 | sort -u)
    report --title 'Rack 7 & 8' "$RESULTS/link.json" -o - --format html
    [ "$status" -eq 0 ]
    [[ "$output" == *"<h1>Rack 7 &amp; 8</h1>"* ]]
}

@test "report: Markdown and CSV hold the same figures" {
    report "$RESULTS/matrix.json" "$RESULTS/link.json" "$RESULTS/collectives.json" -o page.md
    [ "$status" -eq 0 ]
    grep -qF '**2 of 6 links are as they should be' page.md
    grep -qF '❌ Run 1: matrix.json, 2026-05-12T09:14:31Z' page.md
    grep -qF '| spark-c | 9.27 Gb/s, 10 % ❌ | 91.3 Gb/s, 99 % | – | 61.2 Gb/s, 66 % ⚠ |' page.md
    grep -qF -- '- ❌ The link is dead' page.md
    report "$RESULTS/matrix.json" "$RESULTS/link.json" "$RESULTS/collectives.json" -o page.csv
    [ "$status" -eq 0 ]
    [ "$(head -n 1 page.csv)" = file,kind,name,link,from,to,status,variant,bytes,metric,unit,value ]
    grep -qx 'matrix.json,matrix,link,a-c,spark-a,spark-c,ok,,1048576,out,Gb/s,9.31' page.csv
    grep -qx 'matrix.json,matrix,link,b-d,spark-b,spark-d,dead,,1048576,up,,0' page.csv
    want=$(jq '[.collectives[].busbw_gb_per_s] | add * 1000 | round' "$RESULTS/collectives.json")
    got=$(awk -F, '$10 == "busbw" && $8 !~ /in place/ { sum += $12 } END { printf "%.0f", sum * 1000 }' page.csv)
    [ "$got" = "$want" ]
    want=$(jq '[.results[].gbps] | add * 1000 | round' "$RESULTS/link.json")
    got=$(awk -F, '$10 == "bandwidth" { sum += $12 } END { printf "%.0f", sum * 1000 }' page.csv)
    [ "$got" = "$want" ]
}

@test "report: several runs are told apart, whatever their files are called" {
    mkdir -p monday friday
    cp "$RESULTS/link.json" monday
    jq '.started = "2026-05-16T10:00:00Z"' "$RESULTS/link.json" >friday/link.json
    report monday/link.json friday/link.json "$RESULTS/matrix.json" -o page.html
    [ "$status" -eq 0 ]
    alone page.html
    grep -q '<title>vm to vm (2 runs) and mesh of 4 nodes</title>' page.html
    for run in 'Run 1: monday/link.json, 2026-05-12' 'Run 2: friday/link.json, 2026-05-16' 'Run 3: matrix.json, '; do
        # At the verdict, and where its part begins.
        [ "$(grep -c "$run" page.html)" -eq 2 ]
    done
    for n in 1 2 3; do
        grep -q "<a href=\"#run$n\">" page.html
        [ "$(grep -c "id=\"run$n\"" page.html)" -eq 1 ]
    done
    grep -q 'link b-d, spark-b to spark-d, in matrix.json' page.html
    report monday/link.json friday/link.json -o page.md
    [ "$(grep -c '^## Run [12]: .*day/link.json' page.md)" -eq 2 ]
    report monday/link.json friday/link.json -o page.csv
    [ "$(cut -d, -f1 page.csv | sort -u | xargs)" = 'file friday/link.json monday/link.json' ]
    # Of one alone there is nothing to tell.
    report monday/link.json -o page.html
    none 'class="run"' page.html
    # The very same twice.
    report monday/link.json monday/link.json -o page.html
    [ "$status" -eq 0 ]
    grep -q 'Run 2: monday/link.json' page.html
}

@test "report: the verdict counts measurements that were not steady" {
    report "$RESULTS/link.json" -o - --format md
    [[ "$output" == *"⚠️ **"*" 11 of 39 measurements were unsteady, still changing when measured.**"* ]]
    jq '(.latency[], .results[]).steady = true' "$RESULTS/link.json" >steady.json
    report steady.json -o - --format md
    [[ "$output" == *"✅ **"* ]]
    [[ "$output" != *unsteady* ]]
    # A few are said, and leave it good.
    jq '.latency[0].steady = false' steady.json >one.json
    report one.json -o - --format md
    [[ "$output" == *"✅ **"*" 1 of 39 measurements was unsteady"* ]]
}

@test "report: a text that does not fit ends in a whole word" {
    jq '.cells |= map(if .status == "dead" then .error = ([range(400) | "word\(.)"] | join(" ")) else . end)' \
        "$RESULTS/matrix.json" >long.json
    report long.json -o - --format md
    [[ "$output" == *'word1 '* ]]
    none -oE 'word[0-9]+…' <<<"$output"
    grep -qE 'word[0-9]+ …' <<<"$output"
}

@test "report: profiles of a link: rates and bursts; a mesh without cables between some" {
    jq 'del(.latency, .results) | .rates = [{size: 8, direction: "out", messages_per_s: 123456, ci95_percent: 1.5}] |
        .bursts = [{size: 64, direction: "in", bursts: 7, p50_us: 3.25, max_us: 99}] |
        .raw_verbs = [{size: 64, direction: "out", path: "plugin", gbps: 1.5, messages_per_s: 3e6},
                      {size: 64, direction: "out", path: "UD send", gbps: 1.777, messages_per_s: 4e6}]' \
        "$RESULTS/link.json" >rates.json
    for format in md html csv; do
        report rates.json -o rates.$format
        [ "$status" -eq 0 ]
        grep -q 123456 rates.$format
        grep -q '99\(\.00\|$\)' rates.$format
        grep -q 'UD send.*1\.777' rates.$format
    done
    [ "$(grep -c '<figure' rates.html)" -ge 3 ]
    # Nodes that no cable joins are no fault; links without findings are as they should be.
    jq '.findings = [] | .cells |= map(if .status == "dead" or .ratio < 0.9
        then .status = "not measured" | .out_gbps = null | .in_gbps = null | .ratio = null else . end)' \
        "$RESULTS/matrix.json" >partial.json
    report partial.json -o - --format md
    [[ "$output" == *"✅ **All links of 4 nodes deliver at least 90 % of what the cables allow, 91.3 to 91.5 Gb/s each way.**"* ]]
    # A run that ended early says so, and what it did not reach counts.
    jq '.complete = false | .error = "spark-c is gone"' partial.json >early.json
    report early.json -o - --format md
    [[ "$output" == *"❌ **2 of 6 links are as they should be; 4 were not measured. The run ended early: spark-c is gone.**"* ]]
}

@test "report: texts of other machines stay texts" {
    hostile
    report mesh.json coll.json link.json -o page.html
    [ "$status" -eq 0 ]
    alone page.html
    [ ! -e owned ]
    grep -qF '&lt;script&gt;alert(1)&lt;/script&gt;' page.html
    LC_ALL=C none -P '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]' page.html
    LC_ALL=C none -P '\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]' page.html
    report mesh.json coll.json link.json -o page.md
    [ "$status" -eq 0 ]
    # No element but the details, no mention, no link, and every row of a table as long as its head.
    grep -vE '</?(details|summary)>' page.md >bare.md
    none -P '(?<!\\)<' bare.md
    none -P '@(?!\x{200b})|#(?=\d)|(?<!\\)\[|http:/' page.md
    awk -F'|' '{ gsub(/\\\|/, "") } /^\|/ { if (cols && NF != cols) exit 1; cols = NF; next } { cols = 0 }' page.md
    report mesh.json coll.json link.json -o page.csv
    [ "$status" -eq 0 ]
    none -E '(^|,)"?[=+@-][^,]*[A-Za-z]' page.csv
    grep -qF "'=1+1" page.csv
}

@test "report: without gnuplot and graphviz the page has tables, and says what is missing" {
    mkdir bin
    run --separate-stderr env PATH="$PWD/bin" "$(command -v timeout)" 60 "$MESHNET" report \
        "$RESULTS/matrix.json" "$RESULTS/link.json" -o page.html
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"dot is not installed"* ]]
    [[ "$stderr" == *"gnuplot is not installed"* ]]
    alone page.html
    grep -q 'gnuplot is not installed' page.html
    [ "$(grep -c '<svg class="mesh"' page.html)" -eq 1 ]
    [ "$(grep -c '<svg class="chart"' page.html)" -eq 0 ]
    grep -q 'p99.9 µs' page.html
    # One that fails is heard.
    printf '#!/bin/sh\necho "no terminal of that kind" >&2\nexit 3\n' >bin/gnuplot
    chmod +x bin/gnuplot
    PATH=$PWD/bin:$PATH report "$RESULTS/link.json" -o page.html
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"gnuplot failed: no terminal of that kind"* ]]
}

@test "report: a full disk leaves what was there, and no part of a page" {
    [ "$(id -u)" -eq 0 ] || skip "mounting needs root"
    mkdir disk
    run unshare -m bash -c '
        mount -t tmpfs -o size=16k none disk && echo old >disk/page.html || exit 99
        "$@" -o disk/page.html; echo "status $?"; ls disk; cat disk/page.html' \
        bash "$MESHNET" report "$RESULTS/matrix.json"
    echo "$output"
    [[ "$output" == *"disk/page.html: No space left on device"* ]]
    [ "${lines[-3]}" = "status 1" ]
    [ "${lines[-2]}" = page.html ]
    [ "${lines[-1]}" = old ]
    run bash -c '"$@" -o - --format html 2>&1 >/dev/full' bash "$MESHNET" report "$RESULTS/matrix.json"
    [ "$status" -eq 1 ]
    [[ "$output" == *"writing the report: No space left on device"* ]]
    mkfifo pipe
    report "$RESULTS/matrix.json" -o pipe --format html
    [ "$status" -eq 2 ]
    [ -p pipe ]
}

# What must hold of a page in a window of any width: no sideways scrolling, every picture drawn and
# in sight, every text within its picture.
CHECK='
    const bad = [], box = e => e.getBoundingClientRect(), wide = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > wide)
        bad.push(`body is ${document.documentElement.scrollWidth} wide in ${wide}`);
    for (const svg of document.querySelectorAll("svg")) {
        const b = box(svg), name = svg.getAttribute("aria-label");
        if (b.width < 200 || b.height < 100) bad.push(`${name}: ${b.width} x ${b.height}`);
        if (!name) bad.push("a picture without a name");
        if (!svg.querySelector("path")) bad.push(`${name}: no line`);
        for (const text of svg.querySelectorAll("text"))
            if (box(text).left < b.left - 2 || box(text).right > b.right + 2)
                bad.push(`${name}: "${text.textContent}" is cut`);
        for (const path of svg.querySelectorAll("path[stroke]"))
            if (!/^rgb/.test(getComputedStyle(path).stroke)) bad.push(`${name}: no colour`);
    }
    for (const mesh of document.querySelectorAll("svg.mesh")) {
        const all = [...mesh.querySelectorAll("text.figure, .node rect")];
        all.forEach((a, i) => all.slice(0, i).forEach(b => {
            const p = box(a), q = box(b);
            if (p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom)
                bad.push(`"${a.textContent}" on "${b.textContent || b.parentNode.textContent}"`);
        }));
    }
    const folded = [...document.querySelectorAll("details")];
    for (const part of folded) {
        if (part.open) bad.push("open: " + part.textContent.slice(0, 30));
        part.open = true;
    }
    let hints = 0;
    for (const scroll of document.querySelectorAll(".scroll")) {
        const wider = scroll.scrollWidth > scroll.clientWidth + 1, hint = box(scroll.querySelector(".more"));
        hints += wider;
        if (wider ? hint.width < 100 || hint.left < 0 || hint.right > wide : hint.width > 0)
            bad.push(`${scroll.scrollWidth} in ${scroll.clientWidth}: a hint of ${hint.width}`);
    }
    for (const cell of document.querySelectorAll(".heat .way"))
        if (!cell.textContent.trim()) bad.push("a cell without text");
    return {bad, folded: folded.length, hints, labels: document.querySelectorAll("svg.mesh .figure").length,
            charts: document.querySelectorAll("svg.chart").length,
            meshes: document.querySelectorAll("svg.mesh").length,
            back: getComputedStyle(document.body).backgroundColor}'

@test "report: labels of four and five nodes with crossing links stand clear in a browser" {
    for program in chromium chromedriver curl; do
        command -v $program >/dev/null || skip "no $program"
    done
    browser_start
    for mesh in "4 1" "5 1" "5 2"; do
        jq --argjson n "${mesh% *}" --argjson k "${mesh#* }" '
            . as $doc | [range($n) | {name: "spark-\(.)"}] as $nodes |
            [range($n) as $a | range($a + 1; $n) as $b | range($k) as $c | $doc.cells[0] +
                {link: "l\($a)-\($b)-\($c)", from: $nodes[$a].name, to: $nodes[$b].name,
                 in_gbps: (if ($a + $b) % 3 == 0 then 44.7 else 91.3 end),
                 status: (if ($a + $b + $c) % 5 == 4 then "dead" else "ok" end)}] as $cells |
            $doc | .nodes = $nodes | .cells = $cells | .findings = [] | .carried = []' \
            "$RESULTS/matrix.json" >mesh.json
        "$MESHNET" report mesh.json -o mesh.html
        for width in 400 1280; do
            browser_width $width
            browser_open "$PWD/mesh.html"
            seen=$(browser_run "$CHECK")
            echo "$mesh $width: $seen"
            [ "$(jq -c .bad <<<"$seen")" = '[]' ]
            [ "$(jq .labels <<<"$seen")" -eq "$(jq '.cells | length' mesh.json)" ]
        done
    done
}

@test "report: the page in a browser, narrow and wide, light and dark" {
    for program in chromium chromedriver curl; do
        command -v $program >/dev/null || skip "no $program"
    done
    hostile
    "$MESHNET" report "$RESULTS"/{matrix,link,collectives}.json -o page.html
    "$MESHNET" report mesh.json coll.json link.json -o hostile.html
    browser_start
    for page in page hostile; do
        for look in "400 light" "1280 dark"; do
            # shellcheck disable=SC2086
            browser_width $look
            browser_open "$PWD/$page.html"
            seen=$(browser_run "$CHECK")
            echo "$page $look: $seen"
            [ "$(jq -c .bad <<<"$seen")" = '[]' ]
            [ "$(jq .meshes <<<"$seen")" -eq 1 ]
            [ "$(jq .charts <<<"$seen")" -eq 8 ]
            [ "$(jq .folded <<<"$seen")" -ge 4 ]
            [[ $look != 400* ]] || [ "$(jq .hints <<<"$seen")" -ge 3 ]
            [[ $look != *light ]] || [ "$(jq -r .back <<<"$seen")" = 'rgb(255, 255, 255)' ]
            [[ $look != *dark ]] || [ "$(jq -r .back <<<"$seen")" = 'rgb(18, 23, 29)' ]
        done
        console=$(browser_console)
        echo "$console"
        [ -z "$console" ]
    done
    # The test sees a console's errors: what the page forbids is reported.
    browser_run 'const i = document.createElement("img"); i.src = "http://127.0.0.1:1/"; document.body.append(i);' >/dev/null
    browser_console | grep -q 'Content Security Policy'
}
