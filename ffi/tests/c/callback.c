/* A wake callback that does what it must not elsewhere: it drains, submits, waits and frees the context it is called for. */

#include <semaphore.h>

#include "host.h"

struct host {
    uint64_t context, pool;
    int rounds;
    sem_t ended;
};

/* Called on a thread that is not ours, once for what comes until the next drain. */
static void woken(void *given) {
    struct host *host = given;
    uint32_t count = 0;
    int32_t more = 1;
    while (more) {
        int32_t status = cenote_drain(host->context, buffer, sizeof buffer, &count, &more);
        CHECK_OK(status);
        for (uint32_t number = 0; number < count; number++) {
            cenote_completion *completion = (cenote_completion *)buffer + number;
            CHECK_OK(completion->status);
            cenote_completion_free(completion);
            host->rounds--;
        }
        CHECK_EQUAL(cenote_wait(host->context, 60000, buffer, sizeof buffer, &count, &more), CENOTE_ERR_BUSY);
        if (count > 0 && host->rounds > 0) {
            CHECK_OK(ask(host->context, host->pool, "select 1", (uint64_t)host->rounds));
        }
    }
    if (host->rounds == 0) {
        CHECK_OK(cenote_pool_free(host->pool));
        CHECK_OK(cenote_context_free(host->context));
        CHECK_EQUAL(cenote_context_free(host->context), CENOTE_ERR_HANDLE);
        sem_post(&host->ended);
    }
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    for (int round = 0; round < 5; round++) {
        struct host host = {.rounds = 100};
        cenote_context_options options = {
            .size = sizeof options, .wake = CENOTE_WAKE_CALLBACK, .function = woken, .data = &host};
        CHECK_EQUAL(sem_init(&host.ended, 0, 0), 0);
        CHECK_OK(cenote_context_new(&options, &host.context));
        host.pool = open_pool(0, argv[1]);
        CHECK_OK(ask(host.context, host.pool, "select 1", 1000));
        CHECK_EQUAL(sem_wait(&host.ended), 0);
        nothing_is_left();
    }
    return 0;
}
