/* A Master thread: Algorithms 1 to 4 and 7, its own sleep, and what it does when the Worker died.
 * Produce, take back, look for old tokens: in any order, as often as they are possible. */

#ifdef MUTANT_OVERWRITE
#define ROOM(l) (N + 1 - AHEAD(m_fill[l], m_cons[l]))
#else
#define ROOM(l) (N - AHEAD(m_fill[l], m_cons[l]))
#endif

#ifdef MUTANT_THRESHOLD_EQUAL
#define PAST(count, threshold) ((count) == (threshold) + 1)
#else
#define PAST(count, threshold) ((count) > (threshold))
#endif

inline fill(l, first) {
    d_step {
        do
        :: i < k ->
           SLOT_OWNER(cell[CELL(l, PLUS(first, i))] == EMPTY);
           cell[CELL(l, PLUS(first, i))] = FILLED;
#if CRASH
           out[l]++;
#endif
           i++
        :: else -> break
        od;
        i = 0
    }
}

/* Writes one to ROOM tokens. */
inline put(l) {
    atomic {
        LIVING(l) && TRAFFIC && ROOM(l) > 0 ->
        resting[l] = false;
#if LIVE
        posted = l == LINKS - 1;
#endif
        k = 1;
        do
        :: k < ROOM(l) -> k++
        :: break
        od;
#ifndef MUTANT_M_PROD_EARLY
        fill(l, m_fill[l]);
#endif
#if CRASH
        m_fill[l] = PLUS(m_fill[l], k);
        k = 0;
        resting[l] = true
#endif
    }
}

/* Shows the Worker what was written, and wakes it past the threshold. */
inline publish_put(l) {
    atomic {
#if CRASH
        LIVING(l) && m_fill[l] != m_put[l] ->
        resting[l] = false;
        k = AHEAD(m_fill[l], m_put[l]);
#else
        MASTER_DRAINED(l) ->
#endif
        m_put[l] = PLUS(m_put[l], k);
#ifdef MUTANT_M_PROD_EARLY
        to_worker[l] = to_worker[l] + k
    };
    atomic {
        fill(l, PLUS(m_put[l], RANGE(N) - k));
#else
        to_worker[l] = to_worker[l] + k;
#endif
        k = 0
    };
#if STORE_BUFFERS && !defined(MUTANT_NO_FENCE_MASTER)
    MASTER_DRAINED(l);          /* the fence */
#endif
    /* The Master knows less than the whole: tokens that the Worker has returned since the copy of
     * w_prod was made, or that the Master has not taken yet, may count as waiting or not. */
    if
#if PUBLISHED
    :: PAST(AHEAD(m_put[l], m_cons[l]), mt) && status != SIGNED -> signal_worker(l, k)
    :: !PAST(AHEAD(m_put[l], m_cons[l]), mt) || status == SIGNED
#else
    :: PAST(AHEAD(m_put[l], m_cons[l]), mt) && status == WAITING -> signal_worker(l, k)
    :: !PAST(AHEAD(m_put[l], m_seen[l]), mt) || status != WAITING
#endif
    fi;
    rest(l)
}

inline rest(l) {
    d_step {
        k = 0;
#if LIVE
        posted = false;
#endif
        resting[l] = true
    }
}

#ifdef MUTANT_MASTER_OVERRUN
#define TAKEABLE(l) LIVING(l)
#else
#define TAKEABLE(l) (LIVING(l) && m_cons[l] != m_seen[l])
#endif

/* Algorithm 4: one slot back. */
inline take(l) {
#if AUX
    TAKEABLE(l) -> resting[l] = false;
    if
    :: cell[CELL(l, m_cons[l])] >= WITH_AUX -> walk(l)
    :: else
    fi;
#endif
    d_step {
        TAKEABLE(l) ->
        SLOT_OWNER(cell[CELL(l, m_cons[l])] >= DONE);
        cell[CELL(l, m_cons[l])] = EMPTY;
        to_master[l]--;
#if CRASH
        out[l]--;
#endif
        m_cons[l] = PLUS(m_cons[l], 1);
        resting[l] = true
    }
}

#if AUX
/* Algorithm 7: the chain of the slot at m_cons, never past the copy of aux.prod, which is read again
 * when it is used up: aux.prod was published before the W.prod that led here. */
inline walk(l) {
    do
#ifndef MUTANT_AUX_PROD_READ_EARLY
    :: d_step { a_take[l] == a_seen[l] -> a_seen[l] = a_prod[l];
                MUST(a_take[l] != a_seen[l], aux_chain_whole) }
#endif
#ifdef MUTANT_AUX_CONS_EARLY
    :: a_take[l] != a_seen[l] ->
       a_cons[l] = AUX_PLUS(a_take[l], 1);
#elif defined(MUTANT_AUX_PROD_READ_EARLY)
    :: true ->
#else
    :: a_take[l] != a_seen[l] ->
#endif
       d_step {
           MUST(a_take[l] != a_seen[l], aux_chain_whole);
           k = a_cell[AUX_CELL(l, a_take[l])];
           MUST(k - k % 2 == OWNER(m_cons[l]), aux_chain_of_its_slot);
           a_cell[AUX_CELL(l, a_take[l])] = 0;
           a_take[l] = AUX_PLUS(a_take[l], 1)
       };
       if
       :: k % 2 == 0 -> break
       :: k % 2 == NEXT
       fi
    od;
    k = 0
}
#endif

/* The copy of w_prod is used up: only now is the shared index read. */
inline look(l) {
    atomic {
        LIVING(l) && m_cons[l] == m_seen[l] && w_prod[l] != m_seen[l] ->
#ifdef MUTANT_AUX_PROD_READ_EARLY
        a_seen[l] = a_prod[l]; k = 1
    };
    atomic {
        k = 0;
#endif
        m_seen[l] = w_prod[l]
    }
}

#if INJECTION
inline take_injected(l) {
    d_step {
        i_take[l] != i_seen[l] ->
        MUST(i_cell[I_CELL(l, i_take[l])] == FILLED, injection_slot_owner);
        i_cell[I_CELL(l, i_take[l])] = EMPTY;
        i_take[l] = I_PLUS(i_take[l], 1)
    }
}
#define INJECTED(l) (i_prod[l] != i_seen[l])
#define ALL_TAKEN(l) (m_cons[l] == m_seen[l] && i_take[l] == i_seen[l] && i_cons[l] == i_take[l])
#else
#define INJECTED(l) false
#define ALL_TAKEN(l) (m_cons[l] == m_seen[l])
#endif

#if IDLE
#ifdef MUTANT_DOZE_NO_TIMER
#define TIMER_ARMED(l) false
#else
/* Tokens are out: it sleeps no longer than until they are old. */
#define TIMER_ARMED(l) (m_put[l] != m_cons[l])
#endif

/* Nothing is there to take and no traffic comes: the Master sleeps. */
inline doze(l) {
    atomic { ALL_TAKEN(l) && MASTER_DRAINED(l) -> m_wait_put[l] = 1 };
#if STORE_BUFFERS && !defined(MUTANT_DOZE_NO_FENCE)
    MASTER_DRAINED(l);          /* the fence */
#endif
    if
#ifndef MUTANT_DOZE_NO_SECOND_LOOK
    :: w_prod[l] != m_seen[l]
    :: w_prod[l] == m_seen[l] ->
       if
       :: INJECTED(l)
       :: !INJECTED(l) -> sleep_on_eventfd(l)
       fi
#else
    :: true -> sleep_on_eventfd(l)
#endif
    fi;
    atomic { MASTER_DRAINED(l) -> m_wait_put[l] = 0 }
}

inline sleep_on_eventfd(l) {
    atomic { MASTER_DRAINED(l) -> dozing[l] = true };
    if
    :: d_step { eventfd[l] -> eventfd[l] = false; dozing[l] = false }
    :: d_step { TIMER_ARMED(l) -> dozing[l] = false }
    :: dozing[l] = false        /* a port has a packet */
    fi
}
#endif

#if CRASH
/* Every slot that is out is accounted for, and fresh rings begin. */
inline reclaim(l) {
#ifdef MUTANT_RECLAIM_FORGETS
    /* Takes the dead Worker's index for its own. */
    m_cons[l] = w_prod[l];
#endif
#ifdef MUTANT_RECLAIM_PUBLISHED
    /* Leaves out what was written and not yet published. */
    m_fill[l] = m_put[l];
#endif
#ifdef MUTANT_RECLAIM_TWICE
    /* Begins with the slot that was taken last. */
    m_cons[l] = PLUS(m_cons[l], RANGE(N) - (AHEAD(m_fill[l], m_cons[l]) < N));
#endif
    do
    :: d_step {
           m_cons[l] != m_fill[l] ->
           MUST(cell[CELL(l, m_cons[l])] != EMPTY && out[l] > 0, each_token_once);
           cell[CELL(l, m_cons[l])] = EMPTY;
           out[l]--;
           m_cons[l] = PLUS(m_cons[l], 1)
       }
    :: m_cons[l] == m_fill[l] -> break
    od;
    MUST(out[l] == 0, no_token_lost);
    d_step {
        m_prod[l] = 0; m_fill[l] = 0; w_prod[l] = 0; m_cons[l] = 0; m_seen[l] = 0; w_cons[l] = 0; w_seen[l] = 0;
#if AUX
        a_prod[l] = 0; a_cons[l] = 0; a_fill[l] = 0; a_free[l] = 0; a_take[l] = 0; a_seen[l] = 0;
        do
        :: k < AUX -> a_cell[AUX_CELL(l, k)] = 0; k++
        :: else -> break
        od;
        k = 0;
#endif
        to_worker[l] = 0; to_master[l] = 0;
        resting[l] = true;
        reclaimed[l] = true
    }
}

proctype Supervisor() {
    byte l;
end:
    do
    :: true ->
#ifndef MUTANT_RECLAIM_ALIVE
       doomed = true;           /* at any step of the Worker */
       dead;
#endif
       buried = true;
       reclaimed[0] && reclaimed[LINKS - 1];
       d_step {
           status = RUNNING; asleep = false;
           reclaimed[0] = false; reclaimed[LINKS - 1] = false;
           buried = false; dead = false
       }
    od
}
#endif

/* Safety allows the age check at any moment. For progress it comes in its turn, after everything
 * that can be taken back has been (Algorithm 1, lines 22 and 23). */
#if LIVE && !defined(MUTANT_AGE_FIRST)
#define AGE_TURN(l) (m_cons[l] == m_seen[l] && w_prod[l] == m_seen[l])
#else
#define AGE_TURN(l) true
#endif

proctype Master(byte l) {
    byte k, i;
    do
#if CRASH
    :: put(l)                   /* the Worker's end may be noticed in between */
    :: publish_put(l)
#else
    :: put(l); publish_put(l)
#endif
    :: take(l)
    :: look(l)
#if LIVE == 2
    :: d_step { !quiet -> quiet = true }
#endif
#if AUX
    :: d_step { a_cons[l] != a_take[l] -> a_cons[l] = a_take[l] }  /* after any number of slots */
#endif
#if AGE
    /* Algorithm 3: at any moment the oldest token may be too old. */
#if PUBLISHED
    :: atomic { m_put[l] != m_cons[l] && status != SIGNED && AGE_TURN(l) -> resting[l] = false };
#else
    :: atomic { LIVING(l) && m_put[l] != m_cons[l] && status == WAITING && AGE_TURN(l) ->
                resting[l] = false };
#endif
       signal_worker(l, k);
       rest(l)
#endif
#if INJECTION
    :: take_injected(l)
    :: d_step { i_cons[l] != i_take[l] -> i_cons[l] = i_take[l] }   /* after any number of them */
    :: d_step { i_take[l] == i_seen[l] && i_prod[l] != i_seen[l] -> i_seen[l] = i_prod[l] }
#endif
#if IDLE
    :: doze(l)
#endif
#if CRASH
    :: atomic { buried && !reclaimed[l] -> resting[l] = false }; reclaim(l)
#endif
    od
}
