/* A host that leaves SIGPIPE as it is, while the server is killed with much on its way to it.
 *
 * Prints "asking" when the server answers and is being asked for more; goes on until it is told by a line of input that the
 * server is gone, and then for a while. */

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "host.h"

enum { IN_FLIGHT_MAX = 64, FAILURES = 100, PARAMETER_BYTES = 100000 };

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    uint64_t context = new_context(), pool = open_pool(context, argv[1]);
    const char *sql = is_mysql(argv[1]) ? "select length(?)" : "select length($1::text)";
    char *text = malloc(PARAMETER_BYTES);
    CHECK(text != NULL);
    memset(text, 'x', PARAMETER_BYTES);
    cenote_value value = cenote_text(text, PARAMETER_BYTES);

    uint64_t asked = 0, answered = 0, failed = 0, failed_after = 0;
    int is_gone = 0;
    while (failed_after < FAILURES) {
        while (asked - answered < IN_FLIGHT_MAX) {
            CHECK_OK(cenote_query(context, pool, sql, strlen(sql), &value, 1, 0, 2000, asked++));
        }
        uint32_t count = await_some(context);
        for (uint32_t number = 0; number < count; number++) {
            const cenote_completion *completion = (const cenote_completion *)buffer + number;
            if (completion->status != CENOTE_OK) {
                CHECK(completion->status != CENOTE_ERR_PANIC);
                failed++;
                failed_after += is_gone ? 1 : 0;
            }
            cenote_completion_free(completion);
        }
        if (answered < IN_FLIGHT_MAX && answered + count >= IN_FLIGHT_MAX) {
            CHECK_EQUAL(failed, 0);
            printf("asking\n");
            fflush(stdout);
        }
        answered += count;
        struct pollfd input = {.fd = 0, .events = POLLIN};
        is_gone = is_gone || poll(&input, 1, 0) > 0;
    }
    CHECK_OK(cenote_context_free(context));
    free(text);
    nothing_is_left();
    printf("survived\n");
    return 0;
}
