/* Uses everything that the header has; tests/c.rs is its host. Also valid C++. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thruway_nf.h"

static uint64_t *seen, *sum, *released;
static uint64_t often;
static int level = 5;

static int start(thruway *t, void *user) {
    if (strcmp((const char *)user, "user") != 0 || thruway_outputs(t) != 2 || thruway_restarted(t))
        return thruway_fail(t, "what it was given is wrong");
    if (strcmp(thruway_configuration(t), "text of CONFIG") != 0)
        return thruway_fail(t, "its configuration is wrong");
    seen = thruway_counter(t, "seen");
    sum = thruway_counter(t, "sum");
    released = thruway_counter(t, "released");
    often = thruway_every(t, 5 * 1000000);
    uint64_t never = thruway_after(t, 1000000);
    if (!thruway_cancel(t, never) || thruway_cancel(t, never) || thruway_inputs(t) != 1)
        return 1;
    /* None of these has a packet in hand. */
    if (thruway_next(t) || thruway_emit(t, 0, "a", 1, NULL, 0) != THRUWAY_OUTPUT)
        return 1;
    return thruway_inject(t, 0, "a", 1) != THRUWAY_OUTPUT;
}

/* The first byte says what is done. */
static void treat(thruway *t, thruway_packet *p) {
    uint8_t *at;
    switch (p->data[0]) {
    case 'd':
        thruway_drop(p);
        break;
    case 'o':
        thruway_send(p, 1);
        break;
    case 'p':
        at = thruway_push(p, 4);
        if (at)
            memcpy(at, "push", 4);
        break;
    case 'l':
        if (!thruway_pull(p, 1) || thruway_pull(p, p->len))
            thruway_drop(p);
        break;
    case 't':
        if (!thruway_truncate(p, 2) || thruway_truncate(p, 3) || thruway_truncate(p, 0))
            thruway_drop(p);
        break;
    case 'x':
        at = thruway_extend(p, 3);
        if (at)
            memcpy(at, "end", 3);
        if (thruway_extend(p, 65536) || thruway_push(p, 65536))
            thruway_drop(p);
        break;
    case 'e':
        if (thruway_emit(t, 1, "front ", 6, p->data + 1, p->len - 1) != THRUWAY_SENT ||
            thruway_emit(t, 0, NULL, 0, "b", 1) != THRUWAY_SENT ||
            thruway_emit(t, 2, "c", 1, NULL, 0) != THRUWAY_OUTPUT ||
            thruway_emit(t, 0, NULL, 0, NULL, 0) != THRUWAY_LENGTH)
            thruway_send(p, 1);
        break;
    case 's':
        at = (uint8_t *)thruway_scratch(t, p->session);
        if (at)
            p->data[1] = ++at[15];
        break;
    case 'b': /* a bug: outside of its frame */
        p->data -= 100000;
        break;
    case 'n': /* a bug: no such output */
        thruway_send(p, 200);
        break;
    }
}

static void batch(thruway *t, void *user) {
    thruway_packet *p;
    uint64_t now = thruway_now_ns(t);
    (void)user;
    while ((p = thruway_next(t)) != NULL) {
        ++*seen;
        *sum += p->input + p->direction;
        if (p->data[0] == 'q')
            break; /* the rest goes on unchanged */
        treat(t, p);
    }
    if (thruway_now_ns(t) != now)
        abort();
}

static void new_session(thruway *t, uint32_t session, void *user) {
    uint8_t *at = (uint8_t *)thruway_scratch(t, session);
    (void)user;
    if (at && at[15] == 0)
        at[15] = 100;
}

static void released_session(thruway *t, uint32_t session, void *user) {
    uint8_t *at = (uint8_t *)thruway_scratch(t, session);
    (void)user;
    if (at)
        *released += at[15];
    if (thruway_inject(t, 0, "x", 1) != THRUWAY_OUTPUT || thruway_after(t, 1) != 0)
        abort();
}

static void timer(thruway *t, uint64_t which, void *user) {
    (void)user;
    if (which == often && thruway_inject(t, 1, "tick", 4) == THRUWAY_SENT)
        thruway_cancel(t, often);
}

static int answer_read(const char *handler, const char *parameter, char *answer, size_t len,
                       void *user) {
    (void)user;
    if (strcmp(handler, "level") != 0) {
        snprintf(answer, len, "no handler '%s'", handler);
        return 1;
    }
    snprintf(answer, len, "%d%s", level, parameter);
    return 0;
}

static int answer_write(const char *handler, const char *value, char *answer, size_t len,
                        void *user) {
    (void)handler, (void)answer, (void)len, (void)user;
    level = atoi(value);
    return 0;
}

static void drain(thruway *t, void *user) {
    (void)user;
    thruway_inject(t, 0, "last", 4);
}

int main(void) {
    static char user[] = "user";
    thruway_config config = thruway_default_config("everything", batch);
    config.outputs = 2;
    config.scratch_len = 16;
    config.user = user;
    config.start = start;
    config.timer = timer;
    config.read = answer_read;
    config.write = answer_write;
    config.drain = drain;
    config.new_session = new_session;
    config.released_session = released_session;
    return thruway_run(&config);
}
