/*
 * Stores that become visible late, and the two protocols for falling asleep.
 *
 * With STORE_BUFFERS every process has a buffer for one store, as on a processor whose stores pass
 * later loads: `x_put` is what the process has stored, `x` what the others see. A fence, an atomic
 * swap and a system call wait until the buffer is empty. Without it both are one word.
 */
#if STORE_BUFFERS
byte m_put[LINKS], w_put[LINKS];
byte status_put = NOTHING;
#if INJECTION
byte i_put[LINKS];
#define I_DRAINED(l) (i_put[l] == i_prod[l])
#else
#define I_DRAINED(l) true
#endif
#if IDLE
byte m_wait_put[LINKS] = NOTHING;
#define M_WAIT_DRAINED(l) (m_wait_put[l] == NOTHING)
#else
#define M_WAIT_DRAINED(l) true
#endif
#define LINK_DRAINED(l) (w_put[l] == w_prod[l] && I_DRAINED(l))
#if LINKS == 1
#define WORKER_DRAINED (status_put == NOTHING && LINK_DRAINED(0))
#else
#define WORKER_DRAINED (status_put == NOTHING && LINK_DRAINED(0) && LINK_DRAINED(1))
#endif
#define MASTER_DRAINED(l) (m_put[l] == m_prod[l] && M_WAIT_DRAINED(l))

proctype WorkerBuffer() {
    byte l;
end:
    do
    :: d_step { status_put != NOTHING -> status = status_put; status_put = NOTHING }
    :: d_step { w_put[0] != w_prod[0] -> w_prod[0] = w_put[0] }
#if LINKS > 1
    :: d_step { w_put[1] != w_prod[1] -> w_prod[1] = w_put[1] }
#endif
#if INJECTION
    :: d_step { i_put[0] != i_prod[0] -> i_prod[0] = i_put[0] }
#if LINKS > 1
    :: d_step { i_put[1] != i_prod[1] -> i_prod[1] = i_put[1] }
#endif
#endif
    od
}

proctype MasterBuffer(byte l) {
end:
    do
    :: d_step { m_put[l] != m_prod[l] -> m_prod[l] = m_put[l] }
#if IDLE
    :: d_step { m_wait_put[l] != NOTHING -> m_wait[l] = m_wait_put[l]; m_wait_put[l] = NOTHING }
#endif
    od
}
#else
#define m_put m_prod
#define w_put w_prod
#define i_put i_prod
#define status_put status
#define m_wait_put m_wait
#define WORKER_DRAINED true
#define MASTER_DRAINED(l) true
#endif

/* ---- the Worker sleeps ---- */

inline set_status(value) {
    atomic {
        WORKER_DRAINED ->
#if LINKS > 1
        unclaimed = unclaimed || value == WAITING;
#endif
        status_put = value
    }
}

#define TOKENS_ON(l) (m_prod[l] != w_cons[l])

/* Looks again at every link, one load after the other; goes to `awake` at the first token. */
inline look_again() {
    if
    :: TOKENS_ON(0) -> goto awake
    :: else
    fi;
#if LINKS > 1 && !defined(MUTANT_FIRST_LINK_ONLY)
    if
    :: TOKENS_ON(1) -> goto awake
    :: else
    fi;
#endif
}

#if PUBLISHED
/* Algorithm 5 lines 25 and 9. */
inline wait_for_wake_up() {
    if
    :: d_step { semaphore > 0 -> semaphore-- }
    :: d_step { semaphore == 0 -> asleep = true };
       !asleep
    fi
}
#else
inline worker_sleep() {
#ifdef MUTANT_WAITING_LATE
    look_again();
    set_status(WAITING);
#else
    set_status(WAITING);
#ifndef MUTANT_NO_SECOND_LOOK
#if STORE_BUFFERS && !defined(MUTANT_NO_FENCE_WORKER)
    WORKER_DRAINED;             /* the fence */
#endif
    look_again();
#endif
#endif
    /* futex_wait: the kernel compares and puts to sleep in one step. */
    if
#ifdef MUTANT_NO_COMPARE
    :: status == WAITING -> asleep = true;
#else
    :: d_step { WORKER_DRAINED && status == WAITING -> asleep = true };
#endif
       !asleep
    :: WORKER_DRAINED && status != WAITING
    fi
}
#endif

/* ---- a Master wakes the Worker ---- */

#ifdef MUTANT_PLAIN_STORE
#define HAS_TAKEN(old) true     /* it has looked, it stores: what was there by then is not known */
#else
#define HAS_TAKEN(old) (old == WAITING)
#endif

/* The caller has seen WAITING (published protocol: not SIGNED). Whoever takes WAITING out of the
 * word wakes; nobody else does. */
inline signal_worker(l, old) {
#if PUBLISHED
    status = SIGNED;
    if
    :: d_step { asleep -> asleep = false }
    :: d_step { !asleep -> semaphore++ }
    fi;
#else
    d_step {
        MASTER_DRAINED(l) ->
        old = status;
        status = SIGNED;
#if LINKS > 1
        if
        :: HAS_TAKEN(old) -> MUST(unclaimed, one_wake_up_per_sleep); unclaimed = false
        :: else
        fi
#endif
    };
    if
    :: HAS_TAKEN(old) ->
       old = RUNNING;
       asleep = false           /* futex_wake */
    :: else -> old = RUNNING
    fi;
#endif
}
