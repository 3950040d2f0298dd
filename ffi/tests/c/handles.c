/* Every kind of handle: freed twice, used after it was freed, used for another kind, outlived by what came of it. */

#include "host.h"

static void is_gone(uint64_t handle, int32_t (*release)(uint64_t)) {
    CHECK_EQUAL(release(handle), CENOTE_ERR_HANDLE);
    CHECK_EQUAL(release(handle), CENOTE_ERR_HANDLE);
}

static uint64_t begin(uint64_t context, uint64_t pool) {
    CHECK_OK(cenote_begin(context, pool, 0, 0, 5));
    cenote_completion completion = await_one(context);
    CHECK_OK(completion.status);
    CHECK_EQUAL(completion.flags, CENOTE_COMPLETION_SESSION);
    return completion.handle;
}

static uint64_t lease(uint64_t context, uint64_t pool) {
    CHECK_OK(cenote_lease(context, pool, 6));
    cenote_completion completion = await_one(context);
    CHECK_OK(completion.status);
    return completion.handle;
}

static void await_end(uint64_t context) {
    cenote_completion completion = await_one(context);
    CHECK_OK(completion.status);
    CHECK_EQUAL(completion.flags, 0);
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    uint64_t context = new_context(), pool = open_pool(context, argv[1]);
    const char *text;
    size_t length;

    /* Sessions: freed, committed, rolled back. */
    uint64_t session = lease(context, pool);
    works(context, session);
    CHECK_EQUAL(cenote_pool_free(session), CENOTE_ERR_HANDLE);
    CHECK_EQUAL(cenote_error_free(session), CENOTE_ERR_HANDLE);
    CHECK_EQUAL(cenote_lease(context, session, 1), CENOTE_ERR_HANDLE);
    CHECK_OK(cenote_session_free(session));
    is_gone(session, cenote_session_free);
    CHECK_EQUAL(ask(context, session, "select 1", 1), CENOTE_ERR_HANDLE);
    CHECK_EQUAL(cenote_cancel(context, session, 1), CENOTE_ERR_HANDLE);
    session = begin(context, pool);
    works(context, session);
    CHECK_OK(cenote_commit(context, session, 1));
    await_end(context);
    is_gone(session, cenote_session_free);
    CHECK_EQUAL(cenote_commit(context, session, 1), CENOTE_ERR_HANDLE);
    session = begin(context, pool);
    CHECK_OK(cenote_rollback(context, session, 1));
    await_end(context);
    CHECK_EQUAL(cenote_rollback(context, session, 1), CENOTE_ERR_HANDLE);

    /* Blocks. */
    cenote_completion large = answer(context, pool, "select repeat('x', 100000)");
    CHECK_EQUAL(large.flags, CENOTE_COMPLETION_BLOCK);
    CHECK(cenote_block_text(cenote_completion_block(&large, buffer), 0, 0, &length) != NULL);
    CHECK_EQUAL(length, 100000);

    /* Errors. */
    uint64_t nothing = 0, error = 0;
    CHECK_EQUAL(cenote_pool_open(context, "postgres://[", 12, &nothing, &error), CENOTE_ERR_ARGUMENT);
    CHECK(error != 0 && nothing == 0);
    CHECK_OK(cenote_error_field(error, CENOTE_FIELD_MESSAGE, &text, &length));
    CHECK(length > 0);
    CHECK_EQUAL(cenote_error_field(error, 99, &text, &length), CENOTE_ERR_ARGUMENT);
    CHECK_EQUAL(cenote_error_field(error, -1, &text, &length), CENOTE_ERR_ARGUMENT);

    /* A pool that is closed while a lease and a transaction of it are out. */
    uint64_t late_lease = lease(context, pool), late_transaction = begin(context, pool);
    CHECK_OK(ask(context, pool, "select 1", 2));
    await_one(context);
    CHECK_OK(cenote_pool_close(context, pool, 1, 3));
    is_gone(pool, cenote_pool_free);
    CHECK_EQUAL(ask(context, pool, "select 1", 4), CENOTE_ERR_HANDLE);
    CHECK_EQUAL(cenote_lease(context, pool, 4), CENOTE_ERR_HANDLE);
    CHECK_EQUAL(cenote_pool_close(context, pool, 1, 4), CENOTE_ERR_HANDLE);
    await_end(context);
    CHECK_OK(cenote_session_free(late_lease));
    CHECK_OK(cenote_session_free(late_transaction));
    is_gone(late_lease, cenote_session_free);
    is_gone(late_transaction, cenote_session_free);

    /* The context first, and then what came through it. */
    uint64_t owned = open_pool(context, argv[1]), unowned = open_pool(0, argv[1]);
    uint64_t open = begin(context, owned);
    CHECK_OK(cenote_context_free(context));
    is_gone(context, cenote_context_free);
    is_gone(owned, cenote_pool_free);
    is_gone(open, cenote_session_free);
    CHECK_EQUAL(ask(context, unowned, "select 1", 1), CENOTE_ERR_HANDLE);
    CHECK_OK(cenote_pool_free(unowned));
    CHECK_OK(cenote_block_free(large.handle));
    is_gone(large.handle, cenote_block_free);
    CHECK_OK(cenote_error_free(error));
    is_gone(error, cenote_error_free);
    CHECK_EQUAL(cenote_error_field(error, CENOTE_FIELD_MESSAGE, &text, &length), CENOTE_ERR_HANDLE);

    /* Finalisers, of what is there and of what is not. */
    context = new_context();
    cenote_context_finalize((void *)(uintptr_t)context);
    cenote_context_finalize((void *)(uintptr_t)context);
    cenote_block_finalize((void *)(uintptr_t)large.handle);
    cenote_block_finalize(NULL);
    is_gone(context, cenote_context_free);
    nothing_is_left();
    return 0;
}
