/* cenote by way of its C ABI, as a contender of the driver benchmark: many callers on a few threads, each waiting for one
 * one-row lookup at a time.
 *
 *   callers URL CALLERS THREADS SECONDS
 *
 * It prints what a turn prints: one line of JSON. A wrong row or an error ends it with a sentence and no figures. */

#define _GNU_SOURCE

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cenote_block.h"

enum { ROWS = 10000, BUFFER_BYTES = 256 * 1024, WARM_UP_MS = 500, WAIT_MS = 30000 };

static const char LOOK_UP[] = "select id, randomnumber from world where id = $1";
static const char LOOK_UP_MYSQL[] = "select id, randomnumber from world where id = ?";
static const char ALL[] = "select id, randomnumber from world";

struct share {
    uint64_t pool;
    uint64_t callers;
    uint64_t seed;
    const char *look_up;
    atomic_ullong answered;
};

static int32_t numbers[ROWS + 1];
static atomic_bool is_over;

static void fail(const char *what) {
    fprintf(stderr, "cenote-bench: %s\n", what);
    exit(1);
}

static void fail_with(const cenote_completion *completion) {
    const char *text = NULL;
    size_t length = 0;
    if (completion->flags & CENOTE_COMPLETION_ERROR) {
        cenote_error_field(completion->handle, CENOTE_FIELD_MESSAGE, &text, &length);
    }
    fprintf(stderr, "cenote-bench: status %d: %.*s\n", (int)completion->status, (int)length, text);
    exit(1);
}

/* xorshift: cheap, and other ids for each thread. */
static int32_t next_id(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (int32_t)(*state % ROWS) + 1;
}

static void submit(const struct share *share, uint64_t context, int32_t id, uint64_t tag) {
    cenote_value value = cenote_int(id);
    int32_t status = cenote_query(
        context, share->pool, share->look_up, strlen(share->look_up), &value, 1, 0, 0, tag);
    if (status != CENOTE_OK) {
        fail("a statement was not taken");
    }
}

static void read_row(const cenote_block *block, uint32_t row, int64_t *id, int64_t *number) {
    if (!cenote_block_int(block, row, 0, id) || !cenote_block_int(block, row, 1, number) || *id < 1 || *id > ROWS) {
        fail("a row that cannot be read");
    }
}

static void *call(void *argument) {
    struct share *share = argument;
    uint64_t context, state = share->seed * 0x9E3779B97F4A7C15u + 1, in_flight = 0;
    int32_t *asked = calloc(share->callers, sizeof *asked);
    void *buffer = aligned_alloc(64, BUFFER_BYTES);
    if (asked == NULL || buffer == NULL || cenote_context_new(NULL, &context) != CENOTE_OK) {
        fail("no context");
    }
    for (; in_flight < share->callers; in_flight++) {
        asked[in_flight] = next_id(&state);
        submit(share, context, asked[in_flight], in_flight);
    }
    while (in_flight > 0) {
        uint32_t count = 0, at;
        int32_t more = 0;
        bool over = atomic_load_explicit(&is_over, memory_order_relaxed);
        if (cenote_wait(context, WAIT_MS, buffer, BUFFER_BYTES, &count, &more) != CENOTE_OK || count == 0) {
            fail("no answer came");
        }
        for (at = 0; at < count; at++) {
            const cenote_completion *completion = (const cenote_completion *)buffer + at;
            const cenote_block *block = cenote_completion_block(completion, buffer);
            int64_t id, number;
            if (completion->status != CENOTE_OK) {
                fail_with(completion);
            }
            if (cenote_block_rows(block) != 1) {
                fail("not one row");
            }
            read_row(block, 0, &id, &number);
            if (id != asked[completion->tag] || number != numbers[id]) {
                fail("a wrong row");
            }
            if (over) {
                in_flight--;
            } else {
                asked[completion->tag] = next_id(&state);
                submit(share, context, asked[completion->tag], completion->tag);
            }
        }
        atomic_fetch_add_explicit(&share->answered, count, memory_order_relaxed);
    }
    cenote_context_free(context);
    free(buffer);
    free(asked);
    return NULL;
}

static void load_world(uint64_t pool) {
    uint64_t context;
    uint32_t count = 0, row;
    int32_t more = 0;
    void *buffer = aligned_alloc(64, BUFFER_BYTES);
    const cenote_completion *completion = buffer;
    const cenote_block *block;
    if (buffer == NULL || cenote_context_new(NULL, &context) != CENOTE_OK) {
        fail("no context");
    }
    cenote_query(context, pool, ALL, sizeof ALL - 1, NULL, 0, 0, 0, 0);
    if (cenote_wait(context, WAIT_MS, buffer, BUFFER_BYTES, &count, &more) != CENOTE_OK || count != 1) {
        fail("the table did not come");
    }
    if (completion->status != CENOTE_OK) {
        fail_with(completion);
    }
    block = cenote_completion_block(completion, buffer);
    for (row = 0; row < cenote_block_rows(block); row++) {
        int64_t id, number;
        read_row(block, row, &id, &number);
        numbers[id] = (int32_t)number;
    }
    cenote_completion_free(completion);
    cenote_context_free(context);
    free(buffer);
}

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static unsigned long long answered(struct share *shares, unsigned threads) {
    unsigned long long sum = 0;
    unsigned at;
    for (at = 0; at < threads; at++) {
        sum += atomic_load_explicit(&shares[at].answered, memory_order_relaxed);
    }
    return sum;
}

int main(int count, char **arguments) {
    unsigned threads, callers, at;
    double window, began, seconds;
    unsigned long long before, after;
    uint64_t pool, error = 0;
    struct share *shares;
    pthread_t *ids;
    struct rusage usage_before, usage_after;
    cenote_pool_counters stats_before = {.size = sizeof stats_before}, stats_after = {.size = sizeof stats_after};
    if (count != 5) {
        fail("callers URL CALLERS THREADS SECONDS");
    }
    callers = (unsigned)strtoul(arguments[2], NULL, 10);
    threads = (unsigned)strtoul(arguments[3], NULL, 10);
    window = strtod(arguments[4], NULL);
    if (callers == 0 || threads == 0 || callers < threads || !(window > 0)) {
        fail("a number that makes no sense");
    }
    if (cenote_pool_open(0, arguments[1], strlen(arguments[1]), &pool, &error) != CENOTE_OK) {
        cenote_completion failed = {.status = CENOTE_ERR_ARGUMENT, .flags = CENOTE_COMPLETION_ERROR, .handle = error};
        fail_with(&failed);
    }
    load_world(pool);
    shares = calloc(threads, sizeof *shares);
    ids = calloc(threads, sizeof *ids);
    if (shares == NULL || ids == NULL) {
        fail("no memory");
    }
    for (at = 0; at < threads; at++) {
        shares[at].pool = pool;
        shares[at].callers = callers / threads + (at < callers % threads);
        shares[at].seed = at;
        shares[at].look_up = strncmp(arguments[1], "mysql", 5) == 0 ? LOOK_UP_MYSQL : LOOK_UP;
        if (pthread_create(&ids[at], NULL, call, &shares[at]) != 0) {
            fail("no thread");
        }
    }
    usleep(WARM_UP_MS * 1000);
    cenote_pool_stats(pool, &stats_before);
    getrusage(RUSAGE_SELF, &usage_before);
    before = answered(shares, threads);
    began = now();
    usleep((useconds_t)(window * 1e6));
    after = answered(shares, threads);
    seconds = now() - began;
    getrusage(RUSAGE_SELF, &usage_after);
    cenote_pool_stats(pool, &stats_after);
    atomic_store(&is_over, true);
    for (at = 0; at < threads; at++) {
        pthread_join(ids[at], NULL);
    }
    cenote_pool_free(pool);
    printf(
        "{\"seconds\":%f,\"queries\":%llu,\"user_s\":%f,\"system_s\":%f,\"allocations\":null,"
        "\"socket_calls\":{\"writes\":%llu,\"reads\":%llu}}\n",
        seconds, after - before, seconds_of(usage_after.ru_utime) - seconds_of(usage_before.ru_utime),
        seconds_of(usage_after.ru_stime) - seconds_of(usage_before.ru_stime),
        (unsigned long long)(stats_after.writes - stats_before.writes),
        (unsigned long long)(stats_after.reads - stats_before.reads));
    return 0;
}
