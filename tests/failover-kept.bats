#!/usr/bin/env bats
# Of each class of tests/drivers/failover one scenario that is kept, on the double: links that go and come
# back. ci/seeds --failover has as many more as one likes.

load helper

# class, seed, what is said in it (_ for a blank, - is nothing); what it is kept for.
KEPT=(
    'calm 15 - nothing happens'
    'port 203 is_given_up a port goes down at both ends'
    'end 151 - a port goes down at one end, without an event'
    'silent 3 is_given_up a link carries nothing, its port stays up'
    'oneway 64 is_given_up a link carries nothing one way'
    'late 50 - loss for moments, fourteen times: no link goes for it'
    'flap 54 is_given_up ten times down and up'
    'second 37 is_given_up another goes while the first is recovered from'
    'rejoin 32 is_back_after a link comes back'
    'verbs 24 is_given_up queue pairs that cannot be made'
    'gid 225 is_given_up its address has another place in the table when it returns'
    'control 144 opened_again control connections are cut meanwhile'
    'post 31 is_given_up a post fails'
    'all 28 is_given_up all go, and return'
    'error 4484 is_given_up a receiver whose own write failed let healthy links run out of receive requests'
    'error 7604 is_given_up the same, and the peer gave up one link after the other for it'
)

# scene CLASS SEED SAID: right every time; a seed replays nearly always, so that what it says may take another.
scene()
{
    local try
    for try in 1 2 3 4 5; do
        run timeout 120 env LD_LIBRARY_PATH="$BUILD/tests/fakeverbs" "$BUILD/tests/failover" \
            "$PLUGIN" class="$1" from="$2" count=1 verbose=1
        [ "$status" -eq 0 ] || return $status
        [ "$3" != - ] && [[ "$output" != *"${3//_/ }"* ]] || return 0
    done
    return 1
}

@test "failover: the scenarios that are kept, one of each class and those that found something" {
    local row class seed said rc
    for row in "${KEPT[@]}"; do
        read -r class seed said _ <<<"$row"
        rc=0
        scene "$class" "$seed" "$said" || rc=$?
        [ $rc -ne 77 ] || skip "no network namespace with cables can be made here"
        [ $rc -eq 0 ] || { echo "$row: $output"; false; }
    done
}

@test "failover: the kept scenarios are of all classes" {
    run "$BUILD/tests/failover"
    [ "$status" -eq 2 ]
    local class classes=${output#*classes:}
    for class in ${classes%%$'\n'*}; do
        printf '%s\n' "${KEPT[@]}" | grep -q "^$class " || { echo "$class has none"; false; }
    done
}
