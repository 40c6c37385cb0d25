/*
 * Roles of a pair of hosts (dataplane/elements/sessions/src/replicate): host 0 connects to host 1, and
 * serves at first. Either may die and begin again, or stand still; the cable fails and heals, an
 * operator has one take over or switch over, all at any moment.
 *
 * A term belongs to host 0 if it is even, to host 1 if it is odd. The threads of a host learn of a
 * term (known) before its element follows it (term).
 *
 * Time is not modelled: that AFTER is longer than the pause between two signs of life says that a
 * backup finds the other host silent only while that is not there or stands still, or the cable is
 * cut; that HOLD is longer than a connection takes says that it passes only while there is no cable
 * or the other host stands still. A switchover that is not answered is given up only then, too.
 */
mtype = { DOWN, HELD, ACTIVE, SWITCHING, BACKUP };
mtype role[2];
byte term[2], known[2];
/* It serves, or has had all sessions of the host that does. */
bool has_sessions[2];
bool cable = true, stream, still[2];
/* The last record of a host that switches over is under way. */
bool switched[2];
/* The stream over which a host switches over has ended. */
bool lost[2];
/* Of a backup: it has heard nothing for AFTER. */
bool silent[2];
/* Since it last heard the other host there was a reason for silence. For the properties alone. */
bool excused[2];

/* So that there is an end to the states. */
#ifndef TERM_MAX
#define TERM_MAX 3
#endif

hidden byte no_start_beside_server, living_host_keeps, takeover_has_sessions, whoever_has_sessions_serves;
/* The name is false; it is there to be read in the report of a violation. */
#define MUST(condition, name) assert((condition) || name)

#define OWN(t, i) ((t) % 2 == i)
#define IS_UP(i) (role[i] != DOWN)
/* The element knows what its threads know, and there are more terms. */
#define IS_FOLLOWED(i) (term[i] == known[i] && term[i] < TERM_MAX)
#define MEET (cable && IS_UP(0) && IS_UP(1) && !still[0] && !still[1])
#define END_STREAM stream = false; switched[0] = false; switched[1] = false; lost[0] = true; lost[1] = true

#ifdef MUTANT_NO_HOLD
#define HOLD_ENDS(o) true
#else
#define HOLD_ENDS(o) (!cable || still[o] || !IS_UP(o))
#endif
#ifdef MUTANT_WITHOUT_SESSIONS
#define MAY_TAKE_OVER(i) true
#else
#define MAY_TAKE_OVER(i) has_sessions[i]
#endif
#ifdef MUTANT_NO_WORD
#define IS_TOLD(i) (role[i] == HELD)
#else
#define IS_TOLD(i) true
#endif
#ifdef MUTANT_COUNT_STILLNESS
#define COUNTED true
#else
#define COUNTED silent[i]
#endif
#ifdef MUTANT_KEEP_SWITCHING
#define GIVES_UP false
#else
#define GIVES_UP (lost[i] || still[o])
#endif

/* The term of two hosts that meet. */
inline settle() {
    t = (known[0] > known[1] -> known[0] : known[1]);
#ifndef MUTANT_NO_SETTLE
    if
    :: has_sessions[1 - t % 2] && !has_sessions[t % 2] && t < TERM_MAX -> t++
    :: else
    fi;
#endif
    known[0] = t; known[1] = t; t = 0
}

inline begin_term(i) { term[i]++; known[i] = (known[i] > term[i] -> known[i] : term[i]);
    role[i] = ACTIVE; has_sessions[i] = true }

/* The threads of a host that speak with the other one. */
proctype Threads(bit i) {
    bit o = 1 - i;
    byte t;
end:
    do
    /* A stream begins. */
    :: atomic { i == 0 && MEET && !stream -> settle(); stream = true }
    /* Whoever has begun the later term says so. */
    :: atomic { stream && MEET && known[i] < known[o] && IS_TOLD(i) -> known[i] = known[o] }
    od
}

/* Its element. */
proctype Host(bit i) {
    bit o = 1 - i;
end:
    do
    /* The element follows. */
    :: atomic { IS_UP(i) && !still[i] && term[i] < known[i] ->
            term[i] = known[i];
            if
            :: OWN(term[i], i) && role[i] == BACKUP -> role[i] = ACTIVE; has_sessions[i] = true
            :: OWN(term[i], i) && role[i] == SWITCHING -> role[i] = ACTIVE
            :: !OWN(term[i], i) && role[i] == SWITCHING -> role[i] = BACKUP
            :: !OWN(term[i], i) && (role[i] == ACTIVE || role[i] == HELD) ->
                role[i] = BACKUP; has_sessions[i] = false
            :: else
            fi;
            silent[i] = false }
    /* It has reached the other host, and may serve. */
    :: atomic { role[i] == HELD && stream && term[i] == known[i] && !still[i] ->
            /* Unless that has begun a later term, of which it is about to hear. */
            MUST(has_sessions[i] || !has_sessions[o] || known[o] > known[i] || known[i] >= TERM_MAX, whoever_has_sessions_serves);
            role[i] = ACTIVE; has_sessions[i] = true }
    /* HOLD has passed. */
    :: atomic { role[i] == HELD && !still[i] && HOLD_ENDS(o) ->
            MUST(!(role[o] == ACTIVE && MEET), no_start_beside_server);
            role[i] = ACTIVE; has_sessions[i] = true }
    /* All sessions were sent. */
    :: atomic { stream && MEET && role[i] == ACTIVE && role[o] == BACKUP && term[i] == term[o] &&
            !has_sessions[o] -> has_sessions[o] = true }
    /* An operator has it switch over. */
    :: atomic { stream && MEET && role[i] == ACTIVE && role[o] == BACKUP && term[i] == term[o] &&
            has_sessions[o] && !switched[i] && IS_FOLLOWED(i) ->
            role[i] = SWITCHING; switched[i] = true; lost[i] = false }
    :: atomic { switched[o] && stream && MEET ->
            switched[o] = false;
            if
            :: role[i] == BACKUP && term[i] == term[o] && IS_FOLLOWED(i) -> begin_term(i)
            :: else
            fi }
    :: atomic { role[i] == SWITCHING && !still[i] && GIVES_UP ->
            role[i] = (lost[i] -> HELD : ACTIVE) }
    /* A sign of life. */
    :: atomic { stream && MEET && role[i] == BACKUP && (silent[i] || excused[i]) ->
            silent[i] = false; excused[i] = false }
    :: atomic { role[i] == BACKUP && !silent[i] && !still[i] && (!stream || still[o]) ->
            MUST(excused[i], living_host_keeps); silent[i] = true }
    :: atomic { role[i] == BACKUP && !still[i] && silent[i] && MAY_TAKE_OVER(i) && IS_FOLLOWED(i) ->
            MUST(has_sessions[i], takeover_has_sessions); MUST(excused[i], living_host_keeps);
            begin_term(i); silent[i] = false }
    od
}

proctype World(bit i) {
    bit o = 1 - i;
end:
    do
    :: atomic { IS_UP(i) -> role[i] = DOWN; term[i] = 0; known[i] = 0; has_sessions[i] = false;
            silent[i] = false; END_STREAM; excused[o] = true }
    :: atomic { role[i] == DOWN -> role[i] = (i == 0 -> HELD : BACKUP); excused[i] = true }
    :: atomic { cable -> cable = false; END_STREAM; excused[0] = true; excused[1] = true }
    :: atomic { !cable -> cable = true }
    :: atomic { !still[i] -> still[i] = true; excused[o] = true }
    :: atomic { still[i] -> still[i] = false; silent[i] = COUNTED }
    /* By hand. */
    :: atomic { role[i] == BACKUP && !still[i] && IS_FOLLOWED(i) -> begin_term(i) }
    /* Nothing happens any more. */
    :: break
    od
}

init {
    atomic {
        role[0] = HELD; role[1] = BACKUP; excused[0] = true; excused[1] = true;
        run Threads(0); run Threads(1); run Host(0); run Host(1); run World(0); run World(1)
    }
}

#ifdef LIVE
/* Two hosts serve no longer than they are cut off from one another. */
ltl fenced { [] ((role[0] == ACTIVE && role[1] == ACTIVE) -> <> (role[0] != ACTIVE || role[1] != ACTIVE || !MEET)) }
#endif
#ifdef LIVE_SWITCHOVER
/* A switchover comes to an end. */
ltl switched_over { [] (role[0] == SWITCHING -> <> (role[0] != SWITCHING || still[0])) }
#endif
