/* A function of streams: every 'a' becomes "bb", every 'c' nothing, an upper case letter a lower
 * case one; at a '!' the connection ends. Counts bytes in the scratch. */
#include "thruway_nf.h"

static void batch(thruway *t, void *user) {
    thruway_packet *p;
    (void)user;
    while ((p = thruway_next(t)) != NULL) {
        uint32_t len, at = 0;
        uint8_t *content = thruway_content(p, &len);
        uint64_t *count = (uint64_t *)thruway_scratch(t, p->session);
        if (content == NULL || count == NULL)
            continue;
        *count += len;
        for (; (content = thruway_content(p, &len)) != NULL && at < len; ++at) {
            uint8_t byte = content[at];
            if (byte == '!') {
                thruway_content_close(p);
            } else if (byte >= 'A' && byte <= 'Z') {
                content[at] = (uint8_t)(byte + ('a' - 'A'));
                thruway_content_changed(p);
            } else if (byte == 'a') {
                uint8_t *place = thruway_content_splice(p, at, 1, 2);
                if (place == NULL) {
                    thruway_content_close(p);
                    break;
                }
                place[0] = place[1] = 'b';
                ++at;
            } else if (byte == 'c') {
                thruway_content_splice(p, at, 1, 0);
                --at;
            }
        }
        if (thruway_is_last(p)) {
            uint8_t *place = thruway_content_splice(p, at, 0, 3);
            if (place != NULL)
                memcpy(place, "end", 3);
        }
    }
}

int main(void) {
    thruway_config config = thruway_default_config("stream", batch);
    config.stream = THRUWAY_STREAM_RESIZE;
    config.scratch_len = 8;
    return thruway_run(&config);
}
