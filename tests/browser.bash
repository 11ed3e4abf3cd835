# A browser without a screen, over the WebDriver protocol. Loaded by tests of pages.

# browser_start: needs chromium and chromedriver; browser_stop ends both.
browser_start()
{
    local port try
    # The port it finds for one family may be taken in the other: then it ends, and finds another.
    for try in 1 2 3 4 5; do
        : >driver.out
        chromedriver --port=0 >>driver.out 2>&1 3>&- &
        DRIVER=$!
        for _ in $(seq 300); do
            port=$(sed -n 's/.*started successfully on port \([0-9]*\).*/\1/p' driver.out)
            [ -z "$port" ] && kill -0 "$DRIVER" 2>/dev/null || break
            sleep 0.1
        done
        [ -z "$port" ] || break
    done
    [ -n "$port" ] || { cat driver.out; return 1; }
    SESSION=http://127.0.0.1:$port/session
    # As root chromium has no sandbox; what it opens is a file this test wrote.
    SESSION=$SESSION/$(webdriver POST "" '{"capabilities": {"alwaysMatch": {
        "goog:loggingPrefs": {"browser": "ALL"},
        "goog:chromeOptions": {"args": ["--headless", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
            "--user-data-dir='"$PWD"'/profile"]}}}}' | jq -er .value.sessionId)
}

browser_stop()
{
    [ -z "${DRIVER:-}" ] || { webdriver DELETE "" >/dev/null || true; kill "$DRIVER"; } 2>/dev/null
    DRIVER=
}

# webdriver METHOD PATH [BODY]: the answer as JSON; fails with it when it is an error.
webdriver()
{
    local answer
    answer=$(curl -sS --noproxy '*' --max-time 60 -X "$1" -H 'Content-Type: application/json' \
        ${3:+--data-binary "$3"} "$SESSION$2") || return
    if jq -e '.value | type == "object" and has("error")' <<<"$answer" >/dev/null; then
        printf '%s %s: %s\n' "$1" "$2" "$answer" >&2
        return 1
    fi
    printf '%s\n' "$answer"
}

# browser_width WIDTH [light|dark]
browser_width()
{
    webdriver POST /goog/cdp/execute "{\"cmd\": \"Emulation.setDeviceMetricsOverride\", \"params\":
        {\"width\": $1, \"height\": 900, \"deviceScaleFactor\": 1, \"mobile\": false}}" >/dev/null
    webdriver POST /goog/cdp/execute "{\"cmd\": \"Emulation.setEmulatedMedia\", \"params\":
        {\"features\": [{\"name\": \"prefers-color-scheme\", \"value\": \"${2:-light}\"}]}}" >/dev/null
}

browser_open()
{
    webdriver POST /url "{\"url\": \"file://$1\"}" >/dev/null
}

# browser_run JAVASCRIPT: what it returns, as JSON.
browser_run()
{
    webdriver POST /execute/sync "$(jq -n --arg script "$1" '{script: $script, args: []}')" |
        jq -c .value
}

# browser_console: what the page has put there, a message a line.
browser_console()
{
    webdriver POST /se/log '{"type": "browser"}' | jq -r '.value[] | .level + " " + .message'
}

# browser_shot FILE [full]: a picture of the window, or of the whole page.
browser_shot()
{
    webdriver POST /goog/cdp/execute "{\"cmd\": \"Page.captureScreenshot\", \"params\":
        {\"captureBeyondViewport\": $([ "${2:-}" = full ] && echo true || echo false)}}" |
        jq -r .value.data | base64 -d >"$1"
}
