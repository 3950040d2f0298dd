/* Eight threads call with handles that another thread closes meanwhile. */

#include <pthread.h>
#include <stdatomic.h>

#include "host.h"

enum { THREADS = 8, ROUNDS = 20, CALLS_BEFORE = 400 };

struct shared {
    uint64_t context, pool;
    atomic_uint calls, gone;
};

static void is_allowed(int32_t status) {
    CHECK(status == CENOTE_OK || status == CENOTE_ERR_CLOSED || status == CENOTE_ERR_HANDLE || status == CENOTE_ERR_BUSY
          || status == CENOTE_ERR_ARGUMENT);
}

static void *call(void *given) {
    struct shared *shared = given;
    _Alignas(8) uint8_t drained[4096];
    uint64_t tag = (uint64_t)(uintptr_t)&tag;
    int32_t status = CENOTE_OK;
    while (status != CENOTE_ERR_HANDLE) {
        uint32_t count = 0;
        int32_t more;
        is_allowed(ask(shared->context, shared->pool, "select 1", ++tag));
        is_allowed(cenote_begin(shared->context, shared->pool, 0, 0, ++tag));
        is_allowed(cenote_abandon(shared->context, tag));
        uint64_t opened = 0;
        is_allowed(cenote_pool_open(shared->context, "postgres://a@127.0.0.1:1/", 25, &opened, NULL));
        status = tag % 3 == 0 ? cenote_wait(shared->context, 1, drained, sizeof drained, &count, &more)
                              : cenote_drain(shared->context, drained, sizeof drained, &count, &more);
        is_allowed(status);
        for (uint32_t number = 0; number < count; number++) {
            cenote_completion_free((const cenote_completion *)(const void *)drained + number);
        }
        atomic_fetch_add(&shared->calls, 1);
    }
    atomic_fetch_add(&shared->gone, 1);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    for (int round = 0; round < ROUNDS; round++) {
        struct shared shared = {.context = new_context()};
        shared.pool = open_pool(0, argv[1]);
        pthread_t threads[THREADS];
        for (int number = 0; number < THREADS; number++) {
            CHECK_EQUAL(pthread_create(&threads[number], NULL, call, &shared), 0);
        }
        while (atomic_load(&shared.calls) < CALLS_BEFORE) {
            sched_yield();
        }
        /* In turn: the pool first, and the context first. */
        if (round % 2 == 0) {
            CHECK_OK(cenote_pool_free(shared.pool));
        }
        CHECK_OK(cenote_context_free(shared.context));
        if (round % 2 != 0) {
            CHECK_OK(cenote_pool_free(shared.pool));
        }
        for (int number = 0; number < THREADS; number++) {
            CHECK_EQUAL(pthread_join(threads[number], NULL), 0);
        }
        CHECK_EQUAL(atomic_load(&shared.gone), THREADS);
        nothing_is_left();
    }
    return 0;
}
