/* A flow over two ways through relays (docs/relay.md, "When something goes"): what is asked for
 * again, and when a send is complete, in every order of steps.
 *
 *   spin -a [-DTWO] [-DFAULTS=3] [-DWITHOUT_...] relay_ways.pml
 *   gcc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000; spin -t -p ... relay_ways.pml shows a bad end
 *
 * Two receives, the first of two pieces, the second of one; with TWO both of one. On each way a piece
 * is in the sender's memory, then in a trunk, then sent by the last relay to what the receiver has
 * posted. A fault ends a way: a line, or a relay with what is in it. Where it was only a line, what is
 * in the trunk stays and arrives as late as it likes, and what the last relay has sent lands while the
 * receiver has not closed that connection. Both ends hear of it in any order, or one alone, whose
 * cable it was: it closes, tells the other in TALK, and both attach anew. TALK loses nothing and keeps
 * order, because it moves by itself.
 *
 * Each WITHOUT_ leaves out one thing that the relay relies on, and must end badly:
 *   FENCE   the receiver asks anew without closing its data connection first
 *   DRAIN   ... without looking at what had landed by then
 *   PAIR    the last relay passes on what belongs to an earlier pair
 *   TURN    the sender takes an announcement for whatever pair its way has now
 *   TELL    an end that closes a way does not tell the other: what is asked for on it stays so. As
 *           the receiver tells before it says that all is there, no send is complete while the
 *           sender's memory could yet be read
 *   DONE    a send is complete when the first relay has it */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifdef TWO
#define PIECES     2
#define message(p) (p) /* two receives of one piece each */
#define bits(m)    (1 << (m))
#else
#define PIECES     3
#define message(p) ((p) / 2)
#define bits(m)    ((m) == 0 -> 3 : 4)
#endif
#define all_of(some, m) (((some) & bits(m)) == bits(m))
#define over       (sent[0] && sent[1] && received[0] && received[1])

mtype = { TODO, ASKED, LANDED };
mtype:talk = { PIECE, WHOLE, CLOSED };

byte faults;
byte pairs;       /* the last number given */
byte relay[2];    /* pair that the relays of a way have; 0: none */
bool s_gone[2], d_gone[2];     /* what they will hear */
bool s_asks[2] = true, d_asks[2] = true; /* have attached, and wait for OPENED */
byte s_pair[2], d_pair[2];     /* 0: closed */

chan edge[2] = [2] of { byte, byte };   /* isend of piece, pair: in the sender's memory */
chan trunk[2] = [1] of { byte, byte };
chan last[2] = [1] of { byte, byte };   /* under way to D on that pair's connection */
chan posted[2] = [3] of { byte };       /* at D, in the order of announcements */
chan landed[2] = [3] of { byte };       /* completions */
chan talk = [8] of { mtype:talk, byte, byte, byte }; /* D to S: piece or message, way, pair */
chan back = [4] of { byte, byte };                   /* S to D: closed way, pair */

mtype state[PIECES] = TODO; /* as D knows */
byte on[PIECES];
byte written;     /* bits: what D's memory has had; for assertions alone */
byte passed;      /* bits: what a first relay has; for WITHOUT_DONE */
bool sent[2], received[2];

inline drop(c)
{
    do
    :: nempty(c) -> c ? _, _
    :: empty(c) -> break
    od
}

inline end_way(w)
{
    faults++;
    relay[w] = 0;
    s_asks[w] = false;
    d_asks[w] = false;
    if
    :: s_gone[w] = true; d_gone[w] = true
    :: s_gone[w] = true
    :: d_gone[w] = true
    fi
}

inline open_way(w)
{
    pairs++;
    relay[w] = pairs;
    s_asks[w] = false;
    d_asks[w] = false;
    do
    :: nempty(posted[w]) -> posted[w] ? _
    :: empty(posted[w]) -> break
    od;
    d_pair[w] = pairs;
    s_pair[w] = pairs
}

/* The first relay reads the sender's memory. */
inline read_piece(w)
{
    edge[w] ? p, turn;
    assert(!sent[message(p)]); /* it is the user's again */
    passed = passed | (1 << p);
#ifdef WITHOUT_DONE
    if
    :: all_of(passed, message(p)) -> sent[message(p)] = true
    :: else
    fi;
#endif
    trunk[w] ! p, turn;
    p = 0;
    turn = 0
}

#ifdef WITHOUT_PAIR
#define belongs(w) true
#else
#define belongs(w) (turn == relay[w])
#endif

/* A connection to D is of one pair. */
inline pass_on(w)
{
    trunk[w] ? p, turn;
    if
    :: belongs(w) -> last[w] ! p, relay[w]
    :: else
    fi;
    p = 0;
    turn = 0
}

inline land(w)
{
    last[w] ? p, turn;
    if
    :: d_pair[w] == turn ->
        assert(nempty(posted[w]));
        posted[w] ? where;
        assert(where == p);
        assert(!received[message(p)]);     /* D's buffer is the user's again */
        assert(((written >> p) & 1) == 0); /* once */
        written = written | (1 << p);
        landed[w] ! p;
        where = 0
    :: else
    fi;
    p = 0;
    turn = 0
}

#define may_read(w) (nempty(edge[w]) && nfull(trunk[w]))
#define may_pass(w) (relay[w] != 0 && nempty(trunk[w]) && nfull(last[w]))
#define may_end(w)  (faults < FAULTS && relay[w] != 0 && !over)
#define may_lose(w) (relay[w] == 0 && nempty(trunk[w]))

active proctype relays()
{
    byte p, turn, where;

end:
    do
    :: atomic { may_read(0) -> read_piece(0) }
    :: atomic { may_read(1) -> read_piece(1) }
    :: atomic { may_pass(0) -> pass_on(0) }
    :: atomic { may_pass(1) -> pass_on(1) }
    :: atomic { nempty(last[0]) -> land(0) }
    :: atomic { nempty(last[1]) -> land(1) }
    :: atomic { may_end(0) -> end_way(0) }
    :: atomic { may_end(1) -> end_way(1) }
    :: atomic { may_lose(0) -> drop(trunk[0]) }
    :: atomic { may_lose(1) -> drop(trunk[1]) }
    :: atomic { s_asks[0] && d_asks[0] -> open_way(0) }
    :: atomic { s_asks[1] && d_asks[1] -> open_way(1) }
    od
}

/* --- the sender ------------------------------------------------------------------------------- */

inline hear_sender(w)
{
#ifndef WITHOUT_TELL
    back ! w, s_pair[w];
#endif
    s_gone[w] = false;
    s_pair[w] = 0;
    drop(edge[w]);
    s_asks[w] = true
}

#ifdef WITHOUT_TURN
#define meant s_pair[w] != 0
#else
#define meant s_pair[w] == turn
#endif

active proctype sender()
{
    byte p, w, turn;

end:
    do
    :: atomic { s_gone[0] -> hear_sender(0) }
    :: atomic { s_gone[1] -> hear_sender(1) }
    :: atomic { talk ? [CLOSED, _, _, _] ->
        talk ? CLOSED, _, w, turn;
        if
        :: s_pair[w] == turn && !s_asks[w] -> hear_sender(w)
        :: else
        fi;
        w = 0;
        turn = 0 }
    :: atomic { talk ? [PIECE, _, _, _] && nfull(edge[0]) && nfull(edge[1]) ->
        talk ? PIECE, p, w, turn;
        if
        :: meant && !sent[message(p)] -> edge[w] ! p, s_pair[w]
        :: else
        fi;
        p = 0;
        w = 0;
        turn = 0 }
    :: atomic { talk ? [WHOLE, _, _, _] ->
        talk ? WHOLE, p, _, _;
        assert(all_of(written, p));
        sent[p] = true;
        p = 0 }
    od
}

/* --- the receiver ----------------------------------------------------------------------------- */

inline look(w)
{
    landed[w] ? p;
    state[p] = LANDED;
    p = 0
}

inline hear_receiver(w)
{
#ifndef WITHOUT_TELL
    talk ! CLOSED, 0, w, d_pair[w];
#endif
    d_gone[w] = false;
#ifndef WITHOUT_FENCE
    d_pair[w] = 0;
    do
    :: nempty(posted[w]) -> posted[w] ? _
    :: empty(posted[w]) -> break
    od;
#endif
    do
#ifdef WITHOUT_DRAIN
    :: nempty(landed[w]) -> landed[w] ? _
#else
    :: nempty(landed[w]) -> look(w)
#endif
    :: empty(landed[w]) -> break
    od;
    do
    :: p < PIECES ->
        if
        :: state[p] == ASKED && on[p] == w -> state[p] = TODO; on[p] = 0
        :: else
        fi;
        p++
    :: else -> break
    od;
    p = 0;
    d_asks[w] = true
}

/* Posted first, then announced. */
inline ask(w)
{
    state[p] = ASKED;
    on[p] = w;
    posted[w] ! p;
    talk ! PIECE, p, w, d_pair[w]
}

#define has(p)   (state[p] == LANDED)
#ifdef TWO
#define whole_0 has(0)
#define whole_1 has(1)
#else
#define whole_0 (has(0) && has(1))
#define whole_1 has(2)
#endif
#define is_todo(p) (state[p] == TODO && nfull(talk))
#define open_at(w) (d_pair[w] != 0 && !d_gone[w] && !d_asks[w] && nfull(posted[w]))

active proctype receiver()
{
    byte p, w, turn;

end:
    do
    :: atomic { nempty(landed[0]) -> look(0) }
    :: atomic { nempty(landed[1]) -> look(1) }
    :: atomic { d_gone[0] && nfull(talk) -> hear_receiver(0) }
    :: atomic { d_gone[1] && nfull(talk) -> hear_receiver(1) }
    :: atomic { nempty(back) && nfull(talk) ->
        back ? w, turn;
        if
        :: d_pair[w] == turn && !d_asks[w] -> hear_receiver(w)
        :: else
        fi;
        w = 0;
        turn = 0 }
    :: atomic {
        if
        :: is_todo(0) -> p = 0
        :: is_todo(1) -> p = 1
#ifndef TWO
        :: is_todo(2) -> p = 2
#endif
        fi;
        if
        :: open_at(0) -> ask(0)
        :: open_at(1) -> ask(1)
        :: else
        fi;
        p = 0 }
    :: atomic { !received[0] && whole_0 && nfull(talk) -> received[0] = true; talk ! WHOLE, 0, 0, 0 }
    :: atomic { !received[1] && whole_1 && nfull(talk) -> received[1] = true; talk ! WHOLE, 1, 0, 0 }
    od
}

active proctype judge()
{
    timeout -> assert(over) /* nothing can happen any more */
}
