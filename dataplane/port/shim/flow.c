/* Rules of a port (rte_flow): asked for, made, counted, taken away. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_flow.h>

#include "dpdk.h"

/* Most queues that packets of a rule are spread over. */
#define QUEUES_MAX 256

/* DPDK's form of an item: the header's bytes come first in each of these. */
union any_item {
	struct rte_flow_item_eth eth;
	struct rte_flow_item_ipv4 ipv4;
	struct rte_flow_item_ipv6 ipv6;
	struct rte_flow_item_tcp tcp;
	struct rte_flow_item_udp udp;
	struct rte_flow_item_sctp sctp;
	struct rte_flow_item_icmp icmp;
	struct rte_flow_item_icmp6 icmp6;
};

/* By `enum tw_header`. */
static const struct {
	enum rte_flow_item_type type;
	uint8_t len; /* bytes of the header */
} headers[TW_HEADERS] = {
	[TW_ETHERNET] = { RTE_FLOW_ITEM_TYPE_ETH, 14 },
	[TW_IPV4] = { RTE_FLOW_ITEM_TYPE_IPV4, 20 },
	[TW_IPV6] = { RTE_FLOW_ITEM_TYPE_IPV6, 40 },
	[TW_TCP] = { RTE_FLOW_ITEM_TYPE_TCP, 20 },
	[TW_UDP] = { RTE_FLOW_ITEM_TYPE_UDP, 8 },
	[TW_SCTP] = { RTE_FLOW_ITEM_TYPE_SCTP, 12 },
	[TW_ICMP] = { RTE_FLOW_ITEM_TYPE_ICMP, 8 },
	[TW_ICMP6] = { RTE_FLOW_ITEM_TYPE_ICMP6, 4 },
};

#define AT_FRONT(item, field) _Static_assert(offsetof(struct item, field) == 0, #item)
AT_FRONT(rte_flow_item_eth, hdr);
AT_FRONT(rte_flow_item_ipv4, hdr);
AT_FRONT(rte_flow_item_ipv6, hdr);
AT_FRONT(rte_flow_item_tcp, hdr);
AT_FRONT(rte_flow_item_udp, hdr);
AT_FRONT(rte_flow_item_sctp, hdr);
AT_FRONT(rte_flow_item_icmp, hdr);
AT_FRONT(rte_flow_item_icmp6, type);

/* A rule as DPDK takes it; what it points to is in it. */
struct form {
	struct rte_flow_attr attr;
	struct rte_flow_item items[TW_ITEMS_MAX + 1];
	struct rte_flow_action actions[4];
	union any_item specs[TW_ITEMS_MAX], masks[TW_ITEMS_MAX];
	struct rte_flow_action_mark mark;
	struct rte_flow_action_count count;
	struct rte_flow_action_queue queue;
	struct rte_flow_action_rss rss;
	uint16_t queues[QUEUES_MAX];
};

/* The words for packets in which no VLAN tag or extension header follows. */
static void stand_alone(union any_item *mask, uint8_t header)
{
	if (header == TW_ETHERNET) {
		mask->eth.has_vlan = 1;
	} else if (header == TW_IPV6) {
		mask->ipv6.has_hop_ext = 1;
		mask->ipv6.has_route_ext = 1;
		mask->ipv6.has_frag_ext = 1;
		mask->ipv6.has_auth_ext = 1;
		mask->ipv6.has_esp_ext = 1;
		mask->ipv6.has_dest_ext = 1;
		mask->ipv6.has_mobil_ext = 1;
		mask->ipv6.has_hip_ext = 1;
		mask->ipv6.has_shim6_ext = 1;
	}
}

static int is_zero(const union any_item *mask)
{
	static const union any_item zero;
	return memcmp(mask, &zero, sizeof(zero)) == 0;
}

static void put_items(struct form *form, const struct tw_flow_rule *rule)
{
	for (unsigned int at = 0; at < rule->count; at++) {
		const struct tw_flow_item *item = &rule->items[at];
		union any_item *spec = &form->specs[at], *mask = &form->masks[at];
		memcpy(spec, item->spec, headers[item->header].len);
		memcpy(mask, item->mask, headers[item->header].len);
		if (item->is_alone)
			stand_alone(mask, item->header);
		form->items[at].type = headers[item->header].type;
		/* Without both, it is any header of the kind. */
		if (!is_zero(mask)) {
			form->items[at].spec = spec;
			form->items[at].mask = mask;
		}
	}
	form->items[rule->count].type = RTE_FLOW_ITEM_TYPE_END;
}

/* Where packets go that are not dropped: to all queues, as without rules. */
static void put_queues(uint16_t port, struct form *form, struct rte_flow_action *action,
		       uint16_t queues)
{
	uint8_t key_len;
	if (queues <= 1) {
		action->type = RTE_FLOW_ACTION_TYPE_QUEUE;
		action->conf = &form->queue;
		return;
	}
	for (uint16_t queue = 0; queue < queues; queue++)
		form->queues[queue] = queue;
	form->rss.key = tw_hash(port, &form->rss.types, &key_len);
	form->rss.key_len = key_len;
	if (key_len == 0)
		form->rss.key = NULL;
	form->rss.queue = form->queues;
	form->rss.queue_num = queues;
	action->type = RTE_FLOW_ACTION_TYPE_RSS;
	action->conf = &form->rss;
}

/* Fills a form; says whether the rule can be one. */
static int put(uint16_t port, struct form *form, const struct tw_flow_rule *rule)
{
	struct rte_flow_action *action = form->actions;
	memset(form, 0, sizeof(*form));
	if (rule->count == 0 || rule->count > TW_ITEMS_MAX || rule->queues > QUEUES_MAX)
		return -EINVAL;
	for (unsigned int at = 0; at < rule->count; at++)
		if (rule->items[at].header >= TW_HEADERS)
			return -EINVAL;
	form->attr.ingress = 1;
	form->attr.priority = rule->priority;
	put_items(form, rule);
	if (rule->counts) {
		action->type = RTE_FLOW_ACTION_TYPE_COUNT;
		action++->conf = &form->count;
	}
	if (rule->marks) {
		form->mark.id = rule->mark;
		action->type = RTE_FLOW_ACTION_TYPE_MARK;
		action++->conf = &form->mark;
	}
	if (rule->drops)
		action->type = RTE_FLOW_ACTION_TYPE_DROP;
	else
		put_queues(port, form, action, rule->queues);
	action[1].type = RTE_FLOW_ACTION_TYPE_END;
	return 0;
}

/* The driver's words, or those of the error. */
static void put_words(struct tw_text text, const struct rte_flow_error *error, int result)
{
	const char *words = error->message != NULL ? error->message : rte_strerror(-result);
	snprintf(text.at, text.size, "%s", words);
}

int tw_flow_check(uint16_t port, const struct tw_flow_rule *rule, struct tw_text text)
{
	struct form form;
	struct rte_flow_error error = { .type = RTE_FLOW_ERROR_TYPE_NONE };
	int result = put(port, &form, rule);
	if (result == 0)
		result = rte_flow_validate(port, &form.attr, form.items, form.actions, &error);
	if (result != 0)
		put_words(text, &error, result);
	return result;
}

void *tw_flow_make(uint16_t port, const struct tw_flow_rule *rule, struct tw_text text)
{
	struct form form;
	struct rte_flow_error error = { .type = RTE_FLOW_ERROR_TYPE_NONE };
	int result = put(port, &form, rule);
	struct rte_flow *flow = NULL;
	if (result == 0) {
		flow = rte_flow_create(port, &form.attr, form.items, form.actions, &error);
		result = -rte_errno;
	}
	if (flow == NULL)
		put_words(text, &error, result);
	return flow;
}

int tw_flow_end(uint16_t port, void *flow)
{
	struct rte_flow_error error = { .type = RTE_FLOW_ERROR_TYPE_NONE };
	return rte_flow_destroy(port, flow, &error);
}

int tw_flow_count(uint16_t port, void *flow, uint64_t *packets)
{
	struct rte_flow_query_count count = { .reset = 0 };
	const struct rte_flow_action actions[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_COUNT },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_error error = { .type = RTE_FLOW_ERROR_TYPE_NONE };
	int result = rte_flow_query(port, flow, actions, &count, &error);
	if (result == 0 && !count.hits_set)
		result = -ENODATA;
	*packets = result == 0 ? count.hits : 0;
	return result;
}
