/* Texts that are none, and lengths that cannot be. */

#include <sys/mman.h>

#include "host.h"

#define GIB ((size_t)1 << 30)

static int32_t ask_with(uint64_t context, uint64_t pool, const char *sql, size_t length, cenote_value value, uint64_t tag) {
    return cenote_query(context, pool, sql, length, &value, 1, 0, 0, tag);
}

/* It is submitted, and refused later, by whomever. */
static void is_refused_later(uint64_t context) {
    cenote_completion completion = await_one(context);
    CHECK(completion.status != CENOTE_OK && completion.status != CENOTE_ERR_PANIC);
    CHECK_EQUAL(completion.flags, CENOTE_COMPLETION_ERROR);
    cenote_completion_free(&completion);
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    const char *url = argv[1];
    uint64_t context = new_context(), pool = open_pool(context, url), none = 0;
    const char *sql = is_mysql(url) ? "select ?" : "select $1::text";
    size_t length = strlen(sql);
    works(context, pool);

    /* Not UTF-8: cut off, overlong, a surrogate, no beginning. */
    static const char *const broken[] = {"\xc3", "\xc0\x80", "\xed\xa0\x80", "\x80", "select '\xff'"};
    for (size_t number = 0; number < sizeof broken / sizeof *broken; number++) {
        const char *text = broken[number];
        CHECK_EQUAL(ask(context, pool, text, 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(cenote_pool_open(context, text, strlen(text), &none, NULL), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_string(text), 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_json(text, strlen(text)), 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_decimal(text, strlen(text)), 1), CENOTE_ERR_ARGUMENT);
        cenote_value inner = cenote_string(text);
        CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_list(&inner, 1), 1), CENOTE_ERR_ARGUMENT);
    }

    /* NUL: in a statement, an address, a value. Postgres takes none in a text. */
    CHECK_OK(cenote_query(context, pool, "select\0 1", 9, NULL, 0, 0, 0, 1));
    is_refused_later(context);
    CHECK_EQUAL(cenote_pool_open(context, "postgres://a\0b/", 15, &none, NULL), CENOTE_ERR_ARGUMENT);
    CHECK_OK(ask_with(context, pool, sql, length, cenote_text("a\0b", 3), 1));
    if (is_mysql(url)) {
        cenote_completion completion = await_one(context);
        CHECK_OK(completion.status);
        size_t read;
        const char *text = cenote_block_text(cenote_completion_block(&completion, buffer), 0, 0, &read);
        CHECK(text != NULL && read == 3 && memcmp(text, "a\0b", 3) == 0);
        cenote_completion_free(&completion);
    } else {
        is_refused_later(context);
    }

    /* Nothing at all. */
    CHECK_OK(cenote_query(context, pool, NULL, 0, NULL, 0, 0, 0, 1));
    cenote_completion empty = await_one(context);
    CHECK(empty.status != CENOTE_ERR_PANIC);
    cenote_completion_free(&empty);
    CHECK_OK(ask_with(context, pool, sql, length, cenote_text(NULL, 0), 1));
    empty = await_one(context);
    CHECK_OK(empty.status);
    cenote_completion_free(&empty);
    CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_of_data(CENOTE_VALUE_UUID, "", 0), 1), CENOTE_ERR_ARGUMENT);
    CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_of_data(-1, "", 0), 1), CENOTE_ERR_ARGUMENT);
    CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_of_data(99, "", 0), 1), CENOTE_ERR_ARGUMENT);

    /* More than any memory has. */
    static const size_t lengths[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX / sizeof(cenote_value) + 1};
    for (size_t number = 0; number < sizeof lengths / sizeof *lengths; number++) {
        size_t huge = lengths[number];
        uint32_t count = 0;
        int32_t more = 0;
        cenote_value value = cenote_null();
        cenote_statement statement = {sql, length, &value, 1};
        CHECK_EQUAL(cenote_query(context, pool, sql, huge, NULL, 0, 0, 0, 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(cenote_query(context, pool, sql, length, &value, huge, 0, 0, 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_text("", huge), 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_bytes("", huge), 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_list(&value, huge), 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(cenote_batch(context, pool, &statement, huge, 1), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(cenote_submit(context, &statement, huge, &count), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(cenote_pool_open(context, url, huge, &none, NULL), CENOTE_ERR_ARGUMENT);
        if (huge > SIZE_MAX / 2) {
            CHECK_EQUAL(cenote_drain(context, buffer, huge, &count, &more), CENOTE_ERR_ARGUMENT);
        }
    }

    /* Memory that is there, and that no server takes. */
    char *large = mmap(NULL, GIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(large != MAP_FAILED);
    CHECK_EQUAL(cenote_query(context, pool, large, GIB, NULL, 0, 0, 0, 1), CENOTE_ERR_ARGUMENT);
    CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_text(large, GIB), 1), CENOTE_ERR_ARGUMENT);
    CHECK_EQUAL(ask_with(context, pool, sql, length, cenote_bytes(large, GIB), 1), CENOTE_ERR_ARGUMENT);
    CHECK_EQUAL(cenote_pool_open(context, large, GIB, &none, NULL), CENOTE_ERR_ARGUMENT);
    CHECK_EQUAL(munmap(large, GIB), 0);

    /* Requests of one piece that name what is not in them. */
    struct {
        cenote_request request;
        cenote_statement statement;
        char sql[8];
    } piece = {
        .request = {.length = sizeof piece, .tag = 9, .target = pool, .statement_count = 1},
        .statement = {.sql_length = 8},
    };
    uint32_t submitted = 9;
    memcpy(piece.sql, "select 1", 8);
    piece.request.statements_at = (uint64_t)((char *)&piece.statement - (char *)&piece);
    piece.statement.sql = (const char *)(uintptr_t)(piece.sql - (char *)&piece);
    CHECK_OK(cenote_submit(context, &piece, sizeof piece, &submitted));
    CHECK_EQUAL(submitted, 1);
    cenote_completion completion = await_one(context);
    CHECK_OK(completion.status);
    cenote_completion_free(&completion);
    for (size_t cut = 1; cut < sizeof piece; cut++) {
        CHECK_EQUAL(cenote_submit(context, &piece, cut, &submitted), CENOTE_ERR_ARGUMENT);
        CHECK_EQUAL(submitted, 0);
    }
    piece.statement.sql_length = 9;
    CHECK_EQUAL(cenote_submit(context, &piece, sizeof piece, &submitted), CENOTE_ERR_ARGUMENT);
    piece.statement.sql_length = SIZE_MAX;
    CHECK_EQUAL(cenote_submit(context, &piece, sizeof piece, &submitted), CENOTE_ERR_ARGUMENT);
    piece.request.statements_at = UINT64_MAX - 7;
    CHECK_EQUAL(cenote_submit(context, &piece, sizeof piece, &submitted), CENOTE_ERR_ARGUMENT);
    piece.request.statement_count = UINT32_MAX;
    CHECK_EQUAL(cenote_submit(context, &piece, sizeof piece, &submitted), CENOTE_ERR_ARGUMENT);
    piece.request.length = 0;
    CHECK_EQUAL(cenote_submit(context, &piece, sizeof piece, &submitted), CENOTE_ERR_ARGUMENT);

    works(context, pool);
    CHECK_OK(cenote_context_free(context));
    nothing_is_left();
    return 0;
}
