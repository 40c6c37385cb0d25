/*
 * Leases of a pair of hosts (dataplane/replication/src/lease.rs): a witness grants a term to the host
 * that serves, and the next one to the backup when the first has ended. A host serves as long as it
 * has a lease, or the other one has heard it too lately to take over. Hosts and the witness die,
 * cables fail and heal, at any moment.
 *
 * Time is not modelled, but for the order of ends: a host counts its lease from before it asked, so
 * that ends before the witness's; it counts the other one's silence from before it was heard, so
 * that it stops before that takes over.
 */
mtype = { ACTIVE, BACKUP };
mtype role[2];
bool up[2], cable = true, reached[2], witness = true;
/* Of a host: its lease, and that it was heard lately. */
bool leased[2], echoed[2];
/* Of the witness: the lease that it granted. It has begun anew, and an earlier one may hold. */
bool granted[2], quiet;
/* The last term is host 1's. */
bool later;
/* A backup has heard nothing for AFTER. */
bool silent[2];

hidden byte one_serves;
/* The name is false; it is there to be read in the report of a violation. */
#define MUST(condition, name) assert((condition) || name)

#define STREAM (cable && up[0] && up[1])
#define ASKS(i) (up[i] && reached[i] && witness)
#ifdef MUTANT_NO_FENCE
#define SERVES(i) (up[i] && role[i] == ACTIVE)
#else
#define SERVES(i) (up[i] && role[i] == ACTIVE && (leased[i] || echoed[i]))
#endif
#ifdef MUTANT_GRANTS_EARLY
#define GRANT_ENDS(i) true
#else
#define GRANT_ENDS(i) (!leased[i])
#endif
#ifdef MUTANT_FORGETS
#define QUIET false
#else
#define QUIET quiet
#endif
#ifdef MUTANT_SILENCE_FIRST
#define SILENCE(i) true
#else
#define SILENCE(i) (!echoed[1 - i])
#endif

proctype Host(bit i) {
    bit o = 1 - i;
end:
    do
    /* It is heard: a backup that is not about to take over says so. */
    :: atomic { STREAM && role[i] == ACTIVE && role[o] == BACKUP && later == (i == 1) ->
            silent[o] = false; echoed[i] = true }
    :: echoed[i] -> echoed[i] = false
    /* It claims its term. */
    :: atomic { ASKS(i) && role[i] == ACTIVE && later == (i == 1) && !granted[o] && !QUIET ->
            granted[i] = true; leased[i] = true }
    :: leased[i] -> leased[i] = false
    :: atomic { granted[i] && GRANT_ENDS(i) -> granted[i] = false }
    /* It hears of the later term, from the other host or the witness. */
    :: atomic { role[i] == ACTIVE && later != (i == 1) && (STREAM || ASKS(i)) ->
            role[i] = BACKUP; leased[i] = false; echoed[i] = false }
    /* A backup. */
    :: atomic { up[i] && role[i] == BACKUP && !silent[i] && SILENCE(i) -> silent[i] = true }
    :: atomic { ASKS(i) && role[i] == BACKUP && silent[i] && later != (i == 1) && !granted[o] && !QUIET ->
            granted[i] = true; leased[i] = true; role[i] = ACTIVE; later = (i == 1); silent[i] = false }
    od
}

active proctype World() {
    byte i;
end:
    do
    :: atomic { i = 1 - i }
    :: atomic { up[i] -> up[i] = false; leased[i] = false; echoed[i] = false; silent[i] = false }
    /* It begins anew with what it was configured to be; the other host, or the witness, knows better. */
    :: atomic { !up[i] -> up[i] = true; role[i] = (i == 0 -> ACTIVE : BACKUP) }
    :: cable = !cable
    :: reached[i] = !reached[i]
    :: atomic { witness -> witness = false }
    :: atomic { !witness -> witness = true; quiet = leased[0] || leased[1];
            granted[0] = false; granted[1] = false }
    :: atomic { quiet && !leased[0] && !leased[1] -> quiet = false }
    :: break
    od
}

active proctype Monitor() {
end:
    do
    :: atomic { SERVES(0) && SERVES(1) -> MUST(false, one_serves) }
    od
}

init {
    atomic {
        role[0] = ACTIVE; role[1] = BACKUP; up[0] = true; up[1] = true; reached[0] = true; reached[1] = true;
        run Host(0); run Host(1)
    }
}
