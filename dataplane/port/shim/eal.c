/* The environment abstraction layer: its start, its log, its threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mempool.h>
#include <rte_version.h>

#include "dpdk.h"

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "DPDK is too old: Thruway needs 22.11 (tested) to 24.11; install a newer libdpdk-dev, or build without the feature dpdk"
#elif RTE_VERSION >= RTE_VERSION_NUM(25, 0, 0, 0)
#error "this DPDK is not supported yet: Thruway knows 22.11 (tested) to 24.11; take one of these, or build without the feature dpdk"
#endif

const char *tw_version(void)
{
	return rte_version();
}

/* The end of the log since the last query. */
static char log_text[8192];
static size_t log_len;
static int log_shown;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t log_write(void *cookie, const char *bytes, size_t len)
{
	(void)cookie;
	pthread_mutex_lock(&log_lock);
	if (log_shown)
		fwrite(bytes, 1, len, stderr);
	size_t kept = len < sizeof(log_text) ? len : sizeof(log_text);
	if (log_len + kept > sizeof(log_text)) {
		size_t old = sizeof(log_text) - kept;
		memmove(log_text, log_text + log_len - old, old);
		log_len = old;
	}
	memcpy(log_text + log_len, bytes + len - kept, kept);
	log_len += kept;
	pthread_mutex_unlock(&log_lock);
	return (ssize_t)len;
}

void tw_log_take(struct tw_text text)
{
	pthread_mutex_lock(&log_lock);
	size_t len = log_len < text.size - 1 ? log_len : text.size - 1;
	memcpy(text.at, log_text + log_len - len, len);
	text.at[len] = 0;
	log_len = 0;
	pthread_mutex_unlock(&log_lock);
}

void tw_log_show(int show)
{
	pthread_mutex_lock(&log_lock);
	log_shown = show;
	pthread_mutex_unlock(&log_lock);
}

/* The standard outputs, while the EAL has others: a wrong argument makes it print its manual. */
struct outputs {
	int memory, out, err;
};

static int outputs_divert(struct outputs *kept)
{
	fflush(stdout);
	fflush(stderr);
	kept->memory = memfd_create("dpdk", MFD_CLOEXEC);
	kept->out = dup(STDOUT_FILENO);
	kept->err = dup(STDERR_FILENO);
	if (kept->memory < 0)
		return -1;
	dup2(kept->memory, STDOUT_FILENO);
	dup2(kept->memory, STDERR_FILENO);
	return 0;
}

static void outputs_restore(struct outputs *kept, struct tw_text text)
{
	fflush(stdout);
	fflush(stderr);
	if (kept->out >= 0)
		dup2(kept->out, STDOUT_FILENO);
	else
		close(STDOUT_FILENO);
	if (kept->err >= 0)
		dup2(kept->err, STDERR_FILENO);
	else
		close(STDERR_FILENO);
	close(kept->out);
	close(kept->err);
	ssize_t len = pread(kept->memory, text.at, text.size - 1, 0);
	text.at[len > 0 ? len : 0] = 0;
	close(kept->memory);
}

int tw_eal_start(int argc, char **argv, struct tw_text text)
{
	static const cookie_io_functions_t functions = { .write = log_write };
	FILE *log = fopencookie(NULL, "w", functions);
	if (log != NULL) {
		setvbuf(log, NULL, _IOLBF, 0);
		rte_openlog_stream(log);
	}
	struct outputs kept;
	int is_diverted = outputs_divert(&kept) == 0;
	int result = rte_eal_init(argc, argv);
	int error = rte_errno;
	text.at[0] = 0;
	if (is_diverted)
		outputs_restore(&kept, text);
	if (result >= 0)
		return 0;
	return error > 0 ? -error : -EIO;
}

int tw_iova_is_va(void)
{
	return rte_eal_iova_mode() == RTE_IOVA_VA;
}

int tw_thread_register(void)
{
	return rte_thread_register() == 0 ? 0 : -rte_errno;
}

void tw_cache_flush(void *pool)
{
	struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, rte_lcore_id());
	if (cache != NULL)
		rte_mempool_cache_flush(cache, pool);
}

void tw_thread_unregister(void)
{
	rte_thread_unregister();
}
