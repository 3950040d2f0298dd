/* exit() from one thread while another waits with statements and a transaction in flight. */

#include <pthread.h>
#include <stdatomic.h>

#include "host.h"

static atomic_bool busy;

static void *leave(void *nothing) {
    (void)nothing;
    while (!atomic_load(&busy)) {
        sched_yield();
    }
    exit(7);
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    uint64_t context = new_context(), pool = open_pool(context, argv[1]), tag = 0;
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, leave, NULL), 0);
    CHECK_OK(cenote_begin(context, pool, 0, 0, tag++));
    uint64_t transaction = await_one(context).handle;
    CHECK_OK(ask(context, transaction, is_mysql(argv[1]) ? "select sleep(30)" : "select pg_sleep(30)", tag++));
    for (;;) {
        while (tag < 1000) {
            CHECK_OK(ask(context, pool, "select 1", tag++));
        }
        uint32_t count = await_some(context);
        for (uint32_t number = 0; number < count; number++) {
            CHECK_OK(ask(context, pool, "select 1", tag++));
        }
        atomic_store(&busy, 1);
    }
}
