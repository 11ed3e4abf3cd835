// The places where threads, or a thread and a device, meet without a lock, under relacy: it tries
// every order of the steps and every value that a load may return by the memory model of C11.
//
//   models [--without]
//
// Each model mirrors what the code named above it does. With --without it leaves out the one thing
// that the code relies on there, and must find the bad end. Exits 0 when every model says what it
// should. An end that is bad is shown step by step.
#include <cstdio>
#include <cstring>

#include <relacy/relacy.hpp>

static bool without;

// plugin/net.c, mn_net_isend(): the GPU wrote host memory and then a flag; NCCL's proxy thread saw
// the flag with a plain (volatile) load and calls isend, which copies the bytes.
struct flag_and_copy : rl::test_suite<flag_and_copy, 2> {
    rl::atomic<int> data, flag;

    void before()
    {
        data($).store(0, rl::mo_relaxed);
        flag($).store(0, rl::mo_relaxed);
    }
    void thread(unsigned index)
    {
        if (index == 0) {
            data($).store(1, rl::mo_relaxed);
            flag($).store(1, rl::mo_release);
        } else if (flag($).load(rl::mo_relaxed)) {
            if (!without)
                rl::atomic_thread_fence(rl::mo_acquire, $);
            RL_ASSERT(data($).load(rl::mo_relaxed) == 1);
        }
    }
};

// plugin/transport/verbs/verbs_send.c, read_entry(): a device writes the words of an announcement in
// whatever order, over those of the ring's last turn. The reader takes it when the check over all
// words is right. Without the check, the number of the announcement alone would decide.
struct announcement : rl::test_suite<announcement, 2> {
    rl::atomic<int> seq, address, check;

    static int sum(int number, int where)
    {
        return number * 7 + where;
    }
    void before()
    {
        seq($).store(1, rl::mo_relaxed);
        address($).store(10, rl::mo_relaxed);
        check($).store(sum(1, 10), rl::mo_relaxed);
    }
    void thread(unsigned index)
    {
        if (index == 0) {
            seq($).store(2, rl::mo_relaxed);
            address($).store(20, rl::mo_relaxed);
            check($).store(sum(2, 20), rl::mo_relaxed);
            return;
        }
        int number = seq($).load(rl::mo_relaxed);
        int where = address($).load(rl::mo_relaxed);
        int checked = check($).load(rl::mo_relaxed);
        if (number == 2 && (without || checked == sum(number, where)))
            RL_ASSERT(where == 20);
    }
};

// plugin/transport/verbs/verbs_join.c, join(), verbs_step() and verbs_cancel(): a job's thread and
// the one that asked. Whoever comes second frees, once, and what the job wrote is seen with DONE.
// Without: a load and a store in place of the exchange.
struct job : rl::test_suite<job, 2> {
    enum { RUNNING, DONE, ABANDONED };
    rl::atomic<int> state, freed;
    rl::var<int> result;

    void before()
    {
        state($).store(RUNNING, rl::mo_relaxed);
        freed($).store(0, rl::mo_relaxed);
        result($) = 0;
    }
    bool second(int mine)
    {
        int running = RUNNING;
        if (!without)
            return !state($).compare_exchange_strong(running, mine, rl::mo_seq_cst);
        bool late = state($).load(rl::mo_seq_cst) != RUNNING;
        if (!late)
            state($).store(mine, rl::mo_seq_cst);
        return late;
    }
    void thread(unsigned index)
    {
        if (index == 0)
            result($) = 5;
        else if (state($).load(rl::mo_seq_cst) == DONE)
            RL_ASSERT(result($) == 5);
        if (second(index == 0 ? DONE : ABANDONED))
            freed($).fetch_add(1, rl::mo_relaxed);
    }
    void after()
    {
        RL_ASSERT(freed($).load(rl::mo_relaxed) == 1);
    }
};

// plugin/early.c: the thread of a v4 connect publishes its comm by a state, read at each isend.
// Without: relaxed instead of release and acquire.
struct early : rl::test_suite<early, 2> {
    rl::atomic<int> state;
    rl::var<int> comm;

    void before()
    {
        state($).store(0, rl::mo_relaxed);
        comm($) = 0;
    }
    void thread(unsigned index)
    {
        if (index == 0) {
            comm($) = 1;
            state($).store(1, without ? rl::mo_relaxed : rl::mo_release);
        } else if (state($).load(without ? rl::mo_relaxed : rl::mo_acquire)) {
            RL_ASSERT(comm($) == 1);
        }
    }
};

// plugin/attend.h, mn_attend_enter(), and attend.c, hold(): the owner of a connection and the thread
// that stands in for him are never at it together, and each sees what the other did. membarrier(2)
// makes the owner's plain store what it is here. Without: as plain as without membarrier.
struct gate : rl::test_suite<gate, 2> {
    rl::atomic<int> inside, looking;
    rl::var<int> comm;

    void before()
    {
        inside($).store(0, rl::mo_relaxed);
        looking($).store(0, rl::mo_relaxed);
        comm($) = 0;
    }
    void thread(unsigned index)
    {
        if (index == 0) {
            inside($).store(1, without ? rl::mo_relaxed : rl::mo_seq_cst);
            if (!looking($).load(rl::mo_seq_cst)) // else he waits until it is not
                comm($) = comm($) + 1;
            inside($).store(0, rl::mo_release);
        } else {
            looking($).store(1, rl::mo_seq_cst);
            if (!inside($).load(rl::mo_seq_cst))
                comm($) = comm($) + 1;
            looking($).store(0, rl::mo_release);
        }
    }
};

static int bad;

template <typename model> static void run(const char *name)
{
    rl::test_params params;

    params.search_type = rl::fair_full_search_scheduler_type;

    bool good = rl::simulate<model>(params);
    bool right = good != without;
    bad += !right;
    std::printf("%s %s%s: %s, %u orders\n", right ? "ok" : "not ok", name,
                without ? " without" : "", good ? "no bad end" : "a bad end found",
                (unsigned)params.stop_iteration);
}

int main(int argc, char **argv)
{
    without = argc > 1 && !std::strcmp(argv[1], "--without");
    run<flag_and_copy>("flag-and-copy");
    run<announcement>("announcement");
    run<job>("job");
    run<early>("early");
    run<gate>("gate");
    return bad != 0;
}
