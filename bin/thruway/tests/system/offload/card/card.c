/* A card with rules (rte_flow) for any port of DPDK, for tests: loaded before DPDK's own library
 * (LD_PRELOAD), it takes the calls for rules, and runs the rules on the packets that the port
 * received, before the program gets them. It knows headers with masks, drops, counts and marks;
 * packets stay in their queues.
 *
 * CARD_REFUSES has words, separated by commas, for what it refuses: "mark", "count", "guards" (the
 * words that exclude VLAN tags, fragments and extension headers), "tcp"; "late": it takes no rule
 * after the third, although it said that it would. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_flow.h>

#define RULES_MAX 256
#define ITEMS_MAX 4

struct part {
	enum rte_flow_item_type type;
	int has_alone; /* no tag, no extension header */
	unsigned int len;
	uint8_t spec[64], mask[64];
};

struct rte_flow {
	uint32_t priority;
	unsigned int count;
	struct part parts[ITEMS_MAX];
	int drops, counts, marks;
	uint32_t mark;
	uint64_t hits;
	int is_used;
};

static struct rte_flow rules[RULES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int refuses(const char *what)
{
	const char *words = getenv("CARD_REFUSES");
	return words != NULL && strstr(words, what) != NULL;
}

static int put_item(struct part *part, const struct rte_flow_item *item)
{
	static const struct {
		enum rte_flow_item_type type;
		unsigned int header, size;
	} known[] = {
		{ RTE_FLOW_ITEM_TYPE_ETH, 14, sizeof(struct rte_flow_item_eth) },
		{ RTE_FLOW_ITEM_TYPE_IPV4, 20, sizeof(struct rte_flow_item_ipv4) },
		{ RTE_FLOW_ITEM_TYPE_IPV6, 40, sizeof(struct rte_flow_item_ipv6) },
		{ RTE_FLOW_ITEM_TYPE_TCP, 20, sizeof(struct rte_flow_item_tcp) },
		{ RTE_FLOW_ITEM_TYPE_UDP, 8, sizeof(struct rte_flow_item_udp) },
		{ RTE_FLOW_ITEM_TYPE_ICMP, 8, sizeof(struct rte_flow_item_icmp) },
	};
	for (unsigned int at = 0; at < RTE_DIM(known); at++) {
		if (known[at].type != item->type)
			continue;
		memset(part, 0, sizeof(*part));
		part->type = item->type;
		part->len = known[at].header;
		if (item->spec == NULL)
			return 0;
		memcpy(part->spec, item->spec, known[at].header);
		memcpy(part->mask, item->mask, known[at].header);
		for (unsigned int byte = known[at].header; byte < known[at].size; byte++)
			part->has_alone |= ((const uint8_t *)item->mask)[byte] != 0;
		int has_guard = part->has_alone ||
				(item->type == RTE_FLOW_ITEM_TYPE_IPV4 && part->mask[6] != 0);
		if (has_guard && refuses("guards"))
			return -ENOTSUP;
		return item->type == RTE_FLOW_ITEM_TYPE_TCP && refuses("tcp") ? -ENOTSUP : 0;
	}
	return -ENOTSUP;
}

static int put(struct rte_flow *rule, const struct rte_flow_attr *attr,
	       const struct rte_flow_item *item, const struct rte_flow_action *action)
{
	memset(rule, 0, sizeof(*rule));
	rule->priority = attr->priority;
	for (; item->type != RTE_FLOW_ITEM_TYPE_END; item++) {
		if (rule->count == ITEMS_MAX || put_item(&rule->parts[rule->count++], item) != 0)
			return -ENOTSUP;
	}
	for (; action->type != RTE_FLOW_ACTION_TYPE_END; action++) {
		switch (action->type) {
		case RTE_FLOW_ACTION_TYPE_DROP:
			rule->drops = 1;
			break;
		case RTE_FLOW_ACTION_TYPE_COUNT:
			rule->counts = 1;
			break;
		case RTE_FLOW_ACTION_TYPE_MARK:
			rule->marks = 1;
			rule->mark = ((const struct rte_flow_action_mark *)action->conf)->id;
			break;
		case RTE_FLOW_ACTION_TYPE_QUEUE:
		case RTE_FLOW_ACTION_TYPE_RSS:
			break;
		default:
			return -ENOTSUP;
		}
	}
	if ((rule->marks && refuses("mark")) || (rule->counts && refuses("count")))
		return -ENOTSUP;
	/* Some cards have no more bits for marks. */
	return rule->mark >> 24 == 0 ? 0 : -EINVAL;
}

static int failed(struct rte_flow_error *error, int result)
{
	return rte_flow_error_set(error, -result, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
				  "this card of a test refuses it");
}

int rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr,
		      const struct rte_flow_item items[], const struct rte_flow_action actions[],
		      struct rte_flow_error *error)
{
	struct rte_flow rule;
	(void)port;
	int result = put(&rule, attr, items, actions);
	return result == 0 ? 0 : failed(error, result);
}

static int equals(const struct part *part, const uint8_t *at, unsigned int len)
{
	for (unsigned int byte = 0; byte < part->len; byte++)
		if (part->mask[byte] != 0 &&
		    (byte >= len || (at[byte] & part->mask[byte]) != part->spec[byte]))
			return 0;
	return 1;
}

/* As rte_flow describes it: an item of TCP takes no fragment but the first. */
static int takes(const struct rte_flow *rule, const uint8_t *frame, unsigned int len)
{
	const uint8_t *ip = frame + 14, *upper = NULL;
	unsigned int kind = len >= 14 ? frame[12] << 8 | frame[13] : 0, protocol = 256;
	unsigned int upper_len = 0;
	if (kind == 0x0800 && len >= 34) {
		unsigned int header = (ip[0] & 15) * 4;
		protocol = ip[9];
		if (((ip[6] & 0x1f) | ip[7]) == 0 && len >= 14 + header) {
			upper = ip + header;
			upper_len = len - 14 - header;
		}
	} else if (kind == 0x86dd && len >= 54) {
		protocol = ip[6];
		upper = ip + 40;
		upper_len = len - 54;
	}
	for (unsigned int at = 0; at < rule->count; at++) {
		const struct part *part = &rule->parts[at];
		unsigned int of = part->type == RTE_FLOW_ITEM_TYPE_TCP ? 6 :
				  part->type == RTE_FLOW_ITEM_TYPE_UDP ? 17 : 1;
		switch (part->type) {
		case RTE_FLOW_ITEM_TYPE_ETH:
			if (!equals(part, frame, len) ||
			    (part->has_alone && (kind == 0x8100 || kind == 0x88a8)))
				return 0;
			break;
		case RTE_FLOW_ITEM_TYPE_IPV4:
			if (kind != 0x0800 || len < 34 || !equals(part, ip, len - 14))
				return 0;
			break;
		case RTE_FLOW_ITEM_TYPE_IPV6:
			if (kind != 0x86dd || len < 54 || !equals(part, ip, len - 14) ||
			    (part->has_alone && (protocol == 0 || protocol == 43 || protocol == 44 ||
						 protocol == 51 || protocol == 60)))
				return 0;
			break;
		default:
			if (protocol != of || upper == NULL || !equals(part, upper, upper_len))
				return 0;
		}
	}
	return 1;
}

static uint16_t received(uint16_t port, uint16_t queue, struct rte_mbuf *mbufs[], uint16_t count,
			 uint16_t max, void *arg)
{
	uint16_t kept = 0;
	(void)port, (void)queue, (void)max, (void)arg;
	pthread_mutex_lock(&lock);
	for (uint16_t at = 0; at < count; at++) {
		const uint8_t *frame = rte_pktmbuf_mtod(mbufs[at], const uint8_t *);
		struct rte_flow *best = NULL;
		for (unsigned int rule = 0; rule < RULES_MAX; rule++)
			if (rules[rule].is_used &&
			    (best == NULL || rules[rule].priority < best->priority) &&
			    takes(&rules[rule], frame, mbufs[at]->data_len))
				best = &rules[rule];
		if (best != NULL)
			best->hits++;
		if (best != NULL && best->drops) {
			rte_pktmbuf_free(mbufs[at]);
			continue;
		}
		if (best != NULL && best->marks) {
			mbufs[at]->hash.fdir.hi = best->mark;
			mbufs[at]->ol_flags |= RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
		}
		mbufs[kept++] = mbufs[at];
	}
	pthread_mutex_unlock(&lock);
	return kept;
}

int rte_eth_dev_start(uint16_t port)
{
	int (*start)(uint16_t) = (int (*)(uint16_t))dlsym(RTLD_NEXT, "rte_eth_dev_start");
	int result = start(port);
	struct rte_eth_dev_info info;
	if (result == 0 && rte_eth_dev_info_get(port, &info) == 0)
		for (uint16_t queue = 0; queue < info.nb_rx_queues; queue++)
			rte_eth_add_rx_callback(port, queue, received, NULL);
	return result;
}

struct rte_flow *rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
				 const struct rte_flow_item items[],
				 const struct rte_flow_action actions[],
				 struct rte_flow_error *error)
{
	struct rte_flow rule, *made = NULL;
	(void)port;
	int result = put(&rule, attr, items, actions);
	pthread_mutex_lock(&lock);
	unsigned int max = refuses("late") ? 3 : RULES_MAX;
	for (unsigned int at = 0; result == 0 && made == NULL && at < max; at++)
		if (!rules[at].is_used)
			made = &rules[at];
	if (made != NULL) {
		*made = rule;
		made->is_used = 1;
	}
	pthread_mutex_unlock(&lock);
	if (made == NULL)
		failed(error, result != 0 ? result : -ENOSPC);
	return made;
}

int rte_flow_destroy(uint16_t port, struct rte_flow *flow, struct rte_flow_error *error)
{
	(void)port, (void)error;
	pthread_mutex_lock(&lock);
	flow->is_used = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}

int rte_flow_query(uint16_t port, struct rte_flow *flow, const struct rte_flow_action *action,
		   void *data, struct rte_flow_error *error)
{
	struct rte_flow_query_count *count = data;
	(void)port, (void)error;
	if (action->type != RTE_FLOW_ACTION_TYPE_COUNT || !flow->counts)
		return -ENOTSUP;
	pthread_mutex_lock(&lock);
	count->hits = flow->hits;
	count->hits_set = 1;
	pthread_mutex_unlock(&lock);
	return 0;
}
