/* The properties, as conditions on every state. */

#define PROPERTY_1(l) (AHEAD(m_prod[l], w_prod[l]) <= N)     /* W.prod never exceeds M.prod */
#define PROPERTY_2(l) (AHEAD(w_prod[l], m_cons[l]) <= N)     /* M.cons never exceeds W.prod */
#define PROPERTY_3(l) (to_worker[l] <= N)                    /* a byte below 0 is 255 */
#define PROPERTY_4(l) (to_master[l] <= N)

/* All eight indices of a link in the order of ownership, seen from m_cons. */
#define FROM(l, x) AHEAD(x[l], m_cons[l])
#define ORDER(l) \
    (FROM(l, m_seen) <= FROM(l, w_prod) && FROM(l, w_prod) <= FROM(l, w_put) && \
     FROM(l, w_put) <= FROM(l, w_cons) && FROM(l, w_cons) <= FROM(l, w_seen) && \
     FROM(l, w_seen) <= FROM(l, m_prod) && FROM(l, m_prod) <= FROM(l, m_put) && \
     FROM(l, m_put) <= N)

/* A Worker that sleeps can be woken, and no link has more waiting than the threshold. */
#define ALL_RESTING (resting[0] && resting[LINKS - 1])
#define WAITS(l) AHEAD(m_put[l], w_cons[l])
#define WAKE_UP (!(asleep && ALL_RESTING) || \
    (status == WAITING && WAITS(0) <= mt && WAITS(LINKS - 1) <= mt))

/* Before it sleeps the Worker has published everything it processed. */
#define PUBLISHED_ALL(l) (!asleep || w_put[l] == w_cons[l])

#if AUX
/* When all is taken back, nothing is left in the auxiliary ring. */
#define AUX_EMPTY(l) (!(asleep && ALL_RESTING && m_cons[l] == w_prod[l]) || \
    a_take[l] == a_fill[l])
#endif

#if INJECTION
#define INJECTION_ORDER(l) \
    (I_AHEAD(i_seen[l], i_take[l]) <= I_AHEAD(i_prod[l], i_take[l]) && \
     I_AHEAD(i_prod[l], i_take[l]) <= I_AHEAD(i_put[l], i_take[l]) && \
     I_AHEAD(i_put[l], i_take[l]) <= I_AHEAD(i_fill[l], i_take[l]) && \
     I_AHEAD(i_cons[l], i_free[l]) <= INJECTION && I_AHEAD(i_take[l], i_cons[l]) <= INJECTION && \
     I_AHEAD(i_fill[l], i_free[l]) <= INJECTION)
#endif

#if IDLE
#define SLEEPS(l) (dozing[l] && !eventfd[l])
/* A Master that sleeps has seen everything that was published. */
#define MASTER_WAKE_UP(l) (!(SLEEPS(l) && !telling[l]) || (w_prod[l] == m_seen[l] && !INJECTED(l)))
/* When both sleep, nothing is out, or the Master has set its alarm. */
#define ALARM(l) (!(SLEEPS(l) && asleep) || m_put[l] == m_cons[l] || TIMER_ARMED(l))
#endif

#if CRASH
#define HOLDS(l, property) ((buried && !resting[l]) || property(l))
#else
#define HOLDS(l, property) property(l)
#endif
#if LINKS > 1
#define EVERYWHERE(property) (HOLDS(0, property) && HOLDS(1, property))
#else
#define EVERYWHERE(property) HOLDS(0, property)
#endif

/* Possible only where a property is broken, and then it says which. */
#define CHECK(condition, name) atomic { !(condition) -> MUST(condition, name) }

proctype Properties() {
end:
    if
#if WATCH == 0 || WATCH == 1
    :: CHECK(EVERYWHERE(PROPERTY_1), property_1)
#endif
#if WATCH == 0 || WATCH == 2
    :: CHECK(EVERYWHERE(PROPERTY_2), property_2)
#endif
#if WATCH == 0 || WATCH == 3
    :: CHECK(EVERYWHERE(PROPERTY_3), property_3)
#endif
#if WATCH == 0 || WATCH == 4
    :: CHECK(EVERYWHERE(PROPERTY_4), property_4)
#endif
#if WATCH == 0
    :: CHECK(EVERYWHERE(ORDER), order_of_indices)
    :: CHECK(EVERYWHERE(PUBLISHED_ALL), all_published)
#if !(PUBLISHED && AGE)
    :: CHECK(WAKE_UP, no_lost_wake_up)
#endif
#if AUX
    :: CHECK(EVERYWHERE(AUX_EMPTY), aux_no_leak)
#endif
#if INJECTION
    :: CHECK(EVERYWHERE(INJECTION_ORDER), injection_order)
#endif
#if IDLE
    :: CHECK(EVERYWHERE(MASTER_WAKE_UP), master_no_lost_wake_up)
    :: CHECK(EVERYWHERE(ALARM), both_asleep)
#endif
#endif
    :: false
    fi
}

#if LIVE == 1
/* Property 6: the Master goes on doing useful work. */
ltl livelock { [] <> posted }
#elif LIVE == 2
/* When traffic stops, every token comes back. */
ltl returned { [] (quiet -> <> (m_prod[0] == m_cons[0])) }
#elif LIVE == 3
/* When the Worker has ended, another begins. */
ltl restarted { [] (dead -> <> !dead) }
#endif
