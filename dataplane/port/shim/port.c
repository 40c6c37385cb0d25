/* Ports: finding, starting, asking, closing; bursts in and out. */
#define ALLOW_EXPERIMENTAL_API /* rte_dev_dma_map, which has been that since 2018 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "dpdk.h"

/* What packets are spread over queues by. */
#define HASHED (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP)
#define KEY_LEN_MAX 128
#define RETA_SIZE_MAX 2048

int tw_port_find(const char *name)
{
	uint16_t port;
	return rte_eth_dev_get_port_by_name(name, &port) == 0 ? port : -1;
}

int tw_port_is_valid(uint16_t port)
{
	return rte_eth_dev_is_valid_port(port);
}

int tw_port_probe(const char *device)
{
	return rte_dev_probe(device);
}

int tw_port_info(uint16_t port, struct tw_port_info *info_out)
{
	struct rte_eth_dev_info info;
	memset(info_out, 0, sizeof(*info_out));
	int result = rte_eth_dev_info_get(port, &info);
	if (result != 0)
		return result;
	char name[RTE_ETH_NAME_MAX_LEN];
	if (rte_eth_dev_get_name_by_port(port, name) == 0)
		snprintf(info_out->name, sizeof(info_out->name), "%s", name);
	snprintf(info_out->driver, sizeof(info_out->driver), "%s", info.driver_name);
	struct rte_ether_addr mac;
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(info_out->mac, mac.addr_bytes, sizeof(info_out->mac));
	info_out->can_check = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0;
	info_out->rx_queues_max = info.max_rx_queues;
	info_out->tx_queues_max = info.max_tx_queues;
	info_out->rx_queues = info.nb_rx_queues;
	info_out->tx_queues = info.nb_tx_queues;
	rte_eth_dev_get_mtu(port, &info_out->mtu);
	info_out->mtu_max = info.max_mtu;
	info_out->reta_size = info.reta_size;
	info_out->hashes = (info.flow_type_rss_offloads & HASHED) != 0;
	info_out->node = (int16_t)rte_eth_dev_socket_id(port);
	return 0;
}

static int said(struct tw_text text, const char *step, int result)
{
	snprintf(text.at, text.size, "%s: %s", step, rte_strerror(result < 0 ? -result : result));
	return result < 0 ? result : -result;
}

/* Every queue gets as large a share of the table as another. */
static int spread(uint16_t port, uint16_t size, uint16_t queues)
{
	struct rte_eth_rss_reta_entry64 table[RETA_SIZE_MAX / RTE_ETH_RETA_GROUP_SIZE];
	if (size == 0 || size > RETA_SIZE_MAX)
		return 0;
	memset(table, 0, sizeof(table));
	for (uint16_t at = 0; at < size; at++) {
		struct rte_eth_rss_reta_entry64 *group = &table[at / RTE_ETH_RETA_GROUP_SIZE];
		group->mask |= 1ULL << (at % RTE_ETH_RETA_GROUP_SIZE);
		group->reta[at % RTE_ETH_RETA_GROUP_SIZE] = at % queues;
	}
	return rte_eth_dev_rss_reta_update(port, table, size);
}

static uint16_t slots_liked(uint16_t by_driver)
{
	return by_driver != 0 ? by_driver : 1024;
}

static int queues_set_up(uint16_t port, const struct tw_port_conf *conf,
			 const struct rte_eth_dev_info *info, struct tw_port_conf *slots, void *pool,
			 struct tw_text text)
{
	int node = rte_eth_dev_socket_id(port);
	for (uint16_t queue = 0; queue < conf->rx_queues; queue++) {
		struct rte_eth_rxconf rx = info->default_rxconf;
		int result = rte_eth_rx_queue_setup(port, queue, slots->rx_slots, node, &rx, pool);
		if (result != 0)
			return said(text, "rte_eth_rx_queue_setup", result);
	}
	for (uint16_t queue = 0; queue < conf->tx_queues; queue++) {
		struct rte_eth_txconf tx = info->default_txconf;
		int result = rte_eth_tx_queue_setup(port, queue, slots->tx_slots, node, &tx);
		if (result != 0)
			return said(text, "rte_eth_tx_queue_setup", result);
	}
	return 0;
}

const uint8_t *tw_hash(uint16_t port, uint64_t *types, uint8_t *key_len)
{
	/* Toeplitz with a key that repeats every 16 bits gives both directions the same sum. */
	static uint8_t key[KEY_LEN_MAX];
	struct rte_eth_dev_info info;
	*types = 0;
	*key_len = 0;
	for (unsigned int at = 0; at < sizeof(key); at++)
		key[at] = at % 2 == 0 ? 0x6d : 0x5a;
	if (rte_eth_dev_info_get(port, &info) != 0)
		return key;
	*types = info.flow_type_rss_offloads & HASHED;
	if (info.hash_key_size <= KEY_LEN_MAX)
		*key_len = info.hash_key_size;
	return key;
}

int tw_port_start(uint16_t port, const struct tw_port_conf *conf, void *pool,
		  const struct tw_memory *memory, struct tw_text text)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf eth;
	memset(&eth, 0, sizeof(eth));
	int result = rte_eth_dev_info_get(port, &info);
	if (result != 0)
		return said(text, "rte_eth_dev_info_get", result);
	uint64_t hashed;
	uint8_t key_len;
	const uint8_t *key = tw_hash(port, &hashed, &key_len);
	int is_hashing = conf->rx_queues > 1 && hashed != 0;
	if (is_hashing) {
		eth.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		eth.rx_adv_conf.rss_conf.rss_hf = hashed;
		if (key_len > 0) {
			eth.rx_adv_conf.rss_conf.rss_key = (uint8_t *)(uintptr_t)key;
			eth.rx_adv_conf.rss_conf.rss_key_len = key_len;
		}
	}
	/* Rules may mark packets. Some drivers want to know it before; most do not know the question. */
	uint64_t metadata = RTE_ETH_RX_METADATA_USER_MARK;
	rte_eth_rx_metadata_negotiate(port, &metadata);
	if (conf->checks)
		eth.rxmode.offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM & info.rx_offload_capa;
	uint16_t mtu = conf->mtu;
	if (mtu != 0 || rte_eth_dev_get_mtu(port, &mtu) == 0)
		eth.rxmode.mtu = mtu;
	/* A device that sees only what is mapped for it; one that is none says that it cannot. */
	if (rte_dev_dma_map(info.device, memory->region, (uintptr_t)memory->region,
			    memory->region_len) != 0 &&
	    rte_errno != ENOTSUP && rte_errno != EEXIST)
		return said(text, "rte_dev_dma_map", rte_errno);
	result = rte_eth_dev_configure(port, conf->rx_queues, conf->tx_queues, &eth);
	if (result != 0)
		return said(text, "rte_eth_dev_configure", result);
	struct tw_port_conf slots = *conf;
	if (slots.rx_slots == 0)
		slots.rx_slots = slots_liked(info.default_rxportconf.ring_size);
	if (slots.tx_slots == 0)
		slots.tx_slots = slots_liked(info.default_txportconf.ring_size);
	result = rte_eth_dev_adjust_nb_rx_tx_desc(port, &slots.rx_slots, &slots.tx_slots);
	if (result != 0)
		return said(text, "rte_eth_dev_adjust_nb_rx_tx_desc", result);
	result = queues_set_up(port, conf, &info, &slots, pool, text);
	if (result != 0)
		return result;
	if (conf->mtu != 0) {
		result = rte_eth_dev_set_mtu(port, conf->mtu);
		if (result != 0 && result != -ENOTSUP)
			return said(text, "rte_eth_dev_set_mtu", result);
	}
	result = rte_eth_dev_start(port);
	if (result != 0)
		return said(text, "rte_eth_dev_start", result);
	if (is_hashing)
		spread(port, info.reta_size, conf->rx_queues);
	/* Not every driver knows the word; those that do not receive everything. */
	if (conf->promiscuous)
		rte_eth_promiscuous_enable(port);
	else
		rte_eth_promiscuous_disable(port);
	return 0;
}

int tw_port_restart(uint16_t port)
{
	return rte_eth_dev_start(port);
}

void tw_port_stop(uint16_t port)
{
	rte_eth_dev_stop(port);
}

void tw_port_close(uint16_t port, int remove)
{
	struct rte_eth_dev_info info;
	int is_known = rte_eth_dev_info_get(port, &info) == 0;
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
	if (remove && is_known && info.device != NULL)
		rte_dev_remove(info.device);
}

void tw_port_link(uint16_t port, struct tw_link *info_out)
{
	struct rte_eth_link link;
	memset(info_out, 0, sizeof(*info_out));
	memset(&link, 0, sizeof(link));
	if (rte_eth_link_get_nowait(port, &link) != 0)
		return;
	info_out->mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
	info_out->is_up = link.link_status == RTE_ETH_LINK_UP;
	info_out->is_full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
}

void tw_port_counts(uint16_t port, struct tw_counts *info_out)
{
	struct rte_eth_stats stats;
	memset(info_out, 0, sizeof(*info_out));
	if (rte_eth_stats_get(port, &stats) != 0)
		return;
	info_out->in = stats.ipackets;
	info_out->out = stats.opackets;
	info_out->in_bytes = stats.ibytes;
	info_out->out_bytes = stats.obytes;
	info_out->missed = stats.imissed;
	info_out->in_errors = stats.ierrors;
	info_out->out_errors = stats.oerrors;
	info_out->no_mbuf = stats.rx_nombuf;
}

int tw_port_xstats(uint16_t port, struct tw_xstat *info_out, unsigned int max)
{
	int count = rte_eth_xstats_get_names(port, NULL, 0);
	if (count <= 0 || max == 0)
		return count < 0 ? 0 : count;
	struct rte_eth_xstat_name *names = calloc(count, sizeof(*names));
	struct rte_eth_xstat *values = calloc(count, sizeof(*values));
	int got = 0;
	if (names != NULL && values != NULL &&
	    rte_eth_xstats_get_names(port, names, count) == count) {
		got = rte_eth_xstats_get(port, values, count);
		if (got > count)
			got = count;
		for (int at = 0; at < got && at < (int)max; at++) {
			uint64_t id = values[at].id;
			if (id >= (uint64_t)count)
				continue;
			snprintf(info_out[at].name, sizeof(info_out[at].name), "%s", names[id].name);
			info_out[at].value = values[at].value;
		}
	}
	free(names);
	free(values);
	return got < 0 ? 0 : got;
}

uint16_t tw_rx(uint16_t port, uint16_t queue, void **mbufs, uint16_t max)
{
	return rte_eth_rx_burst(port, queue, (struct rte_mbuf **)mbufs, max);
}

uint16_t tw_tx(uint16_t port, uint16_t queue, void **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, (struct rte_mbuf **)mbufs, count);
}
