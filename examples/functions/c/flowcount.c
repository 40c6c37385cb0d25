/* Counts the packets and bytes of each session, in both directions, in the session's scratch:
 * flowcount.rs in C.
 *
 * FlowClassifier -> Nf(EXEC "flowcount", SESSION connection)
 *
 * With WORKERS it is as many Workers, each with counters of its own.
 */
#include "thruway_nf.h"

#include <stdio.h>
#include <stdlib.h>

/* Of one session, by direction. */
typedef struct counts {
    uint64_t packets[2], bytes[2];
} counts;

/* Counters of one Worker. `begun`: sessions that began, as far as this process saw. */
typedef struct counters {
    uint64_t *begun, *ended, *ended_packets, *ended_bytes, *packets_max, *without;
} counters;

static void batch(thruway *t, void *user) {
    const counters *count = (const counters *)user;
    for (thruway_packet *p; (p = thruway_next(t));) {
        counts *of = (counts *)thruway_scratch(t, p->session);
        if (!of) {
            ++*count->without;
            continue;
        }
        ++of->packets[p->direction & 1];
        of->bytes[p->direction & 1] += p->len;
        if (of->packets[0] + of->packets[1] > *count->packets_max)
            *count->packets_max = of->packets[0] + of->packets[1];
    }
}

static void new_session(thruway *t, uint32_t session, void *user) {
    (void)t, (void)session;
    ++*((const counters *)user)->begun;
}

static void released_session(thruway *t, uint32_t session, void *user) {
    const counts *of = (const counts *)thruway_scratch(t, session);
    const counters *count = (const counters *)user;
    ++*count->ended;
    if (of) {
        *count->ended_packets += of->packets[0] + of->packets[1];
        *count->ended_bytes += of->bytes[0] + of->bytes[1];
    }
}

/* Called by each Worker. */
static int start(thruway *t, void *user) {
    counters *count = (counters *)malloc(sizeof(counters));
    char name[40] = "packets-max";
    (void)user;
    if (!count)
        return thruway_fail(t, "no memory");
    count->begun = thruway_counter(t, "begun");
    count->ended = thruway_counter(t, "ended");
    count->ended_packets = thruway_counter(t, "ended-packets");
    count->ended_bytes = thruway_counter(t, "ended-bytes");
    /* Counters of one name are added up, which a level is not. */
    if (thruway_workers(t) > 1)
        snprintf(name, sizeof(name), "packets-max-%u", (unsigned)thruway_worker(t));
    count->packets_max = thruway_counter(t, name);
    count->without = thruway_counter(t, "without");
    thruway_set_user(t, count);
    return 0;
}

int main(void) {
    thruway_config config = thruway_default_config("flowcount", batch);
    config.scratch_len = sizeof(counts);
    config.start = start;
    config.new_session = new_session;
    config.released_session = released_session;
    return thruway_run_workers(&config);
}
