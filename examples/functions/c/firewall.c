/* A firewall that looks at headers only: drops TCP and UDP packets to given ports.
 *
 * Build: cargo build --release -p thruway-nf-c
 *        cc -O2 -I nf/sdk-c/include -o firewall examples/functions/c/firewall.c \
 *            target/release/libthruway_nf_c.a
 * Run:   Nf(EXEC "firewall 23 445")
 *
 * IPv4 only; what it does not understand passes. */
#include <stdlib.h>
#include <string.h>

#include "thruway_nf.h"

static uint8_t blocked[1 << 16];
static uint64_t *dropped;

/* Destination port of a TCP or UDP packet in an Ethernet frame, or -1. */
static int port(const uint8_t *frame, uint32_t len) {
    static const uint8_t IPV4[] = {0x08, 0x00};
    if (len < 14 + 20 || memcmp(frame + 12, IPV4, 2) != 0)
        return -1;
    const uint8_t *ip = frame + 14;
    uint32_t header_len = (ip[0] & 15u) * 4;
    if (ip[0] >> 4 != 4 || header_len < 20 || (ip[6] & 0x1f) != 0 || ip[7] != 0)
        return -1;
    if ((ip[9] != 6 && ip[9] != 17) || len < 14 + header_len + 4)
        return -1;
    return ip[header_len + 2] << 8 | ip[header_len + 3];
}

static void batch(thruway *t, void *user) {
    (void)user;
    for (thruway_packet *p; (p = thruway_next(t));) {
        int to = port(p->data, p->len);
        if (to >= 0 && blocked[to]) {
            ++*dropped;
            thruway_drop(p);
        }
    }
}

static int start(thruway *t, void *user) {
    for (char **word = user; *word; word++) {
        char *end;
        unsigned long number = strtoul(*word, &end, 10);
        if (end == *word || *end || number > 0xffff)
            return thruway_fail(t, "the arguments are numbers of ports");
        blocked[number] = 1;
    }
    dropped = thruway_counter(t, "dropped");
    return 0;
}

int main(int argc, char **argv) {
    thruway_config config = thruway_default_config("firewall", batch);
    config.start = start;
    config.user = argv + (argc > 0);
    return thruway_run(&config);
}
