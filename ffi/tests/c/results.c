/* Results of every shape, and all that cenote_block.h reads of them. */

#include "host.h"

static cenote_completion completion;

/* The block of an answer, until the next one. */
static const cenote_block *result(uint64_t context, uint64_t pool, const char *sql) {
    cenote_completion_free(&completion);
    completion = answer(context, pool, sql);
    const cenote_block *block = cenote_completion_block(&completion, buffer);
    CHECK(block != NULL);
    CHECK_EQUAL(block->length, completion.length);
    return block;
}

static void text_is(const cenote_block *block, uint32_t row, uint32_t column, const char *wanted) {
    size_t length;
    const char *text = cenote_block_text(block, row, column, &length);
    CHECK(text != NULL);
    CHECK_EQUAL(length, strlen(wanted));
    CHECK_EQUAL(memcmp(text, wanted, length), 0);
}

static void bytes_are(const cenote_block *block, uint32_t column, const char *wanted, size_t wanted_length) {
    size_t length;
    const uint8_t *bytes = cenote_block_bytes(block, 0, column, &length);
    CHECK(bytes != NULL);
    CHECK_EQUAL(length, wanted_length);
    CHECK_EQUAL(memcmp(bytes, wanted, length), 0);
}

static void int_is(const cenote_block *block, uint32_t column, int64_t wanted) {
    int64_t value;
    CHECK(cenote_block_int(block, 0, column, &value));
    CHECK_EQUAL(value, wanted);
}

static void double_is(const cenote_block *block, uint32_t column, double wanted) {
    double value;
    CHECK(cenote_block_double(block, 0, column, &value));
    CHECK(value == wanted);
}

/* Whatever is asked of what is not there: nothing is read. */
static void is_bounded(const cenote_block *block) {
    static const uint32_t far[] = {0x7fffffff, 0x80000000, UINT32_MAX};
    size_t length;
    int64_t number;
    for (size_t at = 0; at < sizeof far / sizeof *far; at++) {
        CHECK(cenote_block_field(block, far[at], 0, &length) == NULL && length == 0);
        CHECK(cenote_block_field(block, 0, far[at], &length) == NULL && length == 0);
        CHECK(cenote_block_text(block, far[at], far[at], &length) == NULL && length == 0);
        CHECK(cenote_block_column(block, far[at]) == NULL);
        CHECK(cenote_block_column_name(block, far[at], &length) == NULL && length == 0);
        CHECK(!cenote_block_is_null(block, far[at], 0));
        CHECK(!cenote_block_int(block, far[at], 0, &number));
        CHECK(cenote_block_of_batch(block, far[at]) == NULL);
    }
}

static void postgres_types(uint64_t context, uint64_t pool) {
    const cenote_block *block = result(
        context, pool,
        "select (-2)::int2 as two, (-4)::int4, (-8)::int8, 4294967295::oid, 1.5::float4, -2.25::float8, true, false, "
        "'h\xc3\xa4'::text, 'v'::varchar, '{}'::json, '\\x00ff'::bytea, null::int4, ''::text, ''::bytea, 1.5::numeric");
    CHECK_EQUAL(cenote_block_columns(block), 16);
    CHECK_EQUAL(cenote_block_column_type(block, 0), 21);
    CHECK_EQUAL(cenote_block_find(block, "two"), 0);
    CHECK_EQUAL(cenote_block_find(block, "tw"), UINT32_MAX);
    int_is(block, 0, -2);
    int_is(block, 1, -4);
    int_is(block, 2, -8);
    int_is(block, 3, 4294967295);
    double_is(block, 4, 1.5);
    double_is(block, 5, -2.25);
    bool value = false;
    CHECK(cenote_block_bool(block, 0, 6, &value) && value);
    CHECK(cenote_block_bool(block, 0, 7, &value) && !value);
    text_is(block, 0, 8, "h\xc3\xa4");
    text_is(block, 0, 9, "v");
    text_is(block, 0, 10, "{}");
    bytes_are(block, 11, "\x00\xff", 2);
    CHECK(cenote_block_is_null(block, 0, 12));
    size_t length;
    int64_t number;
    uint64_t natural;
    double real;
    CHECK(cenote_block_field(block, 0, 12, &length) == NULL);
    CHECK(!cenote_block_int(block, 0, 12, &number));
    text_is(block, 0, 13, "");
    CHECK(!cenote_block_is_null(block, 0, 13));
    bytes_are(block, 14, "", 0);
    /* Another type than what is asked for. */
    CHECK(!cenote_block_uint(block, 0, 0, &natural));
    CHECK(!cenote_block_int(block, 0, 8, &number));
    CHECK(!cenote_block_double(block, 0, 2, &real));
    CHECK(!cenote_block_bool(block, 0, 0, &value));
    CHECK(cenote_block_text(block, 0, 2, &length) == NULL && length == 0);
    CHECK(cenote_block_bytes(block, 0, 8, &length) == NULL && length == 0);
    CHECK(cenote_block_text(block, 0, 15, &length) == NULL);
    is_bounded(block);

    /* Values there and back. */
    const char *sql = "select $1::int8, $2::float8, $3::bool, $4::text, $5::bytea, $6::int4[] = array[1,2], "
                      "$7::timestamptz = '2001-02-03T04:05:06Z', $8::date = '1970-01-11', $9::numeric = 12.50, "
                      "$10::uuid = '00010203-0405-0607-0809-0a0b0c0d0e0f', $11::text is null, $12::time = '00:00:01', "
                      "$13::interval = '2 s', $14::jsonb = '{\"a\": 1}', $15::oid";
    static const uint8_t uuid[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const cenote_value list[] = {cenote_int(1), cenote_int(2)};
    const cenote_value values[] = {
        cenote_int(INT64_MIN), cenote_double(0.1), cenote_bool(true), cenote_string("t"), cenote_bytes("\0b", 2),
        cenote_list(list, 2), cenote_timestamp(981173106000000), cenote_date(10), cenote_decimal("12.50", 5),
        cenote_uuid(uuid), cenote_null(), cenote_time(1000000), cenote_interval(2000000), cenote_json("{\"a\": 1}", 8),
        cenote_uint(UINT32_MAX),
    };
    cenote_completion_free(&completion);
    CHECK_OK(cenote_query(context, pool, sql, strlen(sql), values, 15, CENOTE_QUERY_IDEMPOTENT, 0, 1));
    completion = await_one(context);
    if (completion.status != CENOTE_OK) {
        print_error(completion.handle);
    }
    CHECK_OK(completion.status);
    block = cenote_completion_block(&completion, buffer);
    int_is(block, 0, INT64_MIN);
    double_is(block, 1, 0.1);
    text_is(block, 0, 3, "t");
    bytes_are(block, 4, "\0b", 2);
    int_is(block, 14, UINT32_MAX);
    static const uint32_t truths[] = {2, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    for (size_t at = 0; at < sizeof truths / sizeof *truths; at++) {
        CHECK(cenote_block_bool(block, 0, truths[at], &value));
        CHECK(value);
    }
}

static void mysql_types(uint64_t context, uint64_t pool) {
    const cenote_block *block = result(
        context, pool,
        "select cast(-8 as signed) as eight, cast(18446744073709551615 as unsigned), cast(-2.25 as double), "
        "cast(1.5 as float), 'h\xc3\xa4', cast(x'00ff' as binary), null, '', cast(12.5 as decimal(5,2)), "
        "cast('{}' as json), year('2001-01-01'), true");
    CHECK_EQUAL(cenote_block_columns(block), 12);
    CHECK_EQUAL(cenote_block_find(block, "eight"), 0);
    int_is(block, 0, -8);
    int64_t number;
    uint64_t natural = 0;
    size_t length;
    CHECK(!cenote_block_int(block, 0, 1, &number));
    CHECK(cenote_block_uint(block, 0, 1, &natural) && natural == UINT64_MAX);
    CHECK(!cenote_block_uint(block, 0, 0, &natural));
    double_is(block, 2, -2.25);
    double_is(block, 3, 1.5);
    text_is(block, 0, 4, "h\xc3\xa4");
    bytes_are(block, 5, "\x00\xff", 2);
    CHECK(cenote_block_text(block, 0, 5, &length) == NULL && length == 0);
    CHECK(cenote_block_bytes(block, 0, 4, &length) == NULL && length == 0);
    CHECK(cenote_block_is_null(block, 0, 6));
    text_is(block, 0, 7, "");
    text_is(block, 0, 8, "12.50");
    text_is(block, 0, 9, "{}");
    int_is(block, 10, 2001);
    bool value = false;
    CHECK(cenote_block_bool(block, 0, 11, &value) && value);
    is_bounded(block);
    block = result(context, pool, "select variable_value + 0 from performance_schema.session_variables limit 0");
    CHECK_EQUAL(cenote_block_rows(block), 0);

    const char *sql = "select ?, ?, ?, ?, ? = '2001-02-03 04:05:06', ? = '1970-01-11', ? = 12.5, ? is null, cast(? as time) = '00:00:01', ?";
    const cenote_value values[] = {
        cenote_int(INT64_MIN), cenote_double(0.1), cenote_string("t"), cenote_bytes("\0b", 2),
        cenote_datetime(981173106000000), cenote_date(10), cenote_decimal("12.50", 5), cenote_null(),
        cenote_time(1000000), cenote_uint(UINT64_MAX),
    };
    cenote_completion_free(&completion);
    CHECK_OK(cenote_query(context, pool, sql, strlen(sql), values, 10, 0, 0, 1));
    completion = await_one(context);
    if (completion.status != CENOTE_OK) {
        print_error(completion.handle);
    }
    CHECK_OK(completion.status);
    block = cenote_completion_block(&completion, buffer);
    int_is(block, 0, INT64_MIN);
    double_is(block, 1, 0.1);
    text_is(block, 0, 2, "t");
    bytes_are(block, 3, "\0b", 2);
    for (uint32_t column = 4; column < 9; column++) {
        CHECK(cenote_block_bool(block, 0, column, &value));
        CHECK_EQUAL(value ? column : 0, column);
    }
    CHECK(cenote_block_uint(block, 0, 9, &natural) && natural == UINT64_MAX);
}

static void shapes(uint64_t context, uint64_t pool, int mysql) {
    const cenote_block *block = result(context, pool, "select id, randomnumber from world where id < 0");
    CHECK_EQUAL(cenote_block_rows(block), 0);
    CHECK_EQUAL(cenote_block_columns(block), 2);
    size_t length;
    const char *name = cenote_block_column_name(block, 0, &length);
    CHECK(name != NULL && length == 2 && memcmp(name, "id", 2) == 0);
    is_bounded(block);

    if (!mysql) {
        block = result(context, pool, "select from generate_series(1, 3)");
        CHECK_EQUAL(cenote_block_rows(block), 3);
        CHECK_EQUAL(cenote_block_columns(block), 0);
        CHECK_EQUAL(cenote_block_rows_affected(block), 3);
        is_bounded(block);
        block = result(context, pool, "do 'begin end'");
        CHECK_EQUAL(cenote_block_rows(block), 0);
        CHECK_EQUAL(cenote_block_columns(block), 0);
    } else {
        block = result(context, pool, "do 1");
        CHECK_EQUAL(cenote_block_rows(block), 0);
        CHECK_EQUAL(cenote_block_columns(block), 0);
    }
    is_bounded(block);

    /* As many columns as a select may have, more or less. */
    enum { COLUMNS = 1600 };
    char *sql = malloc(COLUMNS * 8 + 8), *end = sql + sprintf(sql, "select ");
    for (int column = 0; column < COLUMNS; column++) {
        end += sprintf(end, "%d,", column);
    }
    end[-1] = 0;
    block = result(context, pool, sql);
    free(sql);
    CHECK_EQUAL(cenote_block_columns(block), COLUMNS);
    for (uint32_t column = 0; column < COLUMNS; column++) {
        int_is(block, column, column);
    }
    is_bounded(block);

    /* One large value, and many small ones. */
    block = result(context, pool, "select repeat('x', 20000000)");
    CHECK_EQUAL(completion.flags, CENOTE_COMPLETION_BLOCK);
    const char *text = cenote_block_text(block, 0, 0, &length);
    CHECK(text != NULL && length == 20000000 && text[0] == 'x' && text[length - 1] == 'x');
    block = result(context, pool, "select a.id from world a, world b where b.id <= 20");
    CHECK_EQUAL(cenote_block_rows(block), 200000);
    int64_t id = 0, sum = 0;
    for (uint32_t row = 0; row < cenote_block_rows(block); row++) {
        CHECK(cenote_block_int(block, row, 0, &id));
        sum += id;
    }
    CHECK_EQUAL(sum, 20LL * 10000 * 10001 / 2);
    is_bounded(block);
}

static void batches(uint64_t context, uint64_t pool, int mysql) {
    const cenote_value seven = cenote_int(7);
    const char *one = "select id from world where id = 3";
    const char *two = mysql ? "select id from world where id = ?" : "select id from world where id = $1";
    const cenote_statement statements[] = {{one, strlen(one), NULL, 0}, {two, strlen(two), &seven, 1}};
    cenote_completion_free(&completion);
    CHECK_OK(cenote_batch(context, pool, statements, 2, 1));
    completion = await_one(context);
    CHECK_OK(completion.status);
    const cenote_block *batch = cenote_completion_block(&completion, buffer);
    CHECK_EQUAL(cenote_block_rows(batch), 2);
    int_is(cenote_block_of_batch(batch, 0), 0, 3);
    int_is(cenote_block_of_batch(batch, 1), 0, 7);
    CHECK(cenote_block_of_batch(batch, 2) == NULL);
    size_t length;
    CHECK(cenote_block_field(batch, 0, 0, &length) == NULL);
    is_bounded(batch);

    /* None at all, and one that fails. */
    cenote_completion_free(&completion);
    CHECK_OK(cenote_batch(context, pool, NULL, 0, 1));
    completion = await_one(context);
    CHECK_OK(completion.status);
    CHECK_EQUAL(cenote_block_rows(cenote_completion_block(&completion, buffer)), 0);
    const char *wrong = "select no_such_column";
    const cenote_statement failing[] = {{one, strlen(one), NULL, 0}, {wrong, strlen(wrong), NULL, 0}};
    cenote_completion_free(&completion);
    CHECK_OK(cenote_batch(context, pool, failing, 2, 1));
    completion = await_one(context);
    CHECK_EQUAL(completion.status, CENOTE_ERR_SERVER);
    cenote_error_numbers numbers = {.size = sizeof numbers};
    CHECK_OK(cenote_error_info(completion.handle, &numbers));
    CHECK_EQUAL(numbers.batch_index, 1);
}

/* Blocks that are none. */
static void forgeries(uint64_t context, uint64_t pool) {
    const cenote_block *block = result(context, pool, "select 1 as a, 'text' as b");
    size_t length = (size_t)block->length, words = (length + 7) / 8;
    uint64_t *copy = malloc(words * 8);
    CHECK(copy != NULL);
    for (size_t cut = 0; cut < length; cut++) {
        memcpy(copy, block, length);
        CHECK(cenote_block_at(copy, cut) == NULL);
    }
    /* Every number of the front and of the tables changed: whatever is made of it, nothing outside is read. */
    static const uint32_t numbers[] = {0, 1, 2, 0x7fffffff, 0x80000000, UINT32_MAX};
    for (size_t at = 0; at + 4 <= length; at += 4) {
        for (size_t number = 0; number < sizeof numbers / sizeof *numbers; number++) {
            memcpy(copy, block, length);
            memcpy((uint8_t *)copy + at, &numbers[number], 4);
            const cenote_block *forged = cenote_block_at(copy, length);
            for (uint32_t column = 0; column < 3; column++) {
                size_t read;
                uint64_t sum = 0;
                const uint8_t *bytes = cenote_block_field(forged, 0, column, &read);
                for (size_t byte = 0; byte < read; byte++) {
                    sum += bytes[byte];
                }
                const char *name = cenote_block_column_name(forged, column, &read);
                for (size_t byte = 0; byte < read; byte++) {
                    sum += (uint8_t)name[byte];
                }
                CHECK(sum < UINT64_MAX);
            }
        }
    }
    CHECK(cenote_block_at(NULL, 1000) == NULL);
    free(copy);
    is_bounded(NULL);
}

/* A result past the bound of its pool: that query fails, and its neighbours on the same connection do not. */
static void bounds(uint64_t context, const char *url) {
    char bounded[1024];
    snprintf(bounded, sizeof bounded, "%s%creply_bytes_max=64kB&pool_size=1", url, strchr(url, '?') ? '&' : '?');
    uint64_t pool = open_pool(context, bounded);
    for (uint64_t tag = 0; tag < 30; tag++) {
        CHECK_OK(ask(context, pool, tag % 3 == 1 ? "select repeat('x', 1000000)" : "select 1", tag));
    }
    for (uint32_t answered = 0, count; answered < 30; answered += count) {
        count = await_some(context);
        for (uint32_t number = 0; number < count; number++) {
            const cenote_completion *one = (const cenote_completion *)buffer + number;
            if (one->tag % 3 == 1) {
                CHECK(one->status != CENOTE_OK && one->status != CENOTE_ERR_PANIC);
                CHECK_EQUAL(one->flags, CENOTE_COMPLETION_ERROR);
            } else {
                CHECK_OK(one->status);
                int_is(cenote_completion_block(one, buffer), 0, 1);
            }
            cenote_completion_free(one);
        }
    }
    works(context, pool);
    cenote_pool_counters stats = {.size = sizeof stats};
    CHECK_OK(cenote_pool_stats(pool, &stats));
    CHECK_EQUAL(stats.connections_lost, 0);
    CHECK_OK(cenote_pool_free(pool));
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    int mysql = is_mysql(argv[1]);
    uint64_t context = new_context(), pool = open_pool(context, argv[1]);
    if (mysql) {
        mysql_types(context, pool);
    } else {
        postgres_types(context, pool);
    }
    shapes(context, pool, mysql);
    batches(context, pool, mysql);
    forgeries(context, pool);
    cenote_completion_free(&completion);
    bounds(context, argv[1]);
    CHECK_OK(cenote_context_free(context));
    nothing_is_left();
    return 0;
}
