#!/usr/bin/env bats
# Of each class of tests/drivers/failover one scenario that is kept, on the double: links that go and come
# back. ci/seeds --failover has as many more as one likes.

load helper

# class, seed, what is said in it (_ for a blank, - is nothing); what it is kept for.
KEPT=(
    'calm 15 - nothing happens'
    'port 1 is_back_after a port goes down at both ends'
    'end 67 is_back_after a port goes down at one end'
    'silent 5 is_back_after a link carries nothing, its port stays up'
    'oneway 3 is_back_after a link carries nothing one way'
    'late 50 - loss for moments, fourteen times: no link goes for it'
    'late 82 is_back_after the same, and a link goes for it'
    'flap 1 is_back_after ten times down and up'
    'second 1 is_back_after another goes while the first is recovered from'
    'rejoin 1 is_back_after it goes again while it returns'
    'rejoin 5663 is_back_after a completion queue that gives little at a time was not emptied between two lives of its link'
    'rejoin 4403 is_back_after the same: what was flushed meanwhile stays in no queue'
    'verbs 1 is_back_after queue pairs that cannot be made'
    'gid 1 is_back_after its address has another place in the table when it returns'
    'control 49 opened_again control connections are cut meanwhile'
    'post 37 is_back_after a post fails'
    'all 6 is_back_after all go, and return'
    'error 5 is_back_after a write ends with a status that no device should give'
    'error 250 is_given_up a receiver whose own write failed let healthy links run out of receive requests'
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
