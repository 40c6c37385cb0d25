/* Counts the packets and bytes of each session, in both directions, in the session's scratch:
 * flowcount.rs in C.
 *
 * FlowClassifier -> Nf(EXEC "flowcount", SESSION connection)
 */
#include "thruway_nf.h"

/* Of one session, by direction. */
typedef struct counts {
    uint64_t packets[2], bytes[2];
} counts;

/* `begun`: sessions that began, as far as this process saw. */
static uint64_t *begun, *ended, *ended_packets, *ended_bytes, *packets_max, *without;

static void batch(thruway *t, void *user) {
    (void)user;
    for (thruway_packet *p; (p = thruway_next(t));) {
        counts *of = (counts *)thruway_scratch(t, p->session);
        if (!of) {
            ++*without;
            continue;
        }
        ++of->packets[p->direction & 1];
        of->bytes[p->direction & 1] += p->len;
        if (of->packets[0] + of->packets[1] > *packets_max)
            *packets_max = of->packets[0] + of->packets[1];
    }
}

static void new_session(thruway *t, uint32_t session, void *user) {
    (void)t, (void)session, (void)user;
    ++*begun;
}

static void released_session(thruway *t, uint32_t session, void *user) {
    const counts *of = (const counts *)thruway_scratch(t, session);
    (void)user;
    ++*ended;
    if (of) {
        *ended_packets += of->packets[0] + of->packets[1];
        *ended_bytes += of->bytes[0] + of->bytes[1];
    }
}

static int start(thruway *t, void *user) {
    (void)user;
    begun = thruway_counter(t, "begun");
    ended = thruway_counter(t, "ended");
    ended_packets = thruway_counter(t, "ended-packets");
    ended_bytes = thruway_counter(t, "ended-bytes");
    packets_max = thruway_counter(t, "packets-max");
    without = thruway_counter(t, "without");
    return 0;
}

int main(void) {
    thruway_config config = thruway_default_config("flowcount", batch);
    config.scratch_len = sizeof(counts);
    config.start = start;
    config.new_session = new_session;
    config.released_session = released_session;
    return thruway_run(&config);
}
