/* What dataplane/port/src/dpdk/sys.rs needs of DPDK: functions that are inline there, and structures
 * whose layout depends on its version. Both files change together. */
#ifndef THRUWAY_DPDK_H
#define THRUWAY_DPDK_H

#include <stddef.h>
#include <stdint.h>

/* A text that says what went wrong, for the user. */
struct tw_text {
	char *at;
	size_t size;
};

/* Frames that are free, as the packet pool gives and takes them. */
struct tw_frames {
	/* Fills all `count` places and returns 0, or fills none. */
	int (*take)(void **mbufs, unsigned int count);
	void (*give)(void *const *mbufs, unsigned int count);
};

/* The memory of the frames, and that of their mbufs. */
struct tw_memory {
	void *region;
	size_t region_len;
	size_t page_len;
	size_t first; /* where the first frame begins in the region */
	size_t stride; /* bytes from one frame to the next */
	uint32_t count;
	void *mbufs; /* count times TW_MBUF_STRIDE bytes, aligned to a line */
	size_t mbufs_len;
};

/* An mbuf with DPDK's line before it. */
#define TW_MBUF_STRIDE 192
#define TW_MBUF_FIRST 64

struct tw_port_info {
	char name[64];
	char driver[64];
	uint8_t mac[6];
	uint8_t can_check; /* whether it can check IPv4 header checksums */
	uint16_t rx_queues_max, tx_queues_max;
	uint16_t rx_queues, tx_queues; /* as it was started */
	uint16_t mtu, mtu_max;
	uint16_t reta_size;
	uint8_t hashes; /* whether it spreads packets over its queues */
	int16_t node; /* NUMA; -1 if any */
};

struct tw_port_conf {
	uint16_t rx_queues, tx_queues;
	uint16_t rx_slots, tx_slots; /* 0: as the driver likes */
	uint16_t mtu; /* 0: as it is */
	uint8_t promiscuous;
	uint8_t checks; /* whether it is to check IPv4 header checksums, if it can */
};

struct tw_link {
	uint32_t mbps; /* 0: unknown */
	uint8_t is_up, is_full_duplex;
};

struct tw_counts {
	uint64_t in, out, in_bytes, out_bytes;
	uint64_t missed, in_errors, out_errors, no_mbuf;
};

struct tw_xstat {
	char name[64];
	uint64_t value;
};

const char *tw_version(void);

/* Starts the EAL; what it printed is put into `text`. 0, or a negative errno. */
int tw_eal_start(int argc, char **argv, struct tw_text text);
/* Takes what DPDK logged since the last call. */
void tw_log_take(struct tw_text text);
/* Whether log lines go to the standard error output too. */
void tw_log_show(int show);
int tw_iova_is_va(void);

int tw_thread_register(void);
/* Gives this thread's cached frames back. */
void tw_cache_flush(void *pool);
void tw_thread_unregister(void);

/* The pool of the frames' mbufs; NULL and a text. */
void *tw_frames_pool(const struct tw_memory *memory, struct tw_frames frames, struct tw_text text);

/* Number of a port by device name; negative if there is none. */
int tw_port_find(const char *name);
/* Spreads packets over `queues` queues alike for both directions of a connection: fills hash types,
 * and the length of the key, which is 0 if the driver is to choose one. */
const uint8_t *tw_hash(uint16_t port, uint64_t *types, uint8_t *key_len);
int tw_port_is_valid(uint16_t port);
/* Brings a device up ("net_null0,size=64", a PCI address); 0 or a negative errno. */
int tw_port_probe(const char *device);
int tw_port_info(uint16_t port, struct tw_port_info *info);
int tw_port_start(uint16_t port, const struct tw_port_conf *conf, void *pool,
		  const struct tw_memory *memory, struct tw_text text);
int tw_port_restart(uint16_t port);
void tw_port_stop(uint16_t port);
/* Stops and closes; removes the device too if `remove`. */
void tw_port_close(uint16_t port, int remove);
void tw_port_link(uint16_t port, struct tw_link *link);
void tw_port_counts(uint16_t port, struct tw_counts *counts);
/* Fills up to `max`, says how many there are. */
int tw_port_xstats(uint16_t port, struct tw_xstat *stats, unsigned int max);

/* Bytes of the longest header of an item: IPv6. */
#define TW_HEADER_LEN_MAX 40
/* Most headers of a rule. */
#define TW_ITEMS_MAX 3

/* A packet's header must equal `spec` in the bits of `mask`, in the network's order. */
struct tw_flow_item {
	uint8_t header; /* enum tw_header */
	uint8_t is_alone; /* no VLAN tag, no extension header follows */
	uint8_t spec[TW_HEADER_LEN_MAX];
	uint8_t mask[TW_HEADER_LEN_MAX];
};

enum tw_header {
	TW_ETHERNET,
	TW_IPV4,
	TW_IPV6,
	TW_TCP,
	TW_UDP,
	TW_SCTP,
	TW_ICMP,
	TW_ICMP6,
	TW_HEADERS
};

struct tw_flow_rule {
	uint32_t priority; /* lower ones first */
	uint32_t mark; /* with `marks` */
	uint16_t queues; /* packets that are not dropped are spread over these, from 0 on */
	uint8_t drops;
	uint8_t counts; /* its packets are to be counted */
	uint8_t marks;
	uint8_t count; /* of the items */
	struct tw_flow_item items[TW_ITEMS_MAX];
};

/* Whether a port takes a rule; 0, or a negative errno and a text. */
int tw_flow_check(uint16_t port, const struct tw_flow_rule *rule, struct tw_text text);
/* Makes a rule; NULL and a text. */
void *tw_flow_make(uint16_t port, const struct tw_flow_rule *rule, struct tw_text text);
/* Takes a rule away; 0, or a negative errno. */
int tw_flow_end(uint16_t port, void *flow);
/* Packets of a rule that counts; 0, or a negative errno. */
int tw_flow_count(uint16_t port, void *flow, uint64_t *packets);

uint16_t tw_rx(uint16_t port, uint16_t queue, void **mbufs, uint16_t max);
uint16_t tw_tx(uint16_t port, uint16_t queue, void **mbufs, uint16_t count);
/* Frees an mbuf with its whole chain. */
void tw_free(void *mbuf);
/* Copies up to `size` bytes of a chain; says how long it is. */
uint32_t tw_copy(const void *mbuf, void *to, uint32_t size);

#endif
