/* The frames of the packet pool as DPDK's mbufs: one for each frame for ever, in a mempool that takes
 * from and gives to the packet pool, with buffers that are external and pinned. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_memory.h>
#include <rte_mempool.h>

#include "dpdk.h"

/* Frames that a thread keeps in DPDK's cache; half as many again at most.
 * PERF: see docs/adr/0017-dpdk.md. */
#define CACHE_LEN 256

/* What sys.rs reads and writes itself. */
#define PLACED(field, place) \
	_Static_assert(offsetof(struct rte_mbuf, field) == (place), #field " is elsewhere: see sys.rs")
PLACED(data_off, 16);
PLACED(refcnt, 18);
PLACED(nb_segs, 20);
PLACED(ol_flags, 24);
PLACED(pkt_len, 36);
PLACED(data_len, 40);
PLACED(hash.fdir.hi, 48);
_Static_assert(sizeof(struct rte_mbuf) == 128, "an mbuf has another size: see sys.rs");
_Static_assert(RTE_MBUF_F_EXTERNAL == 1ULL << 61, "another flag: see sys.rs");
_Static_assert(RTE_MBUF_F_RX_FDIR_ID == 1ULL << 13, "another flag: see sys.rs");
_Static_assert(RTE_PKTMBUF_HEADROOM == 128, "head room differs from the packet pool's");

static struct tw_frames pool_frames;

static int frames_alloc(struct rte_mempool *pool)
{
	(void)pool;
	return 0;
}

static void frames_free(struct rte_mempool *pool)
{
	(void)pool;
}

static int frames_enqueue(struct rte_mempool *pool, void *const *mbufs, unsigned int count)
{
	(void)pool;
	pool_frames.give(mbufs, count);
	return 0;
}

static int frames_dequeue(struct rte_mempool *pool, void **mbufs, unsigned int count)
{
	(void)pool;
	return pool_frames.take(mbufs, count);
}

/* Only for dumps: others use the packet pool, too. */
static unsigned int frames_count(const struct rte_mempool *pool)
{
	return pool->size;
}

/* Lays the objects side by side: that one of them crosses a page does not matter, since no device sees
 * them. They are not reported as free, since the packet pool has the frames. */
static int frames_populate(struct rte_mempool *pool, unsigned int max, void *at, rte_iova_t iova,
			   size_t len, rte_mempool_populate_obj_cb_t *add, void *arg)
{
	size_t stride = (size_t)pool->header_size + pool->elt_size + pool->trailer_size;
	unsigned int number;
	if (stride != TW_MBUF_STRIDE || pool->header_size != TW_MBUF_FIRST)
		return -EINVAL;
	for (number = 0; number < max && (number + 1) * stride <= len; number++) {
		size_t place = number * stride + TW_MBUF_FIRST;
		add(pool, arg, (char *)at + place, iova + place);
	}
	return (int)number;
}

static const struct rte_mempool_ops frames_ops = {
	.name = "thruway",
	.alloc = frames_alloc,
	.free = frames_free,
	.enqueue = frames_enqueue,
	.dequeue = frames_dequeue,
	.get_count = frames_count,
	.populate = frames_populate,
};

/* Where an mbuf has the count that DPDK wants for an external buffer. In the mbuf's second line, which
 * freeing reads anyway: a line of its own would be a third one. */
static const struct rte_mbuf_dynfield count_field = {
	.name = "thruway_extbuf",
	.size = sizeof(struct rte_mbuf_ext_shared_info),
	.align = __alignof__(struct rte_mbuf_ext_shared_info),
};

struct making {
	const struct tw_memory *memory;
	int count_offset;
	int is_wrong;
};

static void pinned_free(void *address, void *opaque)
{
	struct rte_mbuf *mbuf = opaque;
	(void)address;
	rte_mbuf_ext_refcnt_set(mbuf->shinfo, 1);
	mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
	rte_mbuf_raw_free(mbuf);
}

static void mbuf_make(struct rte_mempool *pool, void *arg, void *object, unsigned int number)
{
	struct making *making = arg;
	const struct tw_memory *memory = making->memory;
	struct rte_mbuf *mbuf = object;
	char *expected = (char *)memory->mbufs + TW_MBUF_FIRST + (size_t)number * TW_MBUF_STRIDE;
	if ((char *)object != expected) {
		making->is_wrong = 1;
		return;
	}
	memset(mbuf, 0, sizeof(*mbuf));
	mbuf->buf_addr = (char *)memory->region + memory->first + (size_t)number * memory->stride;
	rte_mbuf_iova_set(mbuf, (rte_iova_t)(uintptr_t)mbuf->buf_addr);
	mbuf->buf_len = (uint16_t)memory->stride;
	mbuf->data_off = RTE_PKTMBUF_HEADROOM;
	mbuf->pool = pool;
	mbuf->nb_segs = 1;
	mbuf->port = RTE_MBUF_PORT_INVALID;
	mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
	rte_mbuf_refcnt_set(mbuf, 1);
	struct rte_mbuf_ext_shared_info *count = RTE_MBUF_DYNFIELD(
		mbuf, making->count_offset, struct rte_mbuf_ext_shared_info *);
	count->free_cb = pinned_free;
	count->fcb_opaque = mbuf;
	rte_mbuf_ext_refcnt_set(count, 1);
	mbuf->shinfo = count;
}

/* Registers the frames' memory with DPDK; IOVAs are virtual addresses. */
static int memory_register(const struct tw_memory *memory)
{
	unsigned int pages = memory->region_len / memory->page_len;
	rte_iova_t *iovas = calloc(pages, sizeof(*iovas));
	if (iovas == NULL) {
		rte_errno = ENOMEM;
		return -1;
	}
	for (unsigned int page = 0; page < pages; page++)
		iovas[page] = (uintptr_t)memory->region + page * memory->page_len;
	int result = rte_extmem_register(memory->region, memory->region_len, iovas, pages,
					 memory->page_len);
	free(iovas);
	return result;
}

static struct rte_mempool *pool_fill(struct rte_mempool *pool, const struct tw_memory *memory)
{
	struct rte_pktmbuf_pool_private private = {
		.mbuf_data_room_size = (uint16_t)memory->stride,
		.flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF,
	};
	struct making making = { .memory = memory };
	making.count_offset = rte_mbuf_dynfield_register(&count_field);
	if (making.count_offset < 0 || rte_mempool_set_ops_byname(pool, frames_ops.name, NULL) != 0)
		return NULL;
	rte_pktmbuf_pool_init(pool, &private);
	int made = rte_mempool_populate_iova(pool, memory->mbufs, (uintptr_t)memory->mbufs,
					     memory->mbufs_len, NULL, NULL);
	if (made != (int)memory->count) {
		rte_errno = made < 0 ? -made : EINVAL;
		return NULL;
	}
	rte_mempool_obj_iter(pool, mbuf_make, &making);
	if (making.is_wrong) {
		rte_errno = EINVAL;
		return NULL;
	}
	return pool;
}

void *tw_frames_pool(const struct tw_memory *memory, struct tw_frames frames, struct tw_text text)
{
	const char *step = "rte_extmem_register";
	struct rte_mempool *pool = NULL;
	int is_known = 0;
	if (memory_register(memory) != 0)
		goto failed;
	step = "rte_mempool_register_ops";
	pool_frames = frames;
	int ops = rte_mempool_register_ops(&frames_ops);
	if (ops < 0 && ops != -EEXIST) {
		rte_errno = -ops;
		goto failed;
	}
	is_known = 1;
	step = "rte_mempool_create_empty";
	pool = rte_mempool_create_empty("thruway", memory->count, sizeof(struct rte_mbuf), CACHE_LEN,
					sizeof(struct rte_pktmbuf_pool_private), SOCKET_ID_ANY,
					RTE_MEMPOOL_F_NO_SPREAD);
	if (pool == NULL)
		goto failed;
	step = "rte_mempool_populate_iova";
	if (pool_fill(pool, memory) != NULL)
		return pool;
failed:
	snprintf(text.at, text.size, "%s: %s", step, rte_strerror(rte_errno));
	rte_mempool_free(pool);
	if (is_known)
		rte_extmem_unregister(memory->region, memory->region_len);
	return NULL;
}

void tw_free(void *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

uint32_t tw_copy(const void *mbuf, void *to, uint32_t size)
{
	const struct rte_mbuf *segment = mbuf;
	uint32_t len = segment->pkt_len, done = 0;
	if (len > size)
		return len;
	for (; segment != NULL && done < len; segment = segment->next) {
		uint32_t part = RTE_MIN((uint32_t)segment->data_len, len - done);
		memcpy((char *)to + done, rte_pktmbuf_mtod(segment, const char *), part);
		done += part;
	}
	return done;
}
