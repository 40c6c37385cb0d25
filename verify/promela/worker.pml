/* The Worker: Algorithms 5 and 6, and injection. One process serves the links of all Masters. */

#if IDLE
/* Says to a Master that may sleep that something was published: at once or later, but before the
 * Worker turns away from the link. */
inline tell_master(l) {
#ifndef MUTANT_NOT_TOLD
#if STORE_BUFFERS && !defined(MUTANT_NO_FENCE_TELL)
    WORKER_DRAINED;             /* the fence */
#endif
    if
    :: m_wait[l] == 1 ->
       d_step { WORKER_DRAINED -> old = m_wait[l]; m_wait[l] = 0 };
       if
       :: d_step { old == 1 -> eventfd[l] = true; old = 0 }
       :: else
       fi
    :: m_wait[l] == 0
    fi;
#endif
    telling[l] = false
}
#endif

/* Makes everything that is processed visible to the Master of the link. */
inline publish(l) {
#if AUX && !defined(MUTANT_AUX_PROD_LATE)
    a_prod[l] = a_fill[l];
#endif
    atomic {
        WORKER_DRAINED;
#if IDLE
        telling[l] = true;
#endif
        to_master[l] = to_master[l] + AHEAD(w_cons[l], w_put[l]);
        w_put[l] = w_cons[l]
    };
#ifdef MUTANT_AUX_FLAG_LATE
    d_step {
        if
        :: late -> cell[BEFORE(l, w_cons)] = cell[BEFORE(l, w_cons)] + WITH_AUX
        :: else
        fi;
        late = false
    };
#endif
#ifdef MUTANT_AUX_PROD_LATE
    a_prod[l] = a_fill[l];
#endif
}

#if AUX
/* Algorithm 6: the tokens that the function makes of the slot at w_cons; what does not fit is
 * dropped. Ends with `made` tokens written, the last of them without NEXT. */
inline emit(l) {
    atomic {
        wanted = 0;
        do
        :: wanted < CHAIN -> wanted++
        :: break
        od;
#ifdef MUTANT_EMPTY_CHAIN
        asked = wanted > 0
#endif
    };
    do
    :: wanted > 0 && AUX_AHEAD(a_fill[l], a_free[l]) < AUX ->
       d_step {
           MUST(a_cell[AUX_CELL(l, a_fill[l])] == 0, aux_slot_owner);
           /* It is known only now that the one before has a successor. */
           if
           :: made > 0 -> a_cell[AUX_BEFORE(l, a_fill)] = a_cell[AUX_BEFORE(l, a_fill)] + NEXT
           :: else
           fi;
#ifdef MUTANT_NEXT_KEPT
           a_cell[AUX_CELL(l, a_fill[l])] = OWNER(w_cons[l]) + (wanted == 1);
#else
           a_cell[AUX_CELL(l, a_fill[l])] = OWNER(w_cons[l]);
#endif
           a_fill[l] = AUX_PLUS(a_fill[l], 1);
           made++;
           wanted--
       }
    :: wanted > 0 && AUX_AHEAD(a_fill[l], a_free[l]) == AUX ->
       if
       :: d_step { a_cons[l] != a_free[l] -> a_free[l] = a_cons[l] }
       :: d_step { a_cons[l] == a_free[l] -> wanted = 0 }    /* full: dropped, counted */
       fi
    :: wanted == 0 -> break
    od
}
#endif

/* What the function does with the slot at w_cons. */
inline process(l) {
#if AUX
    emit(l);
    atomic {
        SLOT_OWNER(cell[CELL(l, w_cons[l])] == FILLED);
        if
        :: cell[CELL(l, w_cons[l])] = DONE
        :: cell[CELL(l, w_cons[l])] = DROPPED
        fi;
#ifdef MUTANT_AUX_FLAG_LATE
        late = made > 0;
#else
        if
#ifdef MUTANT_EMPTY_CHAIN
        :: asked ->             /* Algorithm 6 as printed: even if the first did not fit */
#else
        :: made > 0 ->
#endif
           cell[CELL(l, w_cons[l])] = cell[CELL(l, w_cons[l])] + WITH_AUX
        :: else
        fi;
#endif
        made = 0;
        to_worker[l]--;
        w_cons[l] = PLUS(w_cons[l], 1)
    }
#else
    d_step {
        SLOT_OWNER(cell[CELL(l, w_cons[l])] == FILLED);
        cell[CELL(l, w_cons[l])] = DONE;
        to_worker[l]--;
        w_cons[l] = PLUS(w_cons[l], 1)
    }
#endif
}

#if INJECTION
#ifdef MUTANT_INJECTION_OVERFLOW
#define INJECTION_ROOM(l) true
#else
#define INJECTION_ROOM(l) (I_AHEAD(i_fill[l], i_free[l]) < INJECTION)
#endif

/* A token that the function makes on its own; with a full ring there is none (it is counted). */
inline inject(l) {
    d_step {
        INJECTION_ROOM(l) ->
        MUST(i_cell[I_CELL(l, i_fill[l])] == EMPTY, injection_slot_owner);
        i_cell[I_CELL(l, i_fill[l])] = FILLED;
        i_fill[l] = I_PLUS(i_fill[l], 1)
    }
}

inline publish_injected(l) {
    atomic {
        i_put[l] != i_fill[l] && WORKER_DRAINED ->
#if IDLE
        telling[l] = true;
#endif
        i_put[l] = i_fill[l]
    }
}
#endif

/* Safety allows any time for each link. For progress the Worker serves of a link what it saw there
 * when it came, and turns to the next. */
#if LIVE && LINKS > 1 && !defined(MUTANT_STAYS)
#define TAKES_TURNS
#endif

proctype Worker() {
    byte l;                     /* the link being served */
#ifdef TAKES_TURNS
    bool served;                /* its M.prod was read in this turn */
#endif
#if AUX
    byte wanted, made;
#endif
#ifdef MUTANT_AUX_FLAG_LATE
    bool late;
#endif
#ifdef MUTANT_EMPTY_CHAIN
    bool asked;
#endif
#if IDLE
    byte old;
#endif
life:
    {
#if PUBLISHED
        goto awake;
#endif
begin:  do
#if INJECTION
        :: inject(l)
        :: publish_injected(l)
        :: d_step { I_AHEAD(i_fill[l], i_free[l]) == INJECTION && i_cons[l] != i_free[l] ->
                    i_free[l] = i_cons[l] }
#endif
#if IDLE
        :: telling[l] -> tell_master(l)
#endif
#ifdef MUTANT_WORKER_OVERRUN
        :: true ->
#else
        :: w_cons[l] != w_seen[l] ->
#endif
#ifdef MUTANT_PUBLISH_EARLY
           w_prod[l] = PLUS(w_cons[l], 1);
#endif
           process(l);
           if
           :: AHEAD(w_cons[l], w_put[l]) >= wt -> publish(l)
           :: AHEAD(w_cons[l], w_put[l]) < wt
           fi
#ifdef TAKES_TURNS
        :: w_cons[l] == w_seen[l] && served -> goto next
        :: atomic { w_cons[l] == w_seen[l] && !served -> w_seen[l] = m_prod[l]; served = true };
#else
        :: atomic { w_cons[l] == w_seen[l] -> w_seen[l] = m_prod[l] };
#endif
           if
           :: w_cons[l] != w_seen[l]
#if LINKS > 1 && !LIVE
           :: true -> goto next /* it may turn to the other link while tokens are left */
#else
           :: w_cons[l] == w_seen[l] -> goto next
#endif
           fi
        od;
next:
#ifdef TAKES_TURNS
        served = false;
#endif
        if
#ifndef MUTANT_REST_KEPT
        :: w_put[l] != w_cons[l] -> publish(l)
        :: w_put[l] == w_cons[l]
#else
        :: true
#endif
        fi;
#if INJECTION
        if
        :: publish_injected(l)
        :: i_put[l] == i_fill[l]
        fi;
#endif
#if IDLE
        if
        :: telling[l] -> tell_master(l)
        :: !telling[l]
        fi;
#endif
#if LINKS > 1
        if
        :: d_step { l == 0 -> l = 1 }; goto begin
        :: d_step { l == 1 -> l = 0 }
        fi;
#endif
#if PUBLISHED
        status = WAITING;
awake:  wait_for_wake_up();
#else
        worker_sleep();
awake:  set_status(RUNNING);
#endif
        goto begin
    }
#if CRASH
    unless { d_step { doomed -> doomed = false; dead = true } };
    /* A new process: nothing private survives. */
    atomic {
        !dead ->
        l = 0;
#if AUX
        wanted = 0; made = 0;
#endif
        goto life
    }
#endif
}
