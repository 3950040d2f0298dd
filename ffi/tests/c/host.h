/* What the C tests share: checks that say where they failed, and a host with one context. */

#ifndef HOST_H
#define HOST_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cenote_block.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

#define CHECK_EQUAL(left, right) \
    do { \
        int64_t left_value = (int64_t)(left), right_value = (int64_t)(right); \
        if (left_value != right_value) { \
            fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 "\n", __FILE__, __LINE__, #left, left_value, \
                    right_value); \
            abort(); \
        } \
    } while (0)

#define CHECK_OK(call) CHECK_EQUAL(call, CENOTE_OK)

/* What the one context of a test is drained into. */
static uint64_t buffer[16384];

static inline uint64_t new_context(void) {
    uint64_t context = 0;
    CHECK_OK(cenote_context_new(NULL, &context));
    return context;
}

static inline uint64_t open_pool(uint64_t context, const char *url) {
    uint64_t pool = 0, error = 0;
    int32_t status = cenote_pool_open(context, url, strlen(url), &pool, &error);
    if (status != CENOTE_OK) {
        const char *text = "";
        size_t length = 0;
        cenote_error_field(error, CENOTE_FIELD_MESSAGE, &text, &length);
        fprintf(stderr, "%s: %.*s\n", url, (int)length, text);
        abort();
    }
    return pool;
}

static inline int32_t ask(uint64_t context, uint64_t target, const char *sql, uint64_t tag) {
    return cenote_query(context, target, sql, strlen(sql), NULL, 0, 0, 0, tag);
}

/* Waits for as many completions as there are, at least one. */
static inline uint32_t await_some(uint64_t context) {
    uint32_t count = 0;
    int32_t more;
    while (count == 0) {
        CHECK_OK(cenote_wait(context, 60000, buffer, sizeof buffer, &count, &more));
    }
    return count;
}

/* Waits for the one that is under way. */
static inline cenote_completion await_one(uint64_t context) {
    cenote_completion completion;
    CHECK_EQUAL(await_some(context), 1);
    memcpy(&completion, buffer, sizeof completion);
    return completion;
}

/* Prints what an error says. */
static inline void print_error(uint64_t error) {
    const char *text = "";
    size_t length = 0;
    cenote_error_field(error, CENOTE_FIELD_MESSAGE, &text, &length);
    fprintf(stderr, "%.*s\n", (int)length, text);
}

/* Asks, and waits for a result. */
static inline cenote_completion answer(uint64_t context, uint64_t target, const char *sql) {
    cenote_completion completion;
    CHECK_OK(ask(context, target, sql, 77));
    completion = await_one(context);
    CHECK_EQUAL(completion.tag, 77);
    if (completion.status != CENOTE_OK) {
        print_error(completion.handle);
    }
    CHECK_OK(completion.status);
    return completion;
}

/* The same where only that there is one counts. */
static inline void works(uint64_t context, uint64_t target) {
    cenote_completion completion = answer(context, target, "select 1");
    CHECK_EQUAL(cenote_block_rows(cenote_completion_block(&completion, buffer)), 1);
    cenote_completion_free(&completion);
}

/* The library holds nothing for its host any more. */
static inline void nothing_is_left(void) {
    cenote_object_counts counts = {.size = sizeof counts};
    CHECK_OK(cenote_counts(&counts));
    CHECK_EQUAL(counts.contexts, 0);
    CHECK_EQUAL(counts.pools, 0);
    CHECK_EQUAL(counts.sessions, 0);
    CHECK_EQUAL(counts.blocks, 0);
    CHECK_EQUAL(counts.errors, 0);
    CHECK_EQUAL(counts.servers, 0);
}

static inline int is_mysql(const char *url) {
    return strncmp(url, "mysql", 5) == 0;
}

#endif
