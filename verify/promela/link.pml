/*
 * What Master and Worker share, what each keeps for itself, and how indices count.
 *
 * Parameters (-D): N slots of a primary ring; MT_MIN..MT_MAX and WT_MIN..WT_MAX, the thresholds
 * (each run begins with a choice of one of each, so it covers them all); LINKS Master threads.
 * Parts that can be switched on: AGE, STORE_BUFFERS, AUX, INJECTION, IDLE, CRASH, PUBLISHED, LIVE.
 */
#ifndef LINKS
#define LINKS 1
#endif
#ifndef MT_MIN
#define MT_MIN 0
#endif
#ifndef MT_MAX
#if AGE
#define MT_MAX N                /* the age timer alone wakes the Worker when MT = N */
#else
#define MT_MAX (N - 1)
#endif
#endif
#ifndef WT_MIN
#define WT_MIN 1
#endif
#ifndef WT_MAX
#define WT_MAX N
#endif
#if CRASH && (IDLE || INJECTION)
#error "the end of a Worker is modelled for the primary and the auxiliary ring only"
#endif
#if STORE_BUFFERS && (AUX || CRASH || PUBLISHED)
#error "store buffers are modelled for the primary and the injection ring only"
#endif

/* Indices run freely: they count modulo a multiple of the number of slots (2^32 in the code). */
#define RANGE(slots)       (2 * (slots))
#define AHEAD_OF(slots, a, b) (((a) + RANGE(slots) - (b)) % RANGE(slots))
#define PLUS_OF(slots, a, k)  (((a) + (k)) % RANGE(slots))

#define AHEAD(a, b)        AHEAD_OF(N, a, b)
#define PLUS(a, k)         PLUS_OF(N, a, k)
#define CELL(l, index)     ((l) * N + (index) % N)
#define BEFORE(l, index)   CELL(l, PLUS(index[l], N - 1))

/* Life of a slot, as the one who may touch it sees it. */
#define EMPTY   0
#define FILLED  1
#define DONE    2               /* processed, or dropped by the Worker: an empty slot comes back */
#define DROPPED 3
#define WITH_AUX 4              /* added to DONE or DROPPED: a chain belongs to it */

byte mt, wt;                    /* MASTER_THRESHOLD and WORKER_THRESHOLD of this run */

/* ---- primary ring: shared ---- */
byte m_prod[LINKS];             /* written by the Master, read by the Worker */
byte w_prod[LINKS];             /* written by the Worker, read by the Master */
byte cell[LINKS * N];           /* the slots */

/* ---- primary ring: private (global here so that properties can be said of them) ---- */
byte m_cons[LINKS];             /* Master: next slot to take back */
byte m_seen[LINKS];             /* Master: its copy of w_prod */
byte w_cons[LINKS];             /* Worker: next slot to process */
byte w_seen[LINKS];             /* Worker: its copy of m_prod */

/* ---- wake-up word of the Worker, shared by all Masters ---- */
#define RUNNING 0
#define WAITING 1
#define SIGNED  2
#define NOTHING 3               /* in a store buffer: no store is pending */
byte status;

/* ---- what the properties need to know ---- */
bool asleep;                    /* the kernel has put the Worker to sleep */
bool resting[LINKS];            /* the Master is between two operations */
byte to_worker[LINKS];          /* tokens posted and not yet processed (counted, not computed) */
byte to_master[LINKS];          /* tokens returned and not yet taken (counted, not computed) */

#if LINKS > 1
bool unclaimed;                 /* no Master has undertaken to wake the Worker from this sleep */
#endif

#if PUBLISHED
byte semaphore;
#endif

#if AUX
/* Auxiliary ring of AUX slots, chains of at most CHAIN tokens. */
#ifndef CHAIN
#define CHAIN 2
#endif
#define AUX_AHEAD(a, b)    AHEAD_OF(AUX, a, b)
#define AUX_PLUS(a, k)     PLUS_OF(AUX, a, k)
#define AUX_CELL(l, index) ((l) * AUX + (index) % AUX)
#define AUX_BEFORE(l, index) AUX_CELL(l, AUX_PLUS(index[l], AUX - 1))
/* Content: the primary slot it belongs to (index + 1; 0: nothing), doubled, and NEXT. */
#define OWNER(index)       (2 * ((index) + 1))
#define NEXT 1
byte a_prod[LINKS];             /* shared, written by the Worker */
byte a_cons[LINKS];             /* shared, written by the Master */
byte a_cell[LINKS * AUX];
byte a_fill[LINKS];             /* Worker: next slot to write */
byte a_free[LINKS];             /* Worker: its copy of a_cons */
byte a_take[LINKS];             /* Master: next slot to read */
byte a_seen[LINKS];             /* Master: its copy of a_prod */
#endif

#if INJECTION
/* Injection ring of INJECTION slots. */
#define I_AHEAD(a, b)      AHEAD_OF(INJECTION, a, b)
#define I_PLUS(a, k)       PLUS_OF(INJECTION, a, k)
#define I_CELL(l, index)   ((l) * INJECTION + (index) % INJECTION)
byte i_prod[LINKS];             /* shared, written by the Worker */
byte i_cons[LINKS];             /* shared, written by the Master */
byte i_cell[LINKS * INJECTION];
byte i_fill[LINKS];             /* Worker: next slot to write */
byte i_free[LINKS];             /* Worker: its copy of i_cons */
byte i_seen[LINKS];             /* Master: its copy of i_prod */
byte i_take[LINKS];             /* Master: next slot to read */
#endif

#if IDLE
/* The Master may sleep: a word and an eventfd for each Master thread. */
byte m_wait[LINKS];
bool eventfd[LINKS];
bool dozing[LINKS];             /* the kernel has put the Master to sleep */
bool telling[LINKS];            /* the Worker has published and not yet looked at m_wait */
#endif

#if CRASH
bool doomed;                    /* the Worker takes no further step */
bool dead;                      /* its process has ended, which the kernel reports */
bool buried;                    /* the supervisor has noticed: the generation is over */
bool reclaimed[LINKS];          /* the Master of this link has let go of the generation */
byte m_fill[LINKS];             /* Master: next slot to write; m_prod follows */
byte out[LINKS];                /* tokens posted and not yet accounted for */
#endif

#if !CRASH
#define m_fill m_put            /* written and published in one operation */
#endif

#if LIVE
bool posted;                    /* the (last) Master is doing useful work */
bool quiet;                     /* no more traffic comes */
#endif

#if CRASH
#define LIVING(l) (!reclaimed[l])       /* the link has a generation to work with */
#else
#define LIVING(l) true
#endif
#if LIVE
#define TRAFFIC (!quiet)
#else
#define TRAFFIC true
#endif
