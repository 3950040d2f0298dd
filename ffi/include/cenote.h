/* libcenote: Postgres and MySQL, many callers' statements down a few shared connections.
 *
 * Made from the library's sources; do not edit. To read results and to write values comfortably: cenote_block.h. */

#ifndef CENOTE_H
#define CENOTE_H

#include <stddef.h>
#include <stdint.h>

/*
 The first number of a block: `CNB1`, the first letter lowest.
 */
#define CENOTE_BLOCK_MAGIC 826428995

/*
 It came from MySQL or MariaDB.
 */
#define CENOTE_BLOCK_MYSQL 1

/*
 Its values are text, as a MySQL statement has them that the server does not prepare.
 */
#define CENOTE_BLOCK_TEXT 2

/*
 It holds blocks instead of rows.
 */
#define CENOTE_BLOCK_BATCH 4

/*
 In a field: it is NULL.
 */
#define CENOTE_FIELD_NULL 2147483648

/*
 In a column: an integer that is not negative (MySQL).
 */
#define CENOTE_COLUMN_UNSIGNED 1

/*
 In a column: bytes, not text (MySQL).
 */
#define CENOTE_COLUMN_BYTES 2

/*
 In a column: a type of the database's own whose values are text (Postgres: an enum, citext), or an array of such.
 */
#define CENOTE_COLUMN_TEXT 4

/*
 In a column: an array (Postgres).
 */
#define CENOTE_COLUMN_ARRAY 8

/*
 In a completion: `value` says where in the drain buffer its block begins.
 */
#define CENOTE_COMPLETION_INLINE 1

/*
 In a completion: `value` is the address of its block, and `handle` frees it.
 */
#define CENOTE_COMPLETION_BLOCK 2

/*
 In a completion: `handle` is an error, to be freed.
 */
#define CENOTE_COMPLETION_ERROR 4

/*
 In a completion: `handle` is a lease or a transaction, to be freed.
 */
#define CENOTE_COMPLETION_SESSION 8

/*
 In a completion: an HTTP request, in the place of a block.
 */
#define CENOTE_COMPLETION_REQUEST 16

/*
 In a completion: the HTTP server with this tag has ended.
 */
#define CENOTE_COMPLETION_ENDED 32

/*
 The least drain buffer: one completion, and a small block.
 */
#define CENOTE_DRAIN_BYTES_MIN 4096

/*
 What it says, for a person.
 */
#define CENOTE_FIELD_MESSAGE 0

/*
 The SQLSTATE: five characters.
 */
#define CENOTE_FIELD_SQL_STATE 1

/*
 The server's own words, without where it happened.
 */
#define CENOTE_FIELD_SERVER_MESSAGE 2

/*
 Postgres: more about it.
 */
#define CENOTE_FIELD_DETAIL 3

/*
 Postgres: what to do about it.
 */
#define CENOTE_FIELD_HINT 4

/*
 Postgres: how severe it is, never translated.
 */
#define CENOTE_FIELD_SEVERITY 5

/*
 Postgres: the schema it is about.
 */
#define CENOTE_FIELD_SCHEMA 6

/*
 Postgres: the table.
 */
#define CENOTE_FIELD_TABLE 7

/*
 Postgres: the column.
 */
#define CENOTE_FIELD_COLUMN 8

/*
 Postgres: the data type.
 */
#define CENOTE_FIELD_DATA_TYPE 9

/*
 Postgres: the constraint.
 */
#define CENOTE_FIELD_CONSTRAINT 10

/*
 Postgres: where in the server's calls it happened.
 */
#define CENOTE_FIELD_CONTEXT 11

/*
 Postgres: the query the server made by itself.
 */
#define CENOTE_FIELD_INTERNAL_QUERY 12

/*
 Postgres: the source file.
 */
#define CENOTE_FIELD_FILE 13

/*
 Postgres: the routine.
 */
#define CENOTE_FIELD_ROUTINE 14

/*
 The question whether a statement was sent does not arise: there is an answer.
 */
#define CENOTE_SENT_NO_QUESTION -1

/*
 No byte of it has left: nothing happened.
 */
#define CENOTE_SENT_NO 0

/*
 It was sent and there is no answer: it may have happened.
 */
#define CENOTE_SENT_YES 1

/*
 The port may be shared with other contexts, and other processes of the same user (`SO_REUSEPORT`): the kernel spreads the
 connections.
 */
#define CENOTE_HTTP_SHARE_PORT 1

/*
 Requests come with their headers; else without.
 */
#define CENOTE_HTTP_HEADERS 2

/*
 In an answer: the connection is closed behind it.
 */
#define CENOTE_ANSWER_CLOSE 1

/*
 The statement may run twice: if its connection is lost after it was sent, it is sent once more on another.
 */
#define CENOTE_QUERY_IDEMPOTENT 1

/*
 The server's own isolation level.
 */
#define CENOTE_ISOLATION_DEFAULT 0

/*
 READ UNCOMMITTED (MySQL; Postgres has none).
 */
#define CENOTE_ISOLATION_READ_UNCOMMITTED 1

/*
 READ COMMITTED.
 */
#define CENOTE_ISOLATION_READ_COMMITTED 2

/*
 REPEATABLE READ.
 */
#define CENOTE_ISOLATION_REPEATABLE_READ 3

/*
 SERIALIZABLE.
 */
#define CENOTE_ISOLATION_SERIALIZABLE 4

/*
 The transaction reads only.
 */
#define CENOTE_TRANSACTION_READ_ONLY 1

/*
 Postgres: it may wait at its beginning so that it never fails (with SERIALIZABLE and READ_ONLY).
 */
#define CENOTE_TRANSACTION_DEFERRABLE 2

/*
 MySQL: its snapshot is taken at once.
 */
#define CENOTE_TRANSACTION_SNAPSHOT 4

/*
 It was done, or is under way.
 */
#define CENOTE_OK 0

/*
 A pointer that must not be NULL is.
 */
#define CENOTE_ERR_NULL -1

/*
 There is nothing of that kind with this handle: never was, or not any more.
 */
#define CENOTE_ERR_HANDLE -2

/*
 An argument makes no sense: text that is not UTF-8, a length past the bound, a struct that is too small, a tag that is
 in use, a setting that cannot be met.
 */
#define CENOTE_ERR_ARGUMENT -3

/*
 The pool, lease or transaction was closed.
 */
#define CENOTE_ERR_CLOSED -4

/*
 The context has as many operations under way as it may have.
 */
#define CENOTE_ERR_FULL -5

/*
 A defect of cenote: it has panicked. The process goes on; what the call was about may be lost.
 */
#define CENOTE_ERR_PANIC -6

/*
 This process is a forked child of the one that the library was loaded in; it can do nothing here.
 */
#define CENOTE_ERR_FORKED -7

/*
 The server refused the statement or the log-in.
 */
#define CENOTE_ERR_SERVER -8

/*
 The connection was lost.
 */
#define CENOTE_ERR_NETWORK -9

/*
 No room, or no answer, in time.
 */
#define CENOTE_ERR_TIMEOUT -10

/*
 The other end does not keep to the protocol.
 */
#define CENOTE_ERR_PEER -11

/*
 The server has ended the transaction by itself.
 */
#define CENOTE_ERR_TRANSACTION -12

/*
 The statement was at fault: a value of the wrong type, a statement that does not belong where it was sent.
 */
#define CENOTE_ERR_STATEMENT -13

/*
 The system gives no thread, no descriptor, or no memory.
 */
#define CENOTE_ERR_SYSTEM -14

/*
 The result is larger than can be handed over (2 GiB of values).
 */
#define CENOTE_ERR_TOO_LARGE -15

/*
 Another thread is in a call on this context that only one may make at a time.
 */
#define CENOTE_ERR_BUSY -16

/*
 The least of them.
 */
#define CENOTE_ERR_LEAST CENOTE_ERR_BUSY

/*
 NULL.
 */
#define CENOTE_VALUE_NULL 0

/*
 A truth value.
 */
#define CENOTE_VALUE_BOOL 1

/*
 A signed integer.
 */
#define CENOTE_VALUE_INT 2

/*
 An integer that is not negative.
 */
#define CENOTE_VALUE_UINT 3

/*
 A floating-point number.
 */
#define CENOTE_VALUE_DOUBLE 4

/*
 Text.
 */
#define CENOTE_VALUE_TEXT 5

/*
 Bytes.
 */
#define CENOTE_VALUE_BYTES 6

/*
 JSON.
 */
#define CENOTE_VALUE_JSON 7

/*
 A moment.
 */
#define CENOTE_VALUE_TIMESTAMP 8

/*
 A date and a time, wherever.
 */
#define CENOTE_VALUE_DATETIME 9

/*
 A date.
 */
#define CENOTE_VALUE_DATE 10

/*
 A time of day.
 */
#define CENOTE_VALUE_TIME 11

/*
 A length of time.
 */
#define CENOTE_VALUE_INTERVAL 12

/*
 A UUID.
 */
#define CENOTE_VALUE_UUID 13

/*
 A decimal number.
 */
#define CENOTE_VALUE_DECIMAL 14

/*
 Several values.
 */
#define CENOTE_VALUE_LIST 15

/*
 Raised when something a program was compiled against changes: it has to be compiled anew.
 */
#define CENOTE_ABI_VERSION_MAJOR 0

/*
 Raised when something is added.
 */
#define CENOTE_ABI_VERSION_MINOR 1

/*
 The version of the library that a program was compiled against: changes that break it.
 */
#define CENOTE_VERSION_MAJOR 0

/*
 Changes that it may have to know of.
 */
#define CENOTE_VERSION_MINOR 1

/*
 Corrections.
 */
#define CENOTE_VERSION_PATCH 0

/*
 Nobody is told: the host waits in `cenote_wait`, or looks now and then.
 */
#define CENOTE_WAKE_NONE 0

/*
 The descriptor of `cenote_context_fd` becomes readable.
 */
#define CENOTE_WAKE_EVENTFD 1

/*
 A function of the host is called, on the context's own thread of ours. It may call whatever it likes; only `cenote_wait` is
 `CENOTE_ERR_BUSY` there.
 */
#define CENOTE_WAKE_CALLBACK 2

/*
 An integer is posted to a Dart port.
 */
#define CENOTE_WAKE_DART_PORT 3

/*
 How a context is to be.
 */
typedef struct cenote_context_options {
    /*
     The size of this struct.
     */
    uint32_t size;
    /*
     How the host is told that there is something to drain: one of `CENOTE_WAKE_*`.
     */
    int32_t wake;
    /*
     Of `CENOTE_WAKE_CALLBACK`: the function.
     */
    void (*function)(void *data);
    /*
     What the function is called with.
     */
    void *data;
    /*
     Of `CENOTE_WAKE_DART_PORT`: `NativeApi.initializeApiDLData`.
     */
    const void *dart_api;
    /*
     The port's number (`SendPort.nativePort`).
     */
    int64_t dart_port;
    /*
     Operations at once; 0: as many as usual (65,536).
     */
    uint64_t operations_max;
} cenote_context_options;

/*
 What the library holds for its host: each of these is 0 again when the host has freed all it had.
 */
typedef struct cenote_object_counts {
    /*
     The size of this struct, by whoever asks.
     */
    uint32_t size;
    /*
     Nothing.
     */
    uint32_t reserved;
    /*
     Contexts.
     */
    uint64_t contexts;
    /*
     Open pools.
     */
    uint64_t pools;
    /*
     Leases and transactions.
     */
    uint64_t sessions;
    /*
     Blocks that do not lie in a drain buffer.
     */
    uint64_t blocks;
    /*
     Errors.
     */
    uint64_t errors;
    /*
     HTTP servers.
     */
    uint64_t servers;
} cenote_object_counts;

/*
 The numbers of an error.
 */
typedef struct cenote_error_numbers {
    /*
     The size of this struct, by whoever asks.
     */
    uint32_t size;
    /*
     The status.
     */
    int32_t status;
    /*
     MySQL: the error's number; else 0.
     */
    uint32_t number;
    /*
     Whether it was sent: one of `CENOTE_SENT_*`.
     */
    int32_t sent;
    /*
     Postgres: the place in the statement, from 1, in characters; 0: none.
     */
    uint32_t position;
    /*
     Postgres: the place in the server's own query.
     */
    uint32_t internal_position;
    /*
     Postgres: the line of the source file.
     */
    uint32_t line;
    /*
     Of a batch: the statement's number, from 0; else -1.
     */
    int32_t batch_index;
} cenote_error_numbers;

/*
 How a server is to be. Zeroed but for its size and the address it is as the HTTP core is by itself.
 */
typedef struct cenote_http_options {
    /*
     The size of this struct.
     */
    uint32_t size;
    /*
     `CENOTE_HTTP_*`, together.
     */
    uint32_t flags;
    /*
     Where to listen, `127.0.0.1:8080` for example; port 0 is any that is free.
     */
    const char *address;
    /*
     Its length in bytes.
     */
    size_t address_length;
    /*
     A body of more bytes is answered with 413. 0: 1 MiB.
     */
    uint64_t body_bytes_max;
    /*
     Connections open at once; more wait. 0: 10,000.
     */
    uint64_t connections_max;
    /*
     A stop waits so long for what is in flight. 0: 8 s.
     */
    uint32_t stop_deadline_ms;
    /*
     A connection without a request is closed after so long. 0: 75 s.
     */
    uint32_t keep_alive_timeout_ms;
} cenote_http_options;

/*
 A pool's counters. Those that count run from its opening and never go back.
 */
typedef struct cenote_pool_counters {
    /*
     The size of this struct, by whoever asks.
     */
    uint32_t size;
    /*
     Nothing.
     */
    uint32_t reserved;
    /*
     The bound on connections.
     */
    uint64_t connections_max;
    /*
     Connections that exist or are being made.
     */
    uint64_t connections;
    /*
     Of these: leased.
     */
    uint64_t leases;
    /*
     Statements in flight on shared connections.
     */
    uint64_t in_flight;
    /*
     Callers that wait for room.
     */
    uint64_t waiting;
    /*
     Callers that wait for a lease.
     */
    uint64_t waiting_for_lease;
    /*
     Replies received.
     */
    uint64_t replies;
    /*
     Write system calls.
     */
    uint64_t writes;
    /*
     Read system calls that brought bytes.
     */
    uint64_t reads;
    /*
     Bytes written.
     */
    uint64_t bytes_written;
    /*
     Bytes read.
     */
    uint64_t bytes_read;
    /*
     Connections made.
     */
    uint64_t connects;
    /*
     Connect attempts that failed.
     */
    uint64_t connect_failures;
    /*
     Connections that ended before we closed them.
     */
    uint64_t connections_lost;
    /*
     Leases taken.
     */
    uint64_t leases_taken;
    /*
     Leases that had to be rolled back or reset when they came back.
     */
    uint64_t leases_restored;
    /*
     Statements whose connection was lost after they were sent.
     */
    uint64_t lost_after_sent;
} cenote_pool_counters;

/*
 A parameter. Zeroed it is NULL.
 */
typedef struct cenote_value {
    /*
     One of `CENOTE_VALUE_*`.
     */
    int32_t kind;
    /*
     Nothing yet: 0.
     */
    uint32_t reserved;
    /*
     What is held in a number.
     */
    uint64_t bits;
    /*
     What is held in bytes. In a request of one piece: where they begin in it.
     */
    const void *data;
    /*
     How many bytes, or of a list: how many values.
     */
    size_t length;
} cenote_value;

/*
 A statement in a batch, or in a request of one piece.
 */
typedef struct cenote_statement {
    /*
     SQL, in UTF-8. In a request of one piece: where it begins in it.
     */
    const char *sql;
    /*
     Its length in bytes.
     */
    size_t sql_length;
    /*
     Its parameters. In a request of one piece: where they begin in it.
     */
    const struct cenote_value *values;
    /*
     How many.
     */
    size_t value_count;
} cenote_statement;

/*
 The front of a block.
 */
typedef struct cenote_block {
    /*
     `CENOTE_BLOCK_MAGIC`.
     */
    uint32_t magic;
    /*
     `CENOTE_BLOCK_*`, together.
     */
    uint32_t flags;
    /*
     How many columns.
     */
    uint32_t columns;
    /*
     How many rows; of a batch: how many blocks.
     */
    uint32_t rows;
    /*
     Rows returned or changed.
     */
    uint64_t rows_affected;
    /*
     MySQL: the value an INSERT drew; 0: none.
     */
    uint64_t last_insert_id;
    /*
     MySQL: how many warnings the server has.
     */
    uint32_t warnings;
    /*
     Where the columns begin, counted from the block's beginning.
     */
    uint32_t columns_at;
    /*
     Where the fields begin.
     */
    uint32_t fields_at;
    /*
     Where the values begin.
     */
    uint32_t values_at;
    /*
     The length of the block in bytes.
     */
    uint64_t length;
    /*
     Nothing yet.
     */
    uint64_t reserved;
} cenote_block;

/*
 A column of a block.
 */
typedef struct cenote_column {
    /*
     Where its name begins, counted from the block's beginning: UTF-8, without a NUL.
     */
    uint32_t name_at;
    /*
     The length of its name in bytes.
     */
    uint32_t name_length;
    /*
     Postgres: the OID of its type. MySQL: the protocol's number of it.
     */
    uint32_t type_code;
    /*
     `CENOTE_COLUMN_*`, together.
     */
    uint32_t flags;
} cenote_column;

/*
 One operation that has ended.
 */
typedef struct cenote_completion {
    /*
     The tag it was submitted with.
     */
    uint64_t tag;
    /*
     `CENOTE_OK`, or what went wrong.
     */
    int32_t status;
    /*
     `CENOTE_COMPLETION_*`: what the rest means.
     */
    uint32_t flags;
    /*
     Where the block is; or the answer to a question.
     */
    uint64_t value;
    /*
     The block's length in bytes.
     */
    uint64_t length;
    /*
     A handle that is the host's now.
     */
    uint64_t handle;
} cenote_completion;

/*
 An answer of one piece: this, and behind it the content type, the headers (`name: value` and a line feed, for each;
 not those that say where it ends) and the body, one behind the other.
 */
typedef struct cenote_http_response {
    /*
     Its length in bytes with all of that, a multiple of 8.
     */
    uint64_t length;
    /*
     The `request` that is answered.
     */
    uint64_t request;
    /*
     The status: 200, for example.
     */
    uint32_t status;
    /*
     `CENOTE_ANSWER_*`, together.
     */
    uint32_t flags;
    /*
     The length of the content type; 0: there is none.
     */
    uint32_t content_type_length;
    /*
     The length of the headers.
     */
    uint32_t headers_length;
    /*
     The length of the body.
     */
    uint64_t body_length;
} cenote_http_response;

/*
 The front of a request, as a completion brings it. Places are counted from its beginning.
 */
typedef struct cenote_http_request {
    /*
     What it is answered by.
     */
    uint64_t request;
    /*
     Where the method begins: `GET`, in capitals as sent.
     */
    uint32_t method_at;
    /*
     Its length in bytes.
     */
    uint32_t method_length;
    /*
     Where the path begins, percent-encoded as sent, without the query.
     */
    uint32_t path_at;
    /*
     Its length in bytes.
     */
    uint32_t path_length;
    /*
     Where the query begins, without the question mark.
     */
    uint32_t query_at;
    /*
     Its length in bytes.
     */
    uint32_t query_length;
    /*
     Where the headers begin: `name: value` and a line feed, for each; none where they were not asked for.
     */
    uint32_t headers_at;
    /*
     Their length in bytes.
     */
    uint32_t headers_length;
    /*
     Where the body begins.
     */
    uint32_t body_at;
    /*
     Its length in bytes.
     */
    uint32_t body_length;
} cenote_http_request;

/*
 A request of one piece: this, and behind it the statements, values, texts and bytes it names. Places are counted from its
 beginning.
 */
typedef struct cenote_request {
    /*
     Its length in bytes with all that it names, a multiple of 8.
     */
    uint64_t length;
    /*
     The host's tag.
     */
    uint64_t tag;
    /*
     A pool's, lease's or transaction's handle.
     */
    uint64_t target;
    /*
     `CENOTE_QUERY_*`, together.
     */
    uint32_t flags;
    /*
     The time it is to be answered in; 0: whenever it is.
     */
    uint32_t timeout_ms;
    /*
     Where the statements begin.
     */
    uint64_t statements_at;
    /*
     How many: 1, or a batch.
     */
    uint32_t statement_count;
    /*
     1: they are a batch, even if it is but one.
     */
    uint32_t is_batch;
} cenote_request;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Frees a block. 0 is none, and is let pass.

 Any thread, leaf-safe.
 */
int32_t cenote_block_free(uint64_t block);

/*
 The same, as a finaliser of Dart's, whose token is a pointer: the handle's number.

 Any thread, leaf-safe.
 */
void cenote_block_finalize(void *block);

/*
 Makes a context. NULL options: one that is waited for in `cenote_wait`.

 Any thread. Starts a thread, so it is no leaf.

 # Safety

 `options` is NULL or a struct of `options->size` bytes whose pointers are what they say; `context` is NULL or to be
 written through.
 */
int32_t cenote_context_new(const struct cenote_context_options *options, uint64_t *context);

/*
 The descriptor that is readable when there is something to drain, of a context with `CENOTE_WAKE_EVENTFD`. It is the
 context's: poll it, and do not read or close it. Draining makes it unreadable.

 Any thread, leaf-safe.

 # Safety

 `fd` is NULL or to be written through.
 */
int32_t cenote_context_fd(uint64_t context, int32_t *fd);

/*
 Ends a context: what is under way is abandoned, its leases and transactions are rolled back and given back, the pools
 opened with it are closed. It waits for nothing. 0 is none, and is let pass.

 Any thread. Others who wait for a lease may be told, so it is no leaf; as a finaliser it is allowed.
 */
int32_t cenote_context_free(uint64_t context);

/*
 The same, as a finaliser of Dart's, whose token is a pointer: the handle's number. Blocks and errors that were drained from
 it are freed as well: its isolate may have ended before it took them up, and no other may read them.

 A leaf: a finaliser may run while the VM collects, when nothing may be posted from its thread.
 */
void cenote_context_finalize(void *context);

/*
 Takes what has ended: completions from the buffer's beginning on, `*count` of them, and blocks behind them where they are
 small. What is in the buffer is the host's until it drains into it again.

 `*more`: 1, there is more to drain; 0, there is not, and the host will be told of the next.

 The context's thread, leaf-safe.

 # Safety

 `buffer` is to be written to for `capacity` bytes and begins where numbers of eight bytes may be; the pointers are NULL
 or to be written through.
 */
int32_t cenote_drain(uint64_t context,
                     void *buffer,
                     size_t capacity,
                     uint32_t *count,
                     int32_t *more);

/*
 Waits until there is something to drain, for at most `timeout_ms` (0: not at all), moves this context's bytes meanwhile,
 and drains as `cenote_drain` does. `*count` is 0 when nothing came in time.

 The context's thread; one at a time. It is no leaf.

 # Safety

 As for `cenote_drain`.
 */
int32_t cenote_wait(uint64_t context,
                    uint32_t timeout_ms,
                    void *buffer,
                    size_t capacity,
                    uint32_t *count,
                    int32_t *more);

/*
 The host has nothing to do until it is told: a thread of ours moves this context's bytes from here on. Without this it
 begins to when the host has been away for 2 ms.

 The context's thread, leaf-safe.
 */
int32_t cenote_context_sleep(uint64_t context);

/*
 What the library holds for its host: for finding leaks. `counts->size` says how much of the struct the caller knows.

 Any thread, leaf-safe.

 # Safety

 `counts` is NULL or a struct of `counts->size` bytes.
 */
int32_t cenote_counts(struct cenote_object_counts *counts);

/*
 How many operations of a context have not ended.

 Any thread, leaf-safe.

 # Safety

 `operations` is NULL or to be written through.
 */
int32_t cenote_context_operations(uint64_t context, uint64_t *operations);

/*
 The numbers of an error. `info->size` says how much of the struct the caller knows.

 Any thread, leaf-safe.

 # Safety

 `info` is NULL or a struct of `info->size` bytes.
 */
int32_t cenote_error_info(uint64_t error, struct cenote_error_numbers *info);

/*
 One field of an error, one of `CENOTE_FIELD_*`: UTF-8, without a NUL, valid until the error is freed. A length of 0: there is none.

 Any thread, leaf-safe.

 # Safety

 The pointers are NULL or to be written through.
 */
int32_t cenote_error_field(uint64_t error,
                           int32_t field,
                           const char **text,
                           size_t *length);

/*
 Frees an error. 0 is none, and is let pass.

 Any thread, leaf-safe.
 */
int32_t cenote_error_free(uint64_t error);

/*
 Listens, and has requests come with the context's completions: with `tag`, `CENOTE_COMPLETION_REQUEST`, and a
 `cenote_http_request` in the place of a block, to be answered. When the server has ended a last one comes with `CENOTE_COMPLETION_ENDED`.

 On failure `*error` is an error's handle, to be freed, if `error` is not NULL.

 The context's thread. It makes a socket, so it is no leaf.

 # Safety

 `options` is NULL or a struct of `options->size` bytes whose pointers are what they say; the others are NULL or to be
 written through.
 */
int32_t cenote_http_listen(uint64_t context,
                           const struct cenote_http_options *options,
                           uint64_t tag,
                           uint64_t *server,
                           uint64_t *error);

/*
 The port that a server has.

 Any thread, leaf-safe.

 # Safety

 `port` is NULL or to be written through.
 */
int32_t cenote_http_port(uint64_t server, uint16_t *port);

/*
 Answers a request. `content_type` and `headers` (`name: value` and a line feed, for each) may be empty.
 An answer to what was answered already, or whose client is gone, is passed over.

 Any thread, leaf-safe. All is copied.

 # Safety

 The pointers are to be read for their lengths.
 */
int32_t cenote_http_answer(uint64_t server,
                           uint64_t request,
                           uint32_t status,
                           uint32_t flags,
                           const char *content_type,
                           size_t content_type_length,
                           const char *headers,
                           size_t headers_length,
                           const void *body,
                           size_t body_length);

/*
 Answers with answers of one piece, one behind the other; `*answered` says how many were read, and the status what was wrong
 with the next. One whose request is gone is passed over.

 Any thread, leaf-safe. All is copied.

 # Safety

 `answers` is to be read for `length` bytes; `answered` is NULL or to be written through.
 */
int32_t cenote_http_answers(uint64_t server,
                            const void *answers,
                            size_t length,
                            uint32_t *answered);

/*
 Asks a server to end: connections that wait are accepted, the port is closed, what is in flight is to be answered, and is
 given the stop's deadline for it. A completion with `CENOTE_COMPLETION_ENDED` says when it has.

 Any thread, leaf-safe.
 */
int32_t cenote_http_stop(uint64_t server);

/*
 Lets go of a server: if it has not ended, it does so at once, and its connections are cut. 0 is none, and is let pass.

 Any thread, leaf-safe.
 */
int32_t cenote_http_free(uint64_t server);

/*
 Opens a pool by a URL, `postgres://` or `mysql://` (a keyword string is Postgres'). Nothing is connected yet. Opens with
 equal settings share one pool, in the whole process; each is counted, and closed by itself. With a context it is closed
 with that, else (0) when it is closed or the process ends.

 On failure `*error` is an error's handle, to be freed, if `error` is not NULL.

 Any thread. May read files (certificates), so it is no leaf.

 # Safety

 `url` is to be read for `url_length` bytes; the pointers are NULL or to be written through.
 */
int32_t cenote_pool_open(uint64_t context,
                         const char *url,
                         size_t url_length,
                         uint64_t *pool,
                         uint64_t *error);

/*
 Closes this open of a pool: its handle stands for nothing from here on. Whoever was last lets what is in flight finish,
 for at most `deadline_ms`; then the operation ends, with `CENOTE_OK`.

 The context's thread, leaf-safe.
 */
int32_t cenote_pool_close(uint64_t context, uint64_t pool, uint32_t deadline_ms, uint64_t tag);

/*
 Lets go of a pool without waiting: its handle stands for nothing from here on. Whoever was last has it closed when
 what is in flight has finished.

 Any thread, leaf-safe. 0 is none, and is let pass.
 */
int32_t cenote_pool_free(uint64_t pool);

/*
 The same, as a finaliser of Dart's, whose token is a pointer: the handle's number.
 */
void cenote_pool_finalize(void *pool);

/*
 A pool's counters right now. `stats->size` says how much of the struct the caller knows.

 Any thread, leaf-safe.

 # Safety

 `stats` is NULL or a struct of `stats->size` bytes.
 */
int32_t cenote_pool_stats(uint64_t pool, struct cenote_pool_counters *stats);

/*
 Runs a statement. The completion has its result as a block, also where it returns no rows: what it did is in its front.

 The context's thread, leaf-safe. The SQL and the values are copied.

 # Safety

 `sql` is to be read for `sql_length` bytes, `values` for `value_count` values, and each of them for what it holds.
 */
int32_t cenote_query(uint64_t context,
                     uint64_t target,
                     const char *sql,
                     size_t sql_length,
                     const struct cenote_value *values,
                     size_t value_count,
                     uint32_t flags,
                     uint32_t timeout_ms,
                     uint64_t tag);

/*
 Runs several statements in one round trip (Postgres) or one transaction (MySQL): all of them happen, or none. The
 completion has a block of blocks.

 The context's thread, leaf-safe. All is copied.

 # Safety

 `statements` is to be read for `statement_count` statements, and each of them as in `cenote_query`.
 */
int32_t cenote_batch(uint64_t context,
                     uint64_t target,
                     const struct cenote_statement *statements,
                     size_t statement_count,
                     uint64_t tag);

/*
 Submits requests of one piece, one behind the other; `*submitted` says how many were, and the status what was wrong with
 the next.

 The context's thread, leaf-safe. All is copied.

 # Safety

 `requests` is to be read for `length` bytes; `submitted` is NULL or to be written through.
 */
int32_t cenote_submit(uint64_t context,
                      const void *requests,
                      size_t length,
                      uint32_t *submitted);

/*
 Has the host no longer wait for what has this tag: there will be no completion. What was sent runs, and its result is
 dropped. `CENOTE_ERR_HANDLE`: nothing has this tag; its completion may have been drained.

 The context's thread, leaf-safe.
 */
int32_t cenote_abandon(uint64_t context, uint64_t tag);

/*
 Takes a lease: a connection for the caller alone. The completion has its handle in `handle`, to be freed; until then
 nobody else has the connection. Freed, it goes back to the pool as it came.

 The context's thread, leaf-safe.
 */
int32_t cenote_lease(uint64_t context, uint64_t pool, uint64_t tag);

/*
 Begins a transaction on a connection of its own. `isolation` is one of `CENOTE_ISOLATION_*`, `flags` are
 `CENOTE_TRANSACTION_*` together. The completion has its handle in `handle`, to be committed, rolled back or freed, which
 rolls it back. It costs no round trip: it begins with its first statement.

 The context's thread, leaf-safe.
 */
int32_t cenote_begin(uint64_t context,
                     uint64_t pool,
                     int32_t isolation,
                     uint32_t flags,
                     uint64_t tag);

/*
 Commits a transaction. Its handle stands for nothing from here on, whatever comes of it.

 The context's thread, leaf-safe.
 */
int32_t cenote_commit(uint64_t context, uint64_t transaction, uint64_t tag);

/*
 Rolls a transaction back. Its handle stands for nothing from here on.

 The context's thread, leaf-safe.
 */
int32_t cenote_rollback(uint64_t context, uint64_t transaction, uint64_t tag);

/*
 Asks the server to stop what runs in a lease or transaction, and ends when it has heard of it. `value` of the completion: 1,
 or 0 when there was nothing to stop.

 The context's thread, leaf-safe.
 */
int32_t cenote_cancel(uint64_t context,
                      uint64_t session,
                      uint64_t tag);

/*
 Gives a lease back, or rolls a transaction back without waiting for it. What runs in it runs to its end first. 0 is none,
 and is let pass.

 Any thread. The next in line for a lease may be told, so it is no leaf.
 */
int32_t cenote_session_free(uint64_t session);

/*
 The same, as a finaliser of Dart's, whose token is a pointer: the handle's number. A leaf: a finaliser may run while the VM
 collects, when nothing may be posted from its thread.
 */
void cenote_session_finalize(void *session);

/*
 The ABI that the library has: the major version in the upper 16 bits, the minor in the lower. A program runs with it if
 the major version is the one it was compiled against and the minor is no less.

 Any thread. Cannot fail.
 */
uint32_t cenote_abi_version(void);

/*
 The library's version as text that lives as long as the library, without a NUL.

 Any thread. Each pointer may be NULL.

 # Safety

 Pointers are NULL or to be written through.
 */
int32_t cenote_version(const char **text, size_t *length);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CENOTE_H */
