/* One statement at a time: ask, wait, read.
 *
 *     cc blocking.c $(pkg-config --cflags --libs cenote) -o blocking && ./blocking postgres://user@localhost/database */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cenote_block.h"

/* What completions are drained into, with their rows where these are few. */
static uint64_t buffer[8192];

static int fail(const char *what, int32_t status, uint64_t error) {
    const char *message = "";
    size_t length = 0;
    cenote_error_field(error, CENOTE_FIELD_MESSAGE, &message, &length);
    fprintf(stderr, "%s: status %" PRId32 ": %.*s\n", what, status, (int)length, message);
    cenote_error_free(error);
    return EXIT_FAILURE;
}

/* Waits for the one operation that is under way. */
static cenote_completion next_completion(uint64_t context) {
    cenote_completion completion;
    uint32_t count = 0;
    int32_t more;
    while (count == 0) {
        int32_t status = cenote_wait(context, 1000, buffer, sizeof buffer, &count, &more);
        if (status != CENOTE_OK) {
            exit(fail("wait", status, 0));
        }
    }
    memcpy(&completion, buffer, sizeof completion);
    return completion;
}

int main(int argc, char **argv) {
    static const char sql[] = "select id, randomnumber from world where id = any($1) order by id";
    const char *url = argc > 1 ? argv[1] : "postgres://localhost/";
    uint64_t context = 0, pool = 0, error = 0;
    int32_t status = cenote_context_new(NULL, &context);
    if (status != CENOTE_OK) {
        return fail("context", status, 0);
    }
    status = cenote_pool_open(context, url, strlen(url), &pool, &error);
    if (status != CENOTE_OK) {
        cenote_context_free(context);
        return fail("open", status, error);
    }

    const cenote_value ids[] = {cenote_int(7), cenote_int(8), cenote_int(9)};
    const cenote_value values[] = {cenote_list(ids, 3)};
    status = cenote_query(context, pool, sql, strlen(sql), values, 1, 0, 30000, 1);
    if (status == CENOTE_OK) {
        cenote_completion completion = next_completion(context);
        const cenote_block *block = cenote_completion_block(&completion, buffer);
        status = completion.status;
        if (status != CENOTE_OK) {
            error = completion.handle;
        } else {
            for (uint32_t row = 0; row < cenote_block_rows(block); row++) {
                int64_t id = 0, number = 0;
                cenote_block_int(block, row, 0, &id);
                cenote_block_int(block, row, 1, &number);
                printf("%" PRId64 ": %" PRId64 "\n", id, number);
            }
            cenote_completion_free(&completion);
        }
    }

    /* The pool was opened with the context, and is closed with it. */
    cenote_context_free(context);
    return status == CENOTE_OK ? EXIT_SUCCESS : fail("query", status, error);
}
