/* Reading cenote's results, and writing its values: without a call into the library.
 *
 * Nothing here allocates, and nothing reads outside of a block, whatever is asked for: a row, column or field that is not
 * there is NULL or false. Texts have a length and no NUL at the end; what is read lives as long as its block. */

#ifndef CENOTE_BLOCK_H
#define CENOTE_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cenote.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values: the parameters of statements. What they point to has to live until the call that takes them has returned. */

static inline cenote_value cenote_of_bits(int32_t kind, uint64_t bits) {
    cenote_value value;
    memset(&value, 0, sizeof value);
    value.kind = kind;
    value.bits = bits;
    return value;
}

static inline cenote_value cenote_of_data(int32_t kind, const void *data, size_t length) {
    cenote_value value = cenote_of_bits(kind, 0);
    value.data = data;
    value.length = length;
    return value;
}

static inline cenote_value cenote_null(void) {
    return cenote_of_bits(CENOTE_VALUE_NULL, 0);
}

static inline cenote_value cenote_bool(bool value) {
    return cenote_of_bits(CENOTE_VALUE_BOOL, value ? 1 : 0);
}

static inline cenote_value cenote_int(int64_t value) {
    return cenote_of_bits(CENOTE_VALUE_INT, (uint64_t)value);
}

static inline cenote_value cenote_uint(uint64_t value) {
    return cenote_of_bits(CENOTE_VALUE_UINT, value);
}

static inline cenote_value cenote_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return cenote_of_bits(CENOTE_VALUE_DOUBLE, bits);
}

/* UTF-8. */
static inline cenote_value cenote_text(const char *text, size_t length) {
    return cenote_of_data(CENOTE_VALUE_TEXT, text, length);
}

/* UTF-8 that ends with a NUL. */
static inline cenote_value cenote_string(const char *text) {
    return cenote_text(text, strlen(text));
}

static inline cenote_value cenote_bytes(const void *bytes, size_t length) {
    return cenote_of_data(CENOTE_VALUE_BYTES, bytes, length);
}

static inline cenote_value cenote_json(const char *text, size_t length) {
    return cenote_of_data(CENOTE_VALUE_JSON, text, length);
}

/* A number as its digits. */
static inline cenote_value cenote_decimal(const char *digits, size_t length) {
    return cenote_of_data(CENOTE_VALUE_DECIMAL, digits, length);
}

/* Sixteen bytes. */
static inline cenote_value cenote_uuid(const uint8_t *bytes) {
    return cenote_of_data(CENOTE_VALUE_UUID, bytes, 16);
}

/* Microseconds since 1970, UTC. */
static inline cenote_value cenote_timestamp(int64_t us) {
    return cenote_of_bits(CENOTE_VALUE_TIMESTAMP, (uint64_t)us);
}

/* Microseconds since 1970, of no zone. */
static inline cenote_value cenote_datetime(int64_t us) {
    return cenote_of_bits(CENOTE_VALUE_DATETIME, (uint64_t)us);
}

/* Days since 1970. */
static inline cenote_value cenote_date(int64_t days) {
    return cenote_of_bits(CENOTE_VALUE_DATE, (uint64_t)days);
}

/* Microseconds since midnight. */
static inline cenote_value cenote_time(int64_t us) {
    return cenote_of_bits(CENOTE_VALUE_TIME, (uint64_t)us);
}

/* Microseconds. */
static inline cenote_value cenote_interval(int64_t us) {
    return cenote_of_bits(CENOTE_VALUE_INTERVAL, (uint64_t)us);
}

/* Several values, as one. */
static inline cenote_value cenote_list(const cenote_value *values, size_t count) {
    return cenote_of_data(CENOTE_VALUE_LIST, values, count);
}

/* Blocks. */

/* The block that begins at `bytes` and is `length` long, or NULL if none does. The other functions take what this returns,
 * or NULL, which is a block without rows. */
static inline const cenote_block *cenote_block_at(const void *bytes, size_t length) {
    const cenote_block *block = (const cenote_block *)bytes;
    uint64_t fields, fields_end;
    if (bytes == NULL || length < sizeof *block || (uintptr_t)bytes % sizeof(uint64_t) != 0) {
        return NULL;
    }
    if (block->magic != CENOTE_BLOCK_MAGIC || block->length < sizeof *block || block->length > length) {
        return NULL;
    }
    fields = block->flags & CENOTE_BLOCK_BATCH ? block->rows : (uint64_t)block->rows * block->columns;
    if (fields >= UINT32_MAX || block->fields_at % sizeof(uint32_t) != 0 || block->columns_at % sizeof(uint32_t) != 0) {
        return NULL;
    }
    fields_end = block->fields_at + (fields + 1) * sizeof(uint32_t);
    if (fields_end > block->values_at || block->values_at > block->length) {
        return NULL;
    }
    if (block->columns_at + (uint64_t)block->columns * sizeof(cenote_column) > block->fields_at) {
        return NULL;
    }
    return block;
}

/* The block of a completion that was drained into `buffer`; NULL: it has none. */
static inline const cenote_block *cenote_completion_block(const cenote_completion *completion, const void *buffer) {
    if (completion->flags & CENOTE_COMPLETION_INLINE) {
        return cenote_block_at((const uint8_t *)buffer + completion->value, (size_t)completion->length);
    }
    if (completion->flags & CENOTE_COMPLETION_BLOCK) {
        return cenote_block_at((const void *)(uintptr_t)completion->value, (size_t)completion->length);
    }
    return NULL;
}

/* Frees what a completion has brought: a block that is not in the drain buffer, or an error; of a lease or transaction
 * that nobody wants it is the end. */
static inline void cenote_completion_free(const cenote_completion *completion) {
    if (completion->flags & CENOTE_COMPLETION_BLOCK) {
        cenote_block_free(completion->handle);
    } else if (completion->flags & CENOTE_COMPLETION_ERROR) {
        cenote_error_free(completion->handle);
    } else if (completion->flags & CENOTE_COMPLETION_SESSION) {
        cenote_session_free(completion->handle);
    }
}

/* Rows; of a batch: blocks. */
static inline uint32_t cenote_block_rows(const cenote_block *block) {
    return block == NULL ? 0 : block->rows;
}

static inline uint32_t cenote_block_columns(const cenote_block *block) {
    return block == NULL ? 0 : block->columns;
}

/* Rows returned or changed. */
static inline uint64_t cenote_block_rows_affected(const cenote_block *block) {
    return block == NULL ? 0 : block->rows_affected;
}

/* A column: its type and its flags. */
static inline const cenote_column *cenote_block_column(const cenote_block *block, uint32_t column) {
    if (column >= cenote_block_columns(block)) {
        return NULL;
    }
    return (const cenote_column *)(const void *)((const uint8_t *)block + block->columns_at) + column;
}

static inline uint32_t cenote_block_column_type(const cenote_block *block, uint32_t column) {
    const cenote_column *found = cenote_block_column(block, column);
    return found == NULL ? 0 : found->type_code;
}

static inline uint32_t cenote_block_column_flags(const cenote_block *block, uint32_t column) {
    const cenote_column *found = cenote_block_column(block, column);
    return found == NULL ? 0 : found->flags;
}

/* The name of a column, and its length in bytes. */
static inline const char *cenote_block_column_name(const cenote_block *block, uint32_t column, size_t *length) {
    const cenote_column *found = cenote_block_column(block, column);
    *length = 0;
    if (found == NULL || (uint64_t)found->name_at + found->name_length > block->length) {
        return NULL;
    }
    *length = found->name_length;
    return (const char *)block + found->name_at;
}

/* The number of the first column with this name; that of no column if there is none. */
static inline uint32_t cenote_block_find(const cenote_block *block, const char *name) {
    size_t wanted = strlen(name), length;
    uint32_t column, columns = cenote_block_columns(block);
    for (column = 0; column < columns; column++) {
        const char *found = cenote_block_column_name(block, column, &length);
        if (found != NULL && length == wanted && memcmp(found, name, wanted) == 0) {
            return column;
        }
    }
    return UINT32_MAX;
}

static inline const uint8_t *cenote_block_value(const cenote_block *block, size_t number, bool *is_null, size_t *length) {
    const uint8_t *start = (const uint8_t *)block;
    uint32_t field, begins_at, ends_at;
    memcpy(&field, start + block->fields_at + number * sizeof field, sizeof field);
    memcpy(&ends_at, start + block->fields_at + (number + 1) * sizeof field, sizeof field);
    begins_at = field & ~CENOTE_FIELD_NULL;
    ends_at &= ~CENOTE_FIELD_NULL;
    *is_null = (field & CENOTE_FIELD_NULL) != 0;
    *length = 0;
    if (*is_null || begins_at > ends_at || ends_at > block->length - block->values_at) {
        return NULL;
    }
    *length = ends_at - begins_at;
    return start + block->values_at + begins_at;
}

/* The bytes of a field as the server sent them, and how many. NULL: it is NULL, or is not there. */
static inline const uint8_t *cenote_block_field(const cenote_block *block, uint32_t row, uint32_t column, size_t *length) {
    bool is_null;
    *length = 0;
    if (row >= cenote_block_rows(block) || column >= block->columns || block->flags & CENOTE_BLOCK_BATCH) {
        return NULL;
    }
    return cenote_block_value(block, (size_t)row * block->columns + column, &is_null, length);
}

/* Whether a field is there and is NULL. */
static inline bool cenote_block_is_null(const cenote_block *block, uint32_t row, uint32_t column) {
    bool is_null;
    size_t length;
    if (row >= cenote_block_rows(block) || column >= block->columns || block->flags & CENOTE_BLOCK_BATCH) {
        return false;
    }
    cenote_block_value(block, (size_t)row * block->columns + column, &is_null, &length);
    return is_null;
}

/* Of a batch: the result of one statement. */
static inline const cenote_block *cenote_block_of_batch(const cenote_block *block, uint32_t number) {
    const uint8_t *value;
    bool is_null;
    size_t length;
    if (number >= cenote_block_rows(block) || !(block->flags & CENOTE_BLOCK_BATCH)) {
        return NULL;
    }
    value = cenote_block_value(block, number, &is_null, &length);
    return cenote_block_at(value, length);
}

/* Values of fields. Each returns true when it has read one; false when the field is NULL, is not there, or is of another
 * type than what is asked for. */

static inline uint64_t cenote_read_big(const uint8_t *bytes, size_t length) {
    uint64_t value = 0;
    size_t at;
    for (at = 0; at < length; at++) {
        value = value << 8 | bytes[at];
    }
    return value;
}

static inline uint64_t cenote_read_little(const uint8_t *bytes, size_t length) {
    uint64_t value = 0;
    while (length > 0) {
        length--;
        value = value << 8 | bytes[length];
    }
    return value;
}

/* Digits, with a sign or none. */
static inline bool cenote_read_digits(const uint8_t *bytes, size_t length, uint64_t *magnitude, bool *is_negative) {
    size_t at = 0;
    *magnitude = 0;
    *is_negative = length > 0 && bytes[0] == '-';
    if (*is_negative) {
        at = 1;
    }
    if (at == length) {
        return false;
    }
    for (; at < length; at++) {
        uint64_t digit = (uint64_t)bytes[at] - '0';
        if (bytes[at] < '0' || bytes[at] > '9' || *magnitude > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *magnitude = *magnitude * 10 + digit;
    }
    return true;
}

/* How long an integer of this type is; 0: it is no integer. */
static inline size_t cenote_integer_bytes(const cenote_block *block, uint32_t type_code) {
    if (block->flags & CENOTE_BLOCK_MYSQL) {
        switch (type_code) {
            case 1: /* TINYINT */
                return 1;
            case 2: /* SMALLINT */
            case 13: /* YEAR */
                return 2;
            case 3: /* INT */
            case 9: /* MEDIUMINT, sent as INT */
                return 4;
            case 8: /* BIGINT */
                return 8;
            default:
                return 0;
        }
    }
    switch (type_code) {
        case 21: /* int2 */
            return 2;
        case 23: /* int4 */
        case 26: /* oid */
            return 4;
        case 20: /* int8 */
            return 8;
        default:
            return 0;
    }
}

/* An integer of any width: its bits as 64, and whether they are those of a negative number. */
static inline bool cenote_block_integer(
    const cenote_block *block, uint32_t row, uint32_t column, uint64_t *bits, bool *is_negative) {
    size_t length, wanted;
    const uint8_t *bytes = cenote_block_field(block, row, column, &length);
    bool is_mysql, is_unsigned;
    uint32_t type_code;
    if (bytes == NULL) {
        return false;
    }
    is_mysql = (block->flags & CENOTE_BLOCK_MYSQL) != 0;
    type_code = cenote_block_column_type(block, column);
    wanted = cenote_integer_bytes(block, type_code);
    if (wanted == 0) {
        return false;
    }
    if (block->flags & CENOTE_BLOCK_TEXT) {
        uint64_t magnitude;
        if (!cenote_read_digits(bytes, length, &magnitude, is_negative)) {
            return false;
        }
        if (*is_negative && magnitude > (uint64_t)INT64_MAX + 1) {
            return false;
        }
        *bits = *is_negative ? ~magnitude + 1 : magnitude;
        *is_negative = *is_negative && magnitude != 0;
        return true;
    }
    if (length != wanted) {
        return false;
    }
    *bits = is_mysql ? cenote_read_little(bytes, length) : cenote_read_big(bytes, length);
    is_unsigned = is_mysql ? (cenote_block_column_flags(block, column) & CENOTE_COLUMN_UNSIGNED) != 0 : type_code == 26;
    *is_negative = !is_unsigned && (*bits >> (8 * length - 1)) != 0;
    if (*is_negative && length < sizeof *bits) {
        *bits |= UINT64_MAX << (8 * length);
    }
    return true;
}

/* An integer of any width that an int64_t holds. Postgres: int2, int4, int8, oid. */
static inline bool cenote_block_int(const cenote_block *block, uint32_t row, uint32_t column, int64_t *value) {
    uint64_t bits;
    bool is_negative;
    if (!cenote_block_integer(block, row, column, &bits, &is_negative) || (!is_negative && bits > INT64_MAX)) {
        return false;
    }
    memcpy(value, &bits, sizeof bits);
    return true;
}

/* An integer of any width that is not negative. */
static inline bool cenote_block_uint(const cenote_block *block, uint32_t row, uint32_t column, uint64_t *value) {
    bool is_negative;
    uint64_t bits;
    if (!cenote_block_integer(block, row, column, &bits, &is_negative) || is_negative) {
        return false;
    }
    *value = bits;
    return true;
}

/* A floating-point number of either width. Not of a MySQL block of text (`CENOTE_BLOCK_TEXT`): there it is a text. */
static inline bool cenote_block_double(const cenote_block *block, uint32_t row, uint32_t column, double *value) {
    size_t length;
    const uint8_t *bytes = cenote_block_field(block, row, column, &length);
    uint32_t type_code, narrow;
    uint64_t bits;
    bool is_mysql, is_wide, is_narrow;
    if (bytes == NULL || block->flags & CENOTE_BLOCK_TEXT) {
        return false;
    }
    is_mysql = (block->flags & CENOTE_BLOCK_MYSQL) != 0;
    type_code = cenote_block_column_type(block, column);
    is_wide = type_code == (is_mysql ? 5U : 701U) && length == sizeof bits;
    is_narrow = type_code == (is_mysql ? 4U : 700U) && length == sizeof narrow;
    if (!is_wide && !is_narrow) {
        return false;
    }
    bits = is_mysql ? cenote_read_little(bytes, length) : cenote_read_big(bytes, length);
    if (is_wide) {
        memcpy(value, &bits, sizeof bits);
    } else {
        float read;
        narrow = (uint32_t)bits;
        memcpy(&read, &narrow, sizeof read);
        *value = read;
    }
    return true;
}

/* Postgres: a bool. MySQL has integers instead: 0 is false, all others are true. */
static inline bool cenote_block_bool(const cenote_block *block, uint32_t row, uint32_t column, bool *value) {
    size_t length;
    const uint8_t *bytes = cenote_block_field(block, row, column, &length);
    if (bytes == NULL) {
        return false;
    }
    if (block->flags & CENOTE_BLOCK_MYSQL) {
        uint64_t bits;
        bool is_negative;
        if (!cenote_block_integer(block, row, column, &bits, &is_negative)) {
            return false;
        }
        *value = bits != 0;
        return true;
    }
    if (cenote_block_column_type(block, column) != 16 || length != 1) {
        return false;
    }
    *value = bytes[0] != 0;
    return true;
}

/* Text, and its length in bytes; NULL: there is none. Postgres: text, varchar, char(n), name, json, unknown. MySQL: whatever
 * is text, and in a block of text (`CENOTE_BLOCK_TEXT`) numbers as well. */
static inline const char *cenote_block_text(const cenote_block *block, uint32_t row, uint32_t column, size_t *length) {
    const uint8_t *bytes = cenote_block_field(block, row, column, length);
    bool is_text = false;
    if (bytes != NULL) {
        uint32_t type_code = cenote_block_column_type(block, column);
        if (block->flags & CENOTE_BLOCK_MYSQL) {
            bool is_bytes = (cenote_block_column_flags(block, column) & CENOTE_COLUMN_BYTES) != 0;
            /* From 245 on: JSON, DECIMAL, ENUM, SET, and the texts; 0, 15: DECIMAL and VARCHAR of old. */
            is_text = !is_bytes
                && (block->flags & CENOTE_BLOCK_TEXT || type_code == 0 || type_code == 15 || type_code >= 245);
        } else {
            switch (type_code) {
                case 19: case 25: case 114: case 705: case 1042: case 1043:
                    is_text = true;
            }
        }
    }
    if (!is_text) {
        *length = 0;
        return NULL;
    }
    return (const char *)bytes;
}

/* Bytes, and how many; NULL: there are none. Postgres: bytea. MySQL: BINARY, VARBINARY, BLOB, BIT, GEOMETRY. */
static inline const uint8_t *cenote_block_bytes(const cenote_block *block, uint32_t row, uint32_t column, size_t *length) {
    const uint8_t *bytes = cenote_block_field(block, row, column, length);
    bool is_bytes = false;
    if (bytes != NULL) {
        is_bytes = block->flags & CENOTE_BLOCK_MYSQL
            ? (cenote_block_column_flags(block, column) & CENOTE_COLUMN_BYTES) != 0
            : cenote_block_column_type(block, column) == 17;
    }
    if (!is_bytes) {
        *length = 0;
        return NULL;
    }
    return bytes;
}

#ifdef __cplusplus
}
#endif

#endif
