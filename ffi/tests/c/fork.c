/* A forked child: it is told so by every call, ends as any process does, and its parent goes on as before. */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static void in_child(uint64_t context, uint64_t pool, uint64_t error) {
    uint64_t made = 0;
    uint32_t count = 0;
    int32_t more = 0, fd = 0;
    const char *text;
    size_t length;
    cenote_object_counts counts = {.size = sizeof counts};
    /* Whoever hangs here is killed, and the parent says so. */
    alarm(60);
    CHECK_EQUAL(cenote_context_new(NULL, &made), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_pool_open(context, "postgres://a/", 13, &made, NULL), CENOTE_ERR_FORKED);
    CHECK_EQUAL(ask(context, pool, "select 1", 1), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_wait(context, 60000, buffer, sizeof buffer, &count, &more), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_drain(context, buffer, sizeof buffer, &count, &more), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_lease(context, pool, 1), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_begin(context, pool, 0, 0, 1), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_context_fd(context, &fd), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_counts(&counts), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_error_field(error, CENOTE_FIELD_MESSAGE, &text, &length), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_error_free(error), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_pool_close(context, pool, 0, 1), CENOTE_ERR_FORKED);
    CHECK_EQUAL(cenote_pool_free(pool), CENOTE_ERR_FORKED);
    cenote_context_finalize((void *)(uintptr_t)context);
    CHECK_EQUAL(cenote_context_free(context), CENOTE_ERR_FORKED);
    CHECK(cenote_abi_version() != 0 || CENOTE_ABI_VERSION_MAJOR == 0);
    /* With all that a process does at its end. */
    exit(42);
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    uint64_t context = new_context(), pool = open_pool(context, argv[1]), none, error = 0;
    CHECK_EQUAL(cenote_pool_open(context, "postgres://[", 12, &none, &error), CENOTE_ERR_ARGUMENT);
    works(context, pool);
    CHECK_OK(cenote_begin(context, pool, 0, 0, 1));
    uint64_t transaction = await_one(context).handle;
    works(context, transaction);
    cenote_pool_counters before = {.size = sizeof before}, after = {.size = sizeof after};
    CHECK_OK(cenote_pool_stats(pool, &before));

    for (int number = 0; number < 20; number++) {
        /* Something is under way, and threads of the library are busy. */
        for (uint64_t tag = 1; tag <= 100; tag++) {
            CHECK_OK(ask(context, pool, "select 1", tag));
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            in_child(context, pool, error);
        }
        for (uint64_t answered = 0; answered < 100;) {
            uint32_t count = await_some(context);
            for (uint32_t at = 0; at < count; at++) {
                CHECK_OK(((const cenote_completion *)buffer)[at].status);
            }
            answered += count;
        }
        int status = 0;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_EQUAL(WEXITSTATUS(status), 42);
        works(context, transaction);
    }

    CHECK_OK(cenote_pool_stats(pool, &after));
    CHECK_EQUAL(after.connections_lost, before.connections_lost);
    CHECK_OK(cenote_commit(context, transaction, 1));
    CHECK_OK(await_one(context).status);
    CHECK_OK(cenote_error_free(error));
    CHECK_OK(cenote_context_free(context));
    nothing_is_left();
    return 0;
}
