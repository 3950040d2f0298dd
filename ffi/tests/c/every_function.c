/* Every function with NULL and with handles that were never given out, or not any more: the calls are made from the header. */

#include "host.h"

static uint64_t context, pool, target, error, freed, tag = 1;
static uint64_t outs[64][64];
static const cenote_http_options listening = {
    .size = sizeof listening, .address = "127.0.0.1:0", .address_length = 11};

/* Room for whatever a call writes, or reads: nothing. Structs that say their size say that of the largest. */
static void *out(void) {
    static size_t next;
    uint64_t *place = outs[next++ % 64];
    memset(place, 0, sizeof *outs);
    return place;
}

/* What was made by a call that was good. */
static void sweep(void) {
    for (size_t place = 0; place < 64; place++) {
        uint64_t made = outs[place][0];
        if (made != 0 && made != context && made != pool && made != error) {
            cenote_context_free(made);
            cenote_pool_free(made);
            cenote_error_free(made);
            cenote_http_free(made);
        }
    }
}

static void check_nothing(uint32_t version) {
    CHECK_EQUAL(version >> 16, CENOTE_ABI_VERSION_MAJOR);
}

static void check_no_panic(int32_t status) {
    CHECK(status <= CENOTE_OK && status >= CENOTE_ERR_LEAST && status != CENOTE_ERR_PANIC);
    sweep();
}

static void check_ok(int32_t status) {
    CHECK_OK(status);
    sweep();
}

static void check_null(int32_t status) {
    CHECK_EQUAL(status, CENOTE_ERR_NULL);
    sweep();
}

static void check_handle(int32_t status) {
    CHECK_EQUAL(status, CENOTE_ERR_HANDLE);
    sweep();
}

int main(void) {
    uint64_t none = 0;
    freed = new_context();
    CHECK_OK(cenote_context_free(freed));
    context = new_context();
    pool = target = open_pool(context, "postgres://nobody@127.0.0.1:1/");
    CHECK_EQUAL(cenote_pool_open(context, "postgres://[", 12, &none, &error), CENOTE_ERR_ARGUMENT);

    /* calls */

    CHECK_OK(cenote_error_free(error));
    CHECK_OK(cenote_pool_free(pool));
    CHECK_OK(cenote_context_free(context));
    nothing_is_left();
    return 0;
}
