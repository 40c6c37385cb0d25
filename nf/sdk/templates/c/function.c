/* A network function that drops packets longer than its argument says (1000 bytes without one). */
#include <stdlib.h>

#include "thruway_nf.h"

static unsigned long len_max = 1000;
static uint64_t *dropped;

/* Called once, before the first packet. */
static int start(thruway *t, void *user) {
    char **args = user;
    if (args[0]) {
        char *end;
        len_max = strtoul(args[0], &end, 10);
        if (end == args[0] || *end)
            return thruway_fail(t, "argument: bytes of the longest packet to pass");
    }
    dropped = thruway_counter(t, "dropped");
    return 0;
}

/* Called with every batch of packets. */
static void batch(thruway *t, void *user) {
    (void)user;
    for (thruway_packet *p; (p = thruway_next(t));) {
        /* p->data are its p->len bytes, from the Ethernet header on. */
        if (p->len > len_max) {
            ++*dropped;
            thruway_drop(p);
        }
    }
}

int main(int argc, char **argv) {
    thruway_config config = thruway_default_config("{{NAME}}", batch);
    config.start = start;
    config.user = argv + (argc > 0);
    return thruway_run(&config);
}
