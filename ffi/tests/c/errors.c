/* An error outlives its completion, its pool and its context, with all that it says. */

#include "host.h"

static void says(uint64_t error, int32_t field, const char *wanted) {
    const char *text;
    size_t length;
    CHECK_OK(cenote_error_field(error, field, &text, &length));
    if (length != strlen(wanted) || memcmp(text, wanted, length) != 0) {
        fprintf(stderr, "field %d: %.*s\n", field, (int)length, text);
        abort();
    }
}

static uint64_t failure(uint64_t context, uint64_t pool, const char *sql) {
    CHECK_OK(ask(context, pool, sql, 1));
    cenote_completion completion = await_one(context);
    CHECK_EQUAL(completion.status, CENOTE_ERR_SERVER);
    CHECK_EQUAL(completion.flags, CENOTE_COMPLETION_ERROR);
    return completion.handle;
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    uint64_t context = new_context(), pool = open_pool(context, argv[1]), none = 0, lost = 0;
    uint64_t error = failure(context, pool, "select no_such_column");
    CHECK_EQUAL(cenote_pool_open(context, "postgres://[", 12, &none, &lost), CENOTE_ERR_ARGUMENT);
    works(context, pool);
    CHECK_OK(cenote_pool_close(context, pool, 1000, 2));
    CHECK_OK(await_one(context).status);
    CHECK_OK(cenote_context_free(context));

    cenote_error_numbers numbers = {.size = sizeof numbers};
    CHECK_OK(cenote_error_info(error, &numbers));
    CHECK_EQUAL(numbers.size, sizeof numbers);
    CHECK_EQUAL(numbers.status, CENOTE_ERR_SERVER);
    CHECK_EQUAL(numbers.batch_index, -1);
    if (is_mysql(argv[1])) {
        CHECK_EQUAL(numbers.number, 1054);
        says(error, CENOTE_FIELD_SQL_STATE, "42S22");
        says(error, CENOTE_FIELD_DETAIL, "");
    } else {
        CHECK_EQUAL(numbers.position, 8);
        says(error, CENOTE_FIELD_SQL_STATE, "42703");
        says(error, CENOTE_FIELD_SEVERITY, "ERROR");
        says(error, CENOTE_FIELD_SERVER_MESSAGE, "column \"no_such_column\" does not exist");
    }

    /* A struct of an older or newer program: no more is written than it has room for. */
    struct {
        uint32_t size;
        int32_t status;
        uint32_t behind;
    } shorter = {8, 0, 0xabcdef};
    CHECK_OK(cenote_error_info(error, (cenote_error_numbers *)(void *)&shorter));
    CHECK_EQUAL(shorter.size, 8);
    CHECK_EQUAL(shorter.status, CENOTE_ERR_SERVER);
    CHECK_EQUAL(shorter.behind, 0xabcdef);
    struct {
        cenote_error_numbers numbers;
        uint64_t more;
    } longer = {{.size = sizeof longer}, 5};
    CHECK_OK(cenote_error_info(error, &longer.numbers));
    CHECK_EQUAL(longer.numbers.size, sizeof longer.numbers);
    CHECK_EQUAL(longer.more, 5);

    CHECK_OK(cenote_error_info(lost, &numbers));
    CHECK_EQUAL(numbers.status, CENOTE_ERR_ARGUMENT);
    CHECK_OK(cenote_error_free(error));
    CHECK_OK(cenote_error_free(lost));
    nothing_is_left();
    return 0;
}
