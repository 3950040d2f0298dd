/* Many statements in flight from a thread that has its own event loop: it polls one descriptor for all of them.
 *
 *     cc event_loop.c $(pkg-config --cflags --libs cenote) -o event_loop && ./event_loop postgres://user@localhost/database */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cenote_block.h"

enum { QUERIES = 10000, IN_FLIGHT_MAX = 256 };

static uint64_t buffer[8192];
static uint64_t asked, answered, failed;
static int64_t sum;

static void stop(const char *what, int32_t status) {
    fprintf(stderr, "%s: status %" PRId32 "\n", what, status);
    exit(EXIT_FAILURE);
}

/* Tags are ours: a real program has the number of its request here. */
static void ask(uint64_t context, uint64_t pool) {
    static const char sql[] = "select id from world where id = $1";
    while (asked < QUERIES && asked - answered < IN_FLIGHT_MAX) {
        const cenote_value id = cenote_int((int64_t)asked + 1);
        int32_t status = cenote_query(context, pool, sql, strlen(sql), &id, 1, 0, 0, asked);
        if (status != CENOTE_OK) {
            stop("query", status);
        }
        asked++;
    }
}

static void receive(const cenote_completion *completion) {
    int64_t id;
    answered++;
    if (completion->status == CENOTE_OK
        && cenote_block_int(cenote_completion_block(completion, buffer), 0, 0, &id)
        && id == (int64_t)completion->tag + 1) {
        sum += id;
    } else {
        failed++;
    }
    cenote_completion_free(completion);
}

/* Takes all that has come, many at once. */
static void drain(uint64_t context) {
    const cenote_completion *completions = (const cenote_completion *)buffer;
    int32_t more = 1;
    while (more) {
        uint32_t count = 0;
        int32_t status = cenote_drain(context, buffer, sizeof buffer, &count, &more);
        if (status != CENOTE_OK) {
            stop("drain", status);
        }
        for (uint32_t number = 0; number < count; number++) {
            receive(&completions[number]);
        }
    }
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "postgres://localhost/";
    const cenote_context_options options = {.size = sizeof options, .wake = CENOTE_WAKE_EVENTFD};
    uint64_t context = 0, pool = 0;
    struct pollfd polled = {.events = POLLIN};
    int32_t status = cenote_context_new(&options, &context);
    if (status == CENOTE_OK) {
        status = cenote_context_fd(context, &polled.fd);
    }
    if (status == CENOTE_OK) {
        status = cenote_pool_open(context, url, strlen(url), &pool, NULL);
    }
    if (status != CENOTE_OK) {
        stop("open", status);
    }

    while (answered < QUERIES) {
        ask(context, pool);
        /* Here are other descriptors, too, and timers. */
        if (poll(&polled, 1, -1) > 0) {
            drain(context);
        }
    }

    cenote_context_free(context);
    printf("%" PRIu64 " answers, %" PRIu64 " failed, sum %" PRId64 "\n", answered, failed, sum);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
