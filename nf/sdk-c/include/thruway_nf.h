/* The library that the author of an isolated network function writes against, in C11 or C++11.
 *
 * A function is a program of its own. Thruway starts it (Nf(EXEC "path args") in a configuration),
 * shares memory with it, and hands it packets, which it reads and changes in place. A function is a
 * structure of settings and a callback on a batch:
 *
 *     static void batch(thruway *t, void *user) {
 *         (void)user;
 *         for (thruway_packet *p; (p = thruway_next(t));)
 *             if (p->len > 128)
 *                 thruway_drop(p);
 *     }
 *
 *     int main(void) {
 *         thruway_config config = thruway_default_config("short-only", batch);
 *         return thruway_run(&config);
 *     }
 *
 * Link with libthruway_nf_c.a: cc function.c -I nf/sdk-c/include target/release/libthruway_nf_c.a
 *
 * All functions here are for the thread that called thruway_run, and with a thruway pointer only
 * while the callback runs that was given it.
 */
#ifndef THRUWAY_NF_H
#define THRUWAY_NF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header; the library refuses another. */
#define THRUWAY_NF_API 3

/* What a callback has in hand. */
typedef struct thruway thruway;

/* thruway_packet.session of a packet whose session the host does not know. */
#define THRUWAY_NO_SESSION UINT32_MAX

/* A packet in its slot. The data may be changed in place. Where it begins and ends, and what
 * becomes of it, is changed by the functions below. Valid until the next thruway_next. */
typedef struct thruway_packet {
    uint8_t *data;     /* first byte, of the link header */
    uint32_t len;      /* bytes, at least 1 */
    uint32_t headroom; /* bytes by which it can grow at its beginning */
    uint32_t tailroom; /* bytes by which it can grow at its end */
    uint32_t session;  /* number of its session, or THRUWAY_NO_SESSION */
    uint8_t input;     /* input of the element that it came in by */
    uint8_t direction; /* 0 or 1: which way of its connection, where the host knows */
    uint8_t output;    /* verdict: output that it leaves by; 0 at first */
    uint8_t dropped;   /* verdict: 1 if it ends here; 0 at first */
} thruway_packet;

/* The settings of a function; thruway_default_config fills them in. Callbacks but `batch` may be
 * NULL. */
typedef struct thruway_config {
    uint32_t api;           /* THRUWAY_NF_API */
    uint32_t outputs;       /* outputs that it uses, 1 to 256 */
    uint32_t scratch_len;   /* bytes of scratch per session, 0 for none, at most 1 MB */
    uint32_t batch_len_max; /* most packets of a batch */
    uint32_t prefetch;      /* packets ahead whose first line is asked for; 0 if none is looked at */
    uint32_t stream;        /* 0, or what a function of streams does: see "Functions of streams" */
    const char *name;       /* for people; at most 32 bytes are kept */
    void *user;             /* given to all callbacks */

    /* Before the first packet: the place for counters and timers. Not 0 if it cannot begin;
     * thruway_fail says why. */
    int (*start)(thruway *t, void *user);
    /* Packets wait: thruway_next gives them. Those that it does not take go on unchanged. */
    void (*batch)(thruway *t, void *user);
    /* A timer went off. */
    void (*timer)(thruway *t, uint64_t timer, void *user);
    /* Someone reads a handler: write the answer as text of less than `len` bytes, NUL at its end.
     * Not 0 for an error, of which `answer` is the text. */
    int (*read)(const char *handler, const char *parameter, char *answer, size_t len, void *user);
    /* Someone writes a handler: 0, or not 0 and the text of an error in `answer`. */
    int (*write)(const char *handler, const char *value, char *answer, size_t len, void *user);
    /* It is to end: all packets are treated. It may inject last ones. */
    void (*drain)(thruway *t, void *user);
    /* A session begins, whose first packet comes next; its scratch is zeros. Where scratch_len is
     * not 0 and the element has SESSION. Not called after a restart for sessions that went on. */
    void (*new_session)(thruway *t, uint32_t session, void *user);
    /* A session has ended, and all of its packets were here; its scratch can be read for the last
     * time: later another session may have the number. */
    void (*released_session)(thruway *t, uint32_t session, void *user);
} thruway_config;

/* One output, no scratch, no callbacks but `batch`. */
static inline thruway_config thruway_default_config(const char *name,
                                                    void (*batch)(thruway *, void *)) {
    thruway_config config;
    config.api = THRUWAY_NF_API;
    config.outputs = 1;
    config.scratch_len = 0;
    config.batch_len_max = 256;
    config.prefetch = 6;
    config.stream = 0;
    config.name = name;
    config.user = NULL;
    config.start = NULL;
    config.batch = batch;
    config.timer = NULL;
    config.read = NULL;
    config.write = NULL;
    config.drain = NULL;
    config.new_session = NULL;
    config.released_session = NULL;
    return config;
}

/* Runs the function until its host ends it; what main returns: 0, or 1 after saying why. */
int thruway_run(const thruway_config *config);

/* The same as so many Workers as WORKERS of the element says, a thread each, in this process. Each
 * calls `start` (one after the other, by their numbers) and from then on its callbacks, at the same
 * time as the others call theirs: what they share is for the program to protect. A session is one
 * Worker's alone. Give each Worker data of its own by thruway_set_user; counters of one name are
 * added up by the host. */
int thruway_run_workers(const thruway_config *config);

/* ---- In `batch` ---- */

/* The next packet, or NULL. Is done with the one before: as its verdict says. */
thruway_packet *thruway_next(thruway *t);

/* The verdicts. */
static inline void thruway_send(thruway_packet *p, uint8_t output) {
    p->output = output;
    p->dropped = 0;
}
static inline void thruway_drop(thruway_packet *p) { p->dropped = 1; }

/* Grows a packet at its beginning and gives it; NULL, and nothing done, without head room. */
static inline uint8_t *thruway_push(thruway_packet *p, uint32_t count) {
    if (count > p->headroom)
        return NULL;
    p->headroom -= count;
    p->len += count;
    return p->data -= count;
}

/* Takes bytes from its beginning and gives it; NULL, and nothing done, if none would be left. */
static inline uint8_t *thruway_pull(thruway_packet *p, uint32_t count) {
    if (count >= p->len)
        return NULL;
    p->headroom += count;
    p->len -= count;
    return p->data += count;
}

/* Cuts its end off. 0, and nothing done, if `len` is 0 or more than it has; else 1. */
static inline int thruway_truncate(thruway_packet *p, uint32_t len) {
    if (len == 0 || len > p->len)
        return 0;
    p->tailroom += p->len - len;
    p->len = len;
    return 1;
}

/* Grows it at its end and gives the new bytes; NULL, and nothing done, without room. */
static inline uint8_t *thruway_extend(thruway_packet *p, uint32_t count) {
    uint8_t *end = p->data + p->len;
    if (count > p->tailroom)
        return NULL;
    p->tailroom -= count;
    p->len += count;
    return end;
}

/* ---- Functions of streams: for an element with STREAM ----
 *
 * thruway_config.stream says what the function does, and scratch_len is not 0. Then packets are
 * what their content is: the payload of sessions in order, without what else is in them. They are
 * changed by these functions alone, and none is dropped. Bytes cannot be held back in C. */
#define THRUWAY_STREAM_ORDER (UINT32_C(1) << 31 | 0x01)  /* sees the payload in order */
#define THRUWAY_STREAM_GUARD (UINT32_C(1) << 31 | 0x23)  /* and what it saw is what is received */
#define THRUWAY_STREAM_CHANGE (UINT32_C(1) << 31 | 0x27) /* and it writes over bytes */
#define THRUWAY_STREAM_RESIZE (UINT32_C(1) << 31 | 0x2f) /* and inserts and removes some */

/* Offsets and flags of what stands before the headers and the content: StreamHead in nf/abi. */
#define THRUWAY_STREAM_HEAD_LEN 16
#define THRUWAY_STREAM_FLAGS_AT 6
#define THRUWAY_STREAM_SHOWN 1
#define THRUWAY_STREAM_LAST 2
#define THRUWAY_STREAM_CHANGED 16
#define THRUWAY_STREAM_CLOSE 32

/* The content and its length; NULL of a packet that only passes by. */
static inline uint8_t *thruway_content(thruway_packet *p, uint32_t *len) {
    uint32_t start;
    if (p->len < THRUWAY_STREAM_HEAD_LEN ||
        !(p->data[THRUWAY_STREAM_FLAGS_AT] & THRUWAY_STREAM_SHOWN))
        return NULL;
    start = THRUWAY_STREAM_HEAD_LEN + (uint32_t)p->data[0] + ((uint32_t)p->data[1] << 8);
    if (start > p->len)
        return NULL;
    *len = p->len - start;
    return p->data + start;
}

/* Whether nothing of this direction (of this message) follows. Of a packet with content. */
static inline int thruway_is_last(const thruway_packet *p) {
    return (p->data[THRUWAY_STREAM_FLAGS_AT] & THRUWAY_STREAM_LAST) != 0;
}

/* Says that bytes of the content were written over. */
static inline void thruway_content_changed(thruway_packet *p) {
    p->data[THRUWAY_STREAM_FLAGS_AT] |= THRUWAY_STREAM_CHANGED;
}

/* Ends the connection. */
static inline void thruway_content_close(thruway_packet *p) {
    p->data[THRUWAY_STREAM_FLAGS_AT] |= THRUWAY_STREAM_CLOSE;
}

/* Puts `count` bytes in the place of `len` bytes at `at` of the content, and gives where they are
 * to be written (or would be, if there are none). NULL, and nothing done, when `len` bytes are not
 * there, or there is no room: SLOT_SIZE of the element. Asks for thruway_content again. */
static inline uint8_t *thruway_content_splice(thruway_packet *p, uint32_t at, uint32_t len,
                                              uint32_t count) {
    uint32_t all = 0;
    uint8_t *content = thruway_content(p, &all);
    if (content == NULL || at > all || len > all - at)
        return NULL;
    if (count > len && count - len > p->tailroom)
        return NULL;
    memmove(content + at + count, content + at + len, all - at - len);
    p->tailroom = p->tailroom + len - count;
    p->len = p->len + count - len;
    thruway_content_changed(p);
    return content + at;
}

/* What sending gives. */
#define THRUWAY_SENT 0
#define THRUWAY_FULL 1   /* the host has not yet taken what is in the ring; it counts this */
#define THRUWAY_LENGTH 2 /* no bytes, or more than a slot has room for */
#define THRUWAY_OUTPUT 3 /* the element has no such output, or there is no packet in hand */

/* Sends another packet in consequence of the one in hand: it leaves after that one and before the
 * next, also if that one is dropped. Its bytes are `front`, then `bytes`, which may lie in the
 * packet in hand. */
int thruway_emit(thruway *t, uint8_t output, const void *front, size_t front_len,
                 const void *bytes, size_t len);

/* ---- In `batch`, `timer` and `drain` ---- */

/* Sends a packet that has nothing to do with others: it leaves when it can. */
int thruway_inject(thruway *t, uint8_t output, const void *bytes, size_t len);

/* ---- In the same, `new_session` and `released_session` ---- */

/* Scratch of a session, `scratch_len` bytes, zero at first, aligned to 8; NULL without one. */
void *thruway_scratch(thruway *t, uint32_t session);

/* Nanoseconds of the system's monotonic clock, the same for all of a batch. In `start`, too. */
uint64_t thruway_now_ns(thruway *t);

/* ---- In `start`, `batch`, `timer` and `drain` ---- */

/* Sets a timer that goes off once, or every so often. Gives its number. */
uint64_t thruway_after(thruway *t, uint64_t ns);
uint64_t thruway_every(thruway *t, uint64_t ns);
/* Unsets a timer; 0 if it was not set any more. */
int thruway_cancel(thruway *t, uint64_t timer);

/* ---- In `start` ---- */

/* A counter that the host shows under this name: letters, digits, '_', '-' and '.', at most 40
 * bytes. Add to it, ++*counter, until thruway_run returns. With a wrong name, or more than 128
 * counters, the function does not start. Never NULL. */
uint64_t *thruway_counter(thruway *t, const char *name);

/* The output that leads to a role of the element's ROLES, such as "scrubber"; -1 if there is none.
 * Which instance has the role is for the configuration to say, and may change while packets flow. */
int thruway_role(thruway *t, const char *name);

/* The text that the element's CONFIG gives; NULL if the host has gone. Waits for it: only for a
 * function that cannot do without, because without CONFIG it never comes. */
const char *thruway_configuration(thruway *t);

/* Gives this Worker's callbacks another `user` than that of thruway_config, once `start` is over. */
void thruway_set_user(thruway *t, void *user);

/* The number of this Worker, from 0; how many there are. In all callbacks that have a thruway. */
uint32_t thruway_worker(const thruway *t);
uint32_t thruway_workers(const thruway *t);

/* Inputs and outputs of the element; whether the function begins again after a failure (scratch
 * then holds what it held). */
uint32_t thruway_inputs(const thruway *t);
uint32_t thruway_outputs(const thruway *t);
int thruway_restarted(const thruway *t);

/* Says why the function cannot begin, and gives 1: return thruway_fail(t, "no rules"); */
int thruway_fail(thruway *t, const char *why);

#ifdef __cplusplus
}
#endif
#endif
