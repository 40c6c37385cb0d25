/*
 * Takeover and fencing of a pair of hosts (dataplane/elements/sessions/src/replicate.rs): host A
 * serves and sends its sessions, host B is its backup. A dies and begins again, B stands still, the
 * cable fails and heals, an operator has B take over, all at any moment.
 *
 * Time is not modelled: that AFTER is longer than the pause between two signs of life says that B
 * finds A silent only while A is not there, or the cable is cut; that HOLD is longer than a
 * connection takes says that it passes only while there is no cable or B stands still.
 */
mtype = { DOWN, HELD, SERVES, FENCED, BACKUP, SUCCESSOR };
mtype a = HELD, b = BACKUP;
bool cable = true, stream, still;
/* Of B: it has had all sessions once; it has heard nothing for AFTER. */
bool synchronized, silent;
/* Since B last heard A there was a reason for silence. For the properties alone. */
bool excused = true;

hidden byte no_start_beside_successor, living_host_keeps, takeover_has_sessions;
/* The name is false; it is there to be read in the report of a violation. */
#define MUST(condition, name) assert((condition) || name)

#define B_HEARS (cable && !still)

#ifdef MUTANT_NO_HOLD
#define HOLD_ENDS true
#else
#define HOLD_ENDS !B_HEARS
#endif
#ifdef MUTANT_WITHOUT_SESSIONS
#define HAS_SESSIONS true
#else
#define HAS_SESSIONS synchronized
#endif
#ifdef MUTANT_NO_WORD
#define IS_ANSWERED (a == HELD)
#else
#define IS_ANSWERED (a == HELD || a == SERVES)
#endif
#ifdef MUTANT_COUNT_STILLNESS
#define COUNTED true
#else
#define COUNTED silent
#endif

active proctype HostA() {
end:
    do
    /* The backup lets it in: it may serve, and all sessions follow. */
    :: atomic { (a == HELD || a == SERVES) && B_HEARS && !stream && b == BACKUP ->
            stream = true; a = SERVES; silent = false; excused = false }
    :: atomic { stream && B_HEARS && !synchronized -> synchronized = true }
    /* HOLD has passed. */
    :: atomic { a == HELD && HOLD_ENDS ->
            MUST(!(b == SUCCESSOR && B_HEARS), no_start_beside_successor); a = SERVES }
    /* The successor says so, to an open stream or to a new one. */
    :: atomic { IS_ANSWERED && B_HEARS && b == SUCCESSOR -> stream = false; a = FENCED }
    /* A sign of life. */
    :: atomic { stream && B_HEARS && b == BACKUP && (silent || excused) ->
            silent = false; excused = false }
    od
}

active proctype HostB() {
end:
    do
    :: atomic { b == BACKUP && !silent && !still && !stream ->
            MUST(excused, living_host_keeps); silent = true }
    :: atomic { b == BACKUP && !still && silent && HAS_SESSIONS ->
            MUST(synchronized, takeover_has_sessions); MUST(excused, living_host_keeps);
            b = SUCCESSOR }
    od
}

active proctype World() {
end:
    do
    :: atomic { a != DOWN -> a = DOWN; stream = false; excused = true }
    :: atomic { a == DOWN -> a = HELD }
    :: atomic { cable -> cable = false; stream = false; excused = true }
    :: atomic { !cable -> cable = true }
    :: atomic { !still -> still = true }
    :: atomic { still -> still = false; silent = COUNTED }
    /* By hand. */
    :: atomic { b == BACKUP && !still -> b = SUCCESSOR }
    /* B begins anew. */
    :: atomic { b = BACKUP; stream = false; synchronized = false; silent = false; excused = true }
    /* Nothing happens any more. */
    :: break
    od
}

#ifdef LIVE
/* Two hosts serve no longer than they are cut off from one another. */
ltl fenced { [] ((a == SERVES && b == SUCCESSOR) -> <> (a != SERVES || b != SUCCESSOR || !B_HEARS)) }
#endif
