/* What happens to messages when a link goes, while recovery is under way, and when it returns.
 *
 *   spin -a [-DRELAY] [-DROWS] [-DFAULTS=3] [-DWITHOUT_...] failover.pml
 *   gcc -O2 -DSAFETY -o pan pan.c && ./pan -m10000; spin -t -p ... failover.pml shows a bad end
 *
 * Two links, two messages of two segments (with ROWS: of one), FAULTS faults. A fault lets a link
 * lose what is under way, in either direction, until it heals; what is not lost may arrive as late
 * as it likes. The control connection loses nothing and keeps order: it moves by itself.
 *
 *   data    sender -> receiver, a segment at a time: written by the NIC, seen by the program when
 *           it polls. An acknowledgement says that the first NIC on the way has it.
 *   RELAY   link 1 leads over a node in between, which keeps one segment.
 *   ROWS    receiver -> sender, one for each message: it may be sent. There is room for one row; it
 *           is written again when its message is complete and no write to it is under way.
 *
 * Each WITHOUT_ leaves out one thing that the protocol relies on, and must end badly:
 *   FENCE   the receiver answers without closing its queue pair first
 *   DRAIN   ... without looking at what had arrived by then
 *   TURN    what an earlier queue pair sent is taken by the one that followed it
 *   END     a send is complete on the first hop's acknowledgement (RELAY)
 *   EPOCH   the node in between passes on what came before its own queue pair was made (RELAY)
 *   CLAIM   the receiver writes a row anew on its own evidence, before the sender's fence (ROWS)
 */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifdef RELAY
#define relayed(l) (l == 1)
#else
#define relayed(l) false
#endif
#ifdef ROWS
#define EACH 1
#else
#define EACH 2
#endif
#define SEGMENTS (2 * EACH) /* segment g is of message g / EACH */

mtype:control = { SYNC, SYNC_REQUEST, ANSWER, DONE, JOIN, JOINED };
mtype:segment = { TODO, SENT, ACKED, UNKNOWN, GOT };
mtype:pair = { UP, FENCED, DOWN, JOINING };
mtype:row = { DUE, WRITTEN, SURE };

/* --- the world -------------------------------------------------------------------------------- */

bool bad[2];  /* loses */
bool lost[2]; /* has lost something since its queue pairs were made */
byte faults;
byte written; /* bits: segments that the receiver's memory has had; for assertions alone */

/* Under way: segment or message, and the turn of the queue pair that sent it. */
chan data[2] = [1] of { byte, byte };
chan arrived[2] = [1] of { byte }; /* the receiver's completion queues */
/* Room for all that can be under way: who answers must never wait for who asks. */
chan to_receiver = [2] of { mtype:control, byte, byte };
chan to_sender = [6] of { mtype:control, byte, byte, byte };
#ifdef RELAY
chan hop = [1] of { byte, byte };
#endif
#ifdef ROWS
chan rows[2] = [1] of { byte, byte };
chan row_acks[2] = [1] of { byte, byte };
#endif

mtype:pair s_pair[2] = UP, r_pair[2] = UP;
byte s_turn[2], r_turn[2];
bool sent[2], received[2]; /* complete: the buffer is its owner's again */
mtype:segment seg[SEGMENTS] = TODO;
byte on[SEGMENTS];
byte got; /* bits: segments that the receiver has counted */
bool asked[2];
#ifdef ROWS
byte place;     /* the sender's memory, that rows are written to: message + 1 */
byte announced; /* messages whose row the sender has read */
mtype:row row[2] = DUE;
byte row_on[2];
#define may_go(g) (announced > (g))
#else
#define may_go(g) true
#endif

#define bits(m)           ((2 * EACH - 1) << (EACH * (m)))
#define complete(some, m) (((some) & bits(m)) == bits(m))
#define over              (sent[0] && sent[1] && received[0] && received[1])

#ifdef WITHOUT_TURN
#define same_turn(a, b) true
#else
#define same_turn(a, b) ((a) == (b))
#endif

#ifdef WITHOUT_END
#define safe(g) (seg[g] == GOT || seg[g] == ACKED)
#else
#define safe(g) (seg[g] == GOT || (seg[g] == ACKED && !relayed(on[g])))
#endif
#define all_safe(m) (safe(EACH * (m)) && safe(EACH * (m) + EACH - 1))

inline complete_sends()
{
    if
    :: !sent[0] && all_safe(0) -> assert(complete(written, 0)); sent[0] = true
    :: else
    fi;
    if
    :: !sent[1] && all_safe(1) -> assert(complete(written, 1)); sent[1] = true
    :: else
    fi
}

/* That an acknowledgement comes late differs from one that comes at once in nothing that the sender
 * does; that it is lost does. Of a link that leads to the receiver itself it says as much as an
 * answer: by what the segment went is nothing to anybody then, and not kept, which halves the states. */
inline acknowledge(l)
{
    if
    :: s_pair[l] == UP && s_turn[l] == turn && seg[g] == SENT && on[g] == l ->
        seg[g] = (relayed(l) -> ACKED : GOT);
        on[g] = (relayed(l) -> l : 0);
        complete_sends()
    :: s_pair[l] == UP && bad[l] -> lost[l] = true
    :: s_pair[l] != UP || s_turn[l] != turn
    fi
}

inline arrive(l)
{
    data[l] ? g, turn;
    if
    :: r_pair[l] == UP && same_turn(r_turn[l], turn) ->
        assert(!received[g / EACH]); /* nothing is written to a buffer that was given back */
        assert(!sent[g / EACH]);     /* nor read from one */
        written = written | (1 << g);
        arrived[l] ! g;
        if
        :: relayed(l)
        :: else -> acknowledge(l)
        fi
    :: else
    fi;
    g = 0;
    turn = 0
}

inline lose(way, l)
{
    way ? _, _;
    lost[l] = true
}

#define may_arrive(l) (nempty(data[l]) && nfull(arrived[l]))

active proctype world()
{
    byte g, turn;

end:
    do
    :: d_step { faults < FAULTS && !bad[0] && !over -> faults++; bad[0] = true }
    :: d_step { faults < FAULTS && !bad[1] && !over -> faults++; bad[1] = true }
    :: d_step { bad[0] && (lost[0] || s_pair[0] != UP) -> bad[0] = false }
    :: d_step { bad[1] && (lost[1] || s_pair[1] != UP) -> bad[1] = false }
    :: atomic { may_arrive(0) -> arrive(0) }
    :: atomic { may_arrive(1) -> arrive(1) }
    :: atomic { bad[0] && nempty(data[0]) -> lose(data[0], 0) }
    :: atomic { bad[1] && nempty(data[1]) -> lose(data[1], 1) }
    od
}

#ifdef ROWS
inline arrive_row(l)
{
    rows[l] ? m, turn;
    if
    :: (s_pair[l] == UP || s_pair[l] == JOINING) && same_turn(s_turn[l], turn) ->
        place = m + 1;
        row_acks[l] ! m, turn
    :: else
    fi;
    m = 0;
    turn = 0
}

active proctype world_of_rows()
{
    byte m, turn;

end:
    do
    :: atomic { nempty(rows[0]) && nfull(row_acks[0]) -> arrive_row(0) }
    :: atomic { nempty(rows[1]) && nfull(row_acks[1]) -> arrive_row(1) }
    :: atomic { bad[0] && nempty(rows[0]) -> lose(rows[0], 0) }
    :: atomic { bad[1] && nempty(rows[1]) -> lose(rows[1], 1) }
    :: atomic { bad[0] && nempty(row_acks[0]) -> lose(row_acks[0], 0) }
    :: atomic { bad[1] && nempty(row_acks[1]) -> lose(row_acks[1], 1) }
    od
}
#endif

#ifdef RELAY
active proctype relay()
{
    byte g, turn;

end:
    do
    :: atomic { nempty(hop) && nfull(data[1]) ->
        hop ? g, turn;
        acknowledge(1);
        if
        :: bad[1] -> lost[1] = true /* the node went, and the segment with it */
        :: true ->
#ifdef WITHOUT_EPOCH
            turn = r_turn[1];
#endif
            data[1] ! g, turn
        fi;
        g = 0;
        turn = 0 }
    od
}
#endif

/* --- the sender ------------------------------------------------------------------------------- */

/* Step 1 of recovery: nothing leaves by this queue pair from here on, and no row comes in. */
inline give_up(l)
{
    s_pair[l] = FENCED;
    do
    :: i < SEGMENTS ->
        if
        :: on[i] == l && (seg[i] == SENT || (seg[i] == ACKED && relayed(l))) -> seg[i] = UNKNOWN
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    to_receiver ! SYNC, l, s_turn[l]
}

/* Step 4: what has not arrived goes by any link. */
inline answered(l, has)
{
    s_pair[l] = DOWN;
    do
    :: i < SEGMENTS ->
        if
        :: on[i] == l && seg[i] == UNKNOWN ->
            seg[i] = ((has >> i) & 1 -> GOT : TODO);
            on[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    complete_sends()
}

inline send_segment(l)
{
    seg[g] = SENT;
    on[g] = l;
    if
#ifdef RELAY
    :: relayed(l) -> hop ! g, s_turn[l]
#endif
    :: !relayed(l) -> data[l] ! g, s_turn[l]
    fi
}

inline join(l)
{
    s_turn[l]++;
    s_pair[l] = JOINING;
    lost[l] = false;
    to_receiver ! JOIN, l, s_turn[l]
}

#ifdef RELAY
#define has_room(l) ((relayed(l) && nfull(hop)) || (!relayed(l) && nfull(data[l])))
#else
#define has_room(l) nfull(data[l])
#endif
#define may_use(l)  (s_pair[l] == UP && has_room(l))
#define may_send(g) (seg[g] == TODO && may_go(g) && (may_use(0) || may_use(1)))
#define sees(l)     (bad[l] || lost[l]) /* an event of the port, or silence */

active proctype sender()
{
    byte g, l, turn, has, i;

end:
    do
    :: atomic {
        if
        :: may_send(0) -> g = 0
        :: seg[0] != TODO && may_send(1) -> g = 1
#ifndef ROWS
        :: seg[0] != TODO && seg[1] != TODO && may_send(2) -> g = 2
        :: seg[0] != TODO && seg[1] != TODO && seg[2] != TODO && may_send(3) -> g = 3
#endif
        fi;
        if
        :: may_use(0) -> send_segment(0)
        :: may_use(1) -> send_segment(1)
        fi;
        g = 0 }
    :: atomic { s_pair[0] == UP && sees(0) -> give_up(0) }
    :: atomic { s_pair[1] == UP && sees(1) -> give_up(1) }
    :: atomic { to_sender ? [SYNC_REQUEST, _, _, _] ->
        to_sender ? SYNC_REQUEST, l, turn, _;
        if
        :: s_pair[l] == UP && s_turn[l] == turn -> give_up(l)
        :: else
        fi;
        l = 0;
        turn = 0 }
    :: atomic { to_sender ? ANSWER, l, _, has ->
        answered(l, has);
        l = 0;
        has = 0 }
#ifdef RELAY
    :: atomic { to_sender ? DONE, l, _, _ ->
        seg[EACH * l] = GOT;
        on[EACH * l] = 0;
        seg[EACH * l + EACH - 1] = GOT;
        on[EACH * l + EACH - 1] = 0;
        l = 0;
        complete_sends() }
#endif
    :: atomic { s_pair[0] == DOWN && !bad[0] -> join(0) }
    :: atomic { s_pair[1] == DOWN && !bad[1] -> join(1) }
    :: atomic { to_sender ? JOINED, l, _, _ -> s_pair[l] = UP; l = 0 }
#ifdef ROWS
    :: atomic { announced < 2 && place == announced + 1 -> announced++ }
#endif
    od
}

/* --- the receiver ----------------------------------------------------------------------------- */

inline complete_receive(m)
{
    if
    :: !received[m] && complete(got, m) ->
        received[m] = true;
#ifdef RELAY
        to_sender ! DONE, m, 0, 0
#endif
    :: else
    fi
}

inline look(l)
{
    arrived[l] ? g;
    got = got | (1 << g);
    g = 0
}

#ifdef ROWS
inline rewrite(l)
{
    if
    :: row[0] == WRITTEN && row_on[0] == l -> row[0] = DUE
    :: else
    fi;
    if
    :: row[1] == WRITTEN && row_on[1] == l -> row[1] = DUE
    :: else
    fi
}
#else
#define rewrite(l) skip
#endif

/* Step 3: nothing arrives by this queue pair from here on; what did is counted; then the answer. */
inline fence(l)
{
#ifndef WITHOUT_FENCE
    r_pair[l] = DOWN;
    asked[l] = false;
#endif
#ifndef WITHOUT_DRAIN
    do
    :: nempty(arrived[l]) -> look(l)
    :: empty(arrived[l]) -> break
    od;
#endif
    rewrite(l);
    to_sender ! ANSWER, l, 0, got
}

inline ask(l)
{
    asked[l] = true;
#ifdef WITHOUT_CLAIM
    rewrite(l);
#endif
    to_sender ! SYNC_REQUEST, l, r_turn[l], 0
}

#ifdef ROWS
inline announce(m, l)
{
    row[m] = WRITTEN;
    row_on[m] = l;
    rows[l] ! m, r_turn[l]
}

inline row_acked(l)
{
    row_acks[l] ? m, turn;
    if
    :: r_turn[l] == turn && r_pair[l] == UP && row[m] == WRITTEN && row_on[m] == l -> row[m] = SURE
    :: else
    fi;
    m = 0;
    turn = 0
}

#define may_announce(m, l) \
    (row[m] == DUE && !received[m] && (m == 0 || (received[0] && row[0] != WRITTEN)) && \
     r_pair[l] == UP && !asked[l] && nfull(rows[l]))
#endif

active proctype receiver()
{
    byte g, l, m, turn;

end:
    do
    :: atomic { nempty(arrived[0]) -> look(0) }
    :: atomic { nempty(arrived[1]) -> look(1) }
    :: atomic { !received[0] && complete(got, 0) -> complete_receive(0) }
    :: atomic { !received[1] && complete(got, 1) -> complete_receive(1) }
    :: atomic { r_pair[0] == UP && !asked[0] && sees(0) -> ask(0) }
    :: atomic { r_pair[1] == UP && !asked[1] && sees(1) -> ask(1) }
    :: atomic { to_receiver ? [SYNC, _, _] ->
        to_receiver ? SYNC, l, turn;
        fence(l);
        l = 0;
        turn = 0 }
    :: atomic { to_receiver ? [JOIN, _, _] ->
        to_receiver ? JOIN, l, turn;
        r_turn[l] = turn;
        r_pair[l] = UP;
        asked[l] = false;
        to_sender ! JOINED, l, 0, 0;
        l = 0;
        turn = 0 }
#ifdef ROWS
    :: atomic { may_announce(0, 0) -> announce(0, 0) }
    :: atomic { may_announce(0, 1) -> announce(0, 1) }
    :: atomic { may_announce(1, 0) -> announce(1, 0) }
    :: atomic { may_announce(1, 1) -> announce(1, 1) }
    :: atomic { nempty(row_acks[0]) -> row_acked(0) }
    :: atomic { nempty(row_acks[1]) -> row_acked(1) }
#endif
    od
}

/* --- the end ---------------------------------------------------------------------------------- */

active proctype judge()
{
    timeout -> assert(over) /* nothing can happen any more */
}
