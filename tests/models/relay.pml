/* The credits of the relay (docs/relay.md, Credits): flows on their ways over trunks, whose buffers
 * they share, in every order of steps.
 *
 *   graph.py ring 5 >graph.pml
 *   spin -a [-DONE_CLASS] [-DBUFFERS=1] [-DSLOW] [-DSTUCK=1] [-DGONE] [-DWITHOUT_SHARE] relay.pml
 *   gcc -O2 -DSAFETY -o pan pan.c && ./pan -m3000000; spin -t -p ... relay.pml shows a bad end
 *
 * graph.pml names the trunks that each flow's way goes over. A source sends without end, until at
 * some time all stop: what is inside then must come out, or nothing can move any more. So a part that
 * stands still is found too, while the rest would go on.
 *
 *   ONE_CLASS      all pieces on a trunk share its buffers, whatever way they have behind them
 *   BUFFERS        posted for each class of a trunk (2; MN_RELAY_BUFFERS are as good, and have more states)
 *   SLOW           DRAINED comes as late as it likes; else at once
 *   STUCK          so many flows, the first ones, have a receiver that takes nothing
 *   GONE           a flow that is stuck may be given up: its buffers are free again
 *   WITHOUT_SHARE  a flow may have all buffers that are free */

/* Those of plugin/relay/relay.h: tests/models.bats holds them together. */
#define MN_RELAY_MAX     8
#define MN_RELAY_CLASSES (MN_RELAY_MAX - 1)
#define MN_RELAY_BUFFERS 8 /* as -DBUFFERS=8 */

#include "graph.pml"
#if HOPS > MN_RELAY_CLASSES
#error "a way over more trunks than there are classes"
#endif

#ifndef BUFFERS
#define BUFFERS 2
#endif
#ifndef STUCK
#define STUCK 0
#endif
#ifdef ONE_CLASS
#define class(h) 0
#else
#define class(h) (h)
#endif

#define slot(h) (way[f * HOPS + (h)] * HOPS + class(h))

byte way[FLOWS * HOPS];     /* trunks of each flow */
byte length[FLOWS];         /* how many */
byte used[TRUNKS * HOPS];   /* of each trunk and class, as the relay before knows: DRAINED not back */
byte inside;                /* pieces of flows whose receiver takes them */
bool closing;               /* no source sends any more */

#ifdef WITHOUT_SHARE
#define share(h) true
#else
#define share(h) (mine[h] == 0 || mine[h] < BUFFERS - used[slot(h)])
#endif
#define may_go(h) ((h) < length[f] && used[slot(h)] < BUFFERS && share(h))

#define counts (f >= STUCK)

inline take(h)
{
    has[h]++;
    mine[h]++;
    used[slot(h)]++
}

inline give(h)
{
    has[h]--;
#ifndef SLOW
    mine[h]--;
    used[slot(h)]--
#endif
}

proctype flow(byte f)
{
    bool edge;       /* a piece is in the first relay's buffer for this flow alone */
    byte has[HOPS];  /* pieces behind each trunk */
    byte mine[HOPS]; /* buffers there that are not known to be free again */
    byte i;
    bool gone;

end:
    do
    :: atomic { !closing && !edge && !gone -> edge = true; inside = inside + counts }
    :: atomic { edge && length[f] == 0 && counts -> edge = false; inside-- }
    :: atomic { edge && may_go(0) -> edge = false; take(0) }
    :: atomic { has[0] > 0 && may_go(1) -> give(0); take(1) }
    :: atomic { has[0] > 0 && length[f] == 1 && counts -> give(0); inside-- }
#if HOPS > 1
    :: atomic { has[1] > 0 && may_go(2) -> give(1); take(2) }
    :: atomic { has[1] > 0 && length[f] == 2 && counts -> give(1); inside-- }
#endif
#if HOPS > 2
    :: atomic { has[2] > 0 && may_go(3) -> give(2); take(3) }
    :: atomic { has[2] > 0 && length[f] == 3 && counts -> give(2); inside-- }
#endif
#if HOPS > 3
    :: atomic { has[3] > 0 && length[f] == 4 && counts -> give(3); inside-- }
#endif
#ifdef SLOW
    :: atomic { mine[0] > has[0] -> mine[0]--; used[slot(0)]-- }
#if HOPS > 1
    :: atomic { mine[1] > has[1] -> mine[1]--; used[slot(1)]-- }
#endif
#if HOPS > 2
    :: atomic { mine[2] > has[2] -> mine[2]--; used[slot(2)]-- }
#endif
#if HOPS > 3
    :: atomic { mine[3] > has[3] -> mine[3]--; used[slot(3)]-- }
#endif
#endif
#ifdef GONE
    :: atomic { !counts && !gone ->
        gone = true;
        edge = false;
        do
        :: i < length[f] ->
            used[slot(i)] = used[slot(i)] - mine[i];
            has[i] = 0;
            mine[i] = 0;
            i++
        :: else -> break
        od;
        i = 0 }
#endif
    od
}

init
{
    byte i;

    atomic {
        lay_out();
        do
        :: i < FLOWS -> run flow(i); i++
        :: else -> break
        od;
        i = 0
    }
    closing = true; /* at any time */
    timeout -> assert(inside == 0) /* nothing can happen any more */
}
