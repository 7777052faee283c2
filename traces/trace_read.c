#include "traces/activity/activity_file.h"
#include "traces/annotations.h"
#include "traces/database.h"
#include "traces/records.h"
#include "traces/trace_file.h"

#include <string.h>

/* Selects a row of meta by key. */
static int step_to(sqlite3_stmt *row, const char *key)
{
    sqlite3_reset(row);
    sqlite3_bind_text(row, 1, key, -1, SQLITE_STATIC);
    return sqlite3_step(row);
}

/* Leaves *out NULL if the key is missing. */
static bool meta_text(const struct database *database, sqlite3_stmt *row, const char *key,
                      char **out, GError **error)
{
    int status = step_to(row, key);
    if (status == SQLITE_DONE)
        return true;
    if (status != SQLITE_ROW) {
        database_set_error(database, error);
        return false;
    }
    const char *value = (const char *)sqlite3_column_text(row, 0);
    if (!value || !g_utf8_validate(value, sqlite3_column_bytes(row, 0), NULL)) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID, "%s: meta: %s is not text",
                    database->path, key);
        return false;
    }
    *out = g_strdup(value);
    return true;
}

static bool meta_number(const struct database *database, sqlite3_stmt *row, const char *key,
                        uint64_t most, uint64_t *out, GError **error)
{
    int status = step_to(row, key);
    if (status != SQLITE_ROW && status != SQLITE_DONE) {
        database_set_error(database, error);
        return false;
    }
    sqlite3_int64 value = status == SQLITE_ROW ? sqlite3_column_int64(row, 0) : -1;
    if (value < 0 || (uint64_t)value > most || sqlite3_column_type(row, 0) != SQLITE_INTEGER) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: meta: %s is %s; it must be an integer in [0, %" G_GUINT64_FORMAT "]",
                    database->path, key, status == SQLITE_DONE ? "missing" : "wrong", most);
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

/* Reads a number that is `otherwise` if the key is missing. */
static bool meta_number_or(const struct database *database, sqlite3_stmt *row, const char *key,
                           uint64_t most, uint64_t otherwise, uint64_t *out, GError **error)
{
    *out = otherwise;
    return step_to(row, key) == SQLITE_DONE || meta_number(database, row, key, most, out, error);
}

static bool meta_element_bytes(const struct database *database, sqlite3_stmt *row,
                               struct trace *trace, GError **error)
{
    bool ok = true;
    for (unsigned list = 0; ok && list < TRACE_LISTS; list++) {
        char *key = g_strconcat("element_bytes_", trace_list_name((enum trace_list)list), NULL);
        uint64_t bytes = 0;
        bool may_lack = list == TRACE_GATHERED && step_to(row, key) == SQLITE_DONE;
        ok = may_lack || meta_number(database, row, key, UINT8_MAX, &bytes, error);
        trace->list_element_bytes[list] = (uint8_t)bytes;
        g_free(key);
    }
    return ok;
}

bool trace_is_partial(const char *path, bool *partial, GError **error)
{
    uint64_t number = 0;
    struct database *database = database_open(path, error);
    if (!database)
        return false;
    sqlite3_stmt *row = database_prepare(database, "SELECT value FROM meta WHERE key = ?", error);
    bool ok = row && meta_number(database, row, "partial", 1, &number, error);
    sqlite3_finalize(row);
    database_close(database);
    *partial = number == 1;
    return ok;
}

static bool trace_load_meta(const struct database *database, struct trace *trace, GError **error)
{
    uint64_t batch = 0, sequence = 0, micro_batches = 0, estimated = 0, partial = 0;
    uint64_t ranks = 0, shared = 0, stages = 0, stage = 0;
    uint64_t gradients = 0, states = 0;
    sqlite3_stmt *row = database_prepare(database, "SELECT value FROM meta WHERE key = ?", error);
    bool ok =
        row && meta_text(database, row, "producer", &trace->producer, error) &&
        meta_text(database, row, "model", &trace->model, error) &&
        meta_text(database, row, "precision", &trace->precision, error) &&
        meta_text(database, row, "machine", &trace->machine, error) &&
        meta_number(database, row, "batch", UINT32_MAX, &batch, error) &&
        meta_number(database, row, "sequence", UINT32_MAX, &sequence, error) &&
        meta_number(database, row, "micro_batches", UINT32_MAX, &micro_batches, error) &&
        meta_number_or(database, row, "ranks", UINT32_MAX, 0, &ranks, error) &&
        meta_number_or(database, row, "shared_parameters", 1, 0, &shared, error) &&
        meta_number_or(database, row, "whole_gradients", 1, 0, &gradients, error) &&
        meta_number_or(database, row, "whole_states", 1, 0, &states, error) &&
        meta_number_or(database, row, "stages", UINT32_MAX, 0, &stages, error) &&
        meta_number_or(database, row, "stage", UINT32_MAX, 0, &stage, error) &&
        meta_number_or(database, row, "state_block", INT64_MAX, 0, &trace->state_block, error) &&
        meta_number(database, row, "library_bytes", INT64_MAX, &trace->library_bytes, error) &&
        meta_number(database, row, "estimated", 1, &estimated, error) &&
        meta_number(database, row, "partial", 1, &partial, error) &&
        meta_element_bytes(database, row, trace, error);
    sqlite3_finalize(row);
    trace->batch = (uint32_t)batch;
    trace->sequence = (uint32_t)sequence;
    trace->micro_batches = (uint32_t)micro_batches;
    trace->ranks = (uint32_t)ranks;
    trace->shared_parameters = shared == 1;
    trace->whole_gradients = gradients == 1;
    trace->whole_states = states == 1;
    trace->stages = (uint32_t)stages;
    trace->stage = (uint32_t)stage;
    trace->estimated = estimated == 1;
    trace->partial = partial == 1;
    return ok;
}

/* Reading the tables. Every value is checked, because a file may come from anywhere. */

struct loader {
    const struct database *database;
    const char *table;
    struct trace *trace;
    GArray *rows;
    GError **error;
};

G_GNUC_PRINTF(3, 4)
static bool refuse(const struct loader *loader, sqlite3_int64 row, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(loader->error, TRACE_ERROR, TRACE_ERROR_INVALID,
                "%s: %s: row %" G_GINT64_FORMAT ": %s", loader->database->path, loader->table,
                (gint64)row, reason);
    g_free(reason);
    return false;
}

/* Reads a number in [0, most]. */
static bool number(const struct loader *loader, sqlite3_stmt *row, int column, uint64_t most,
                   uint64_t *out)
{
    sqlite3_int64 value = sqlite3_column_int64(row, column);
    if (sqlite3_column_type(row, column) != SQLITE_INTEGER || value < 0 || (uint64_t)value > most)
        return refuse(loader, sqlite3_column_int64(row, 0),
                      "%s must be an integer in [0, %" G_GUINT64_FORMAT "]",
                      sqlite3_column_name(row, column), most);
    *out = (uint64_t)value;
    return true;
}

static bool number_32(const struct loader *loader, sqlite3_stmt *row, int column, uint32_t *out)
{
    uint64_t value = 0;
    if (!number(loader, row, column, UINT32_MAX, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

/* Reads a number; NULL stands for 0. */
static bool number_or_null(const struct loader *loader, sqlite3_stmt *row, int column,
                           uint64_t *out)
{
    *out = 0;
    return sqlite3_column_type(row, column) == SQLITE_NULL ||
           number(loader, row, column, INT64_MAX, out);
}

/* Returns a text that is valid until the next step; NULL on error. */
static const char *text(const struct loader *loader, sqlite3_stmt *row, int column)
{
    const char *value = (const char *)sqlite3_column_text(row, column);
    int bytes = sqlite3_column_bytes(row, column);
    if (sqlite3_column_type(row, column) != SQLITE_TEXT || !value ||
        !g_utf8_validate(value, bytes, NULL)) {
        refuse(loader, sqlite3_column_int64(row, 0), "%s is not text",
               sqlite3_column_name(row, column));
        return NULL;
    }
    return value;
}

/* Reads the name of an enumerator and sets its number. */
static bool name(const struct loader *loader, sqlite3_stmt *row, int column,
                 bool (*parse)(const char *, uint8_t *), uint8_t *out)
{
    const char *value = text(loader, row, column);
    return value && (parse(value, out) ||
                     refuse(loader, sqlite3_column_int64(row, 0), "no %s is called '%s'",
                            sqlite3_column_name(row, column), value));
}

/* Reads the names of the lists that have a tensor. */
static bool lists_of(const struct loader *loader, sqlite3_stmt *row, struct trace_tensor *tensor)
{
    const char *value = text(loader, row, 3);
    if (!value)
        return false;
    g_auto(GStrv) words = g_strsplit(value, " ", -1);
    tensor->absent = (uint8_t)((1 << TRACE_LISTS) - 1);
    for (char **word = words; *word; word++) {
        uint8_t list;
        if (!trace_list_parse(*word, &list))
            return refuse(loader, sqlite3_column_int64(row, 0), "there is no list '%s'", *word);
        tensor->absent &= (uint8_t) ~(1 << list);
    }
    for (int list = 0; list < TRACE_LISTS; list++)
        if (!loader->trace->list_element_bytes[list])
            tensor->absent &= (uint8_t) ~(1 << list);
    return true;
}

static bool load_tensor(struct loader *loader, sqlite3_stmt *row)
{
    struct trace_tensor tensor = {0};
    const char *called = text(loader, row, 1);
    if (!called || !number(loader, row, 2, INT64_MAX, &tensor.elements) ||
        (sqlite3_column_count(row) > 3 && !lists_of(loader, row, &tensor)))
        return false;
    tensor.name = g_strdup(called);
    g_array_append_val(loader->rows, tensor);
    return true;
}

static bool load_operator(struct loader *loader, sqlite3_stmt *row)
{
    struct trace_operator op = {.layer = -1};
    uint64_t layer = 0;
    const char *called = text(loader, row, 1);
    if (!called || !name(loader, row, 2, trace_phase_parse, &op.phase) ||
        !name(loader, row, 3, trace_place_parse, &op.place) ||
        !number_32(loader, row, 5, &op.micro_batch) ||
        !number(loader, row, 6, INT64_MAX, &op.flops) ||
        !number(loader, row, 7, INT64_MAX, &op.bytes) ||
        !number(loader, row, 8, INT64_MAX, &op.h2d_bytes) ||
        !number(loader, row, 9, INT64_MAX, &op.d2h_bytes) ||
        !number_or_null(loader, row, 10, &op.duration_ns))
        return false;
    if (sqlite3_column_type(row, 4) != SQLITE_NULL) {
        if (!number(loader, row, 4, TRACE_LAST_LAYER, &layer))
            return false;
        op.layer = (int32_t)layer;
    }
    op.name = g_strdup(called);
    g_array_append_val(loader->rows, op);
    return true;
}

static bool load_access(struct loader *loader, sqlite3_stmt *row)
{
    struct trace *trace = loader->trace;
    struct trace_access access = {0};
    moment_id moment = 0;
    uint64_t block = 0;
    if (!number_32(loader, row, 1, &moment) || !number_32(loader, row, 2, &access.tensor) ||
        !name(loader, row, 3, trace_access_list_parse, &access.list) ||
        !name(loader, row, 4, trace_mode_parse, &access.mode) ||
        (trace->state_block && !number(loader, row, 5, UINT16_MAX, &block)))
        return false;
    access.block = (uint16_t)block;
    if (moment >= trace->operator_count)
        return refuse(loader, sqlite3_column_int64(row, 0), "there is no operator %u", moment);
    struct trace_operator *op = &trace->operators[moment];
    if (op->access_count == 0)
        op->first_access = loader->rows->len;
    if (op->first_access + op->access_count != loader->rows->len)
        return refuse(loader, sqlite3_column_int64(row, 0),
                      "the accesses of operator %u are not in consecutive rows", moment);
    op->access_count++;
    g_array_append_val(loader->rows, access);
    return true;
}

static bool load_buffer(struct loader *loader, sqlite3_stmt *row)
{
    struct trace_buffer buffer = {0};
    uint64_t saved = 0;
    const char *called = text(loader, row, 1);
    if (!called || !number(loader, row, 2, INT64_MAX, &buffer.bytes) ||
        !number_32(loader, row, 3, &buffer.first) || !number_32(loader, row, 4, &buffer.last) ||
        !number(loader, row, 5, 1, &saved) ||
        !number(loader, row, 6, INT64_MAX, &buffer.recompute_flops))
        return false;
    buffer.saved = saved == 1;
    buffer.name = g_strdup(called);
    g_array_append_val(loader->rows, buffer);
    return true;
}

static bool load_use(struct loader *loader, sqlite3_stmt *row)
{
    struct trace_use use = {0};
    if (!number_32(loader, row, 1, &use.buffer) || !number_32(loader, row, 2, &use.moment) ||
        !name(loader, row, 3, trace_use_parse, &use.kind))
        return false;
    g_array_append_val(loader->rows, use);
    return true;
}

/* Sets what an operator exchanges; `rows` counts the rows. */
static bool load_exchange(struct loader *loader, sqlite3_stmt *row)
{
    struct trace *trace = loader->trace;
    struct trace_exchange exchange = {0};
    uint8_t collective = 0;
    moment_id moment = 0;
    if (!number_32(loader, row, 1, &moment) ||
        !name(loader, row, 2, trace_collective_parse, &collective) ||
        !number(loader, row, 3, INT64_MAX, &exchange.sent_bytes) ||
        !number(loader, row, 4, INT64_MAX, &exchange.received_bytes))
        return false;
    if (moment >= trace->operator_count)
        return refuse(loader, sqlite3_column_int64(row, 0), "there is no operator %u", moment);
    struct trace_exchange *known = &trace->operators[moment].exchange[collective];
    if (known->sent_bytes || known->received_bytes)
        return refuse(loader, sqlite3_column_int64(row, 0), "operator %u has another %s", moment,
                      trace_collective_name((enum trace_collective)collective));
    *known = exchange;
    g_array_append_val(loader->rows, moment);
    return true;
}

static bool load_moment(struct loader *loader, sqlite3_stmt *row)
{
    uint64_t bytes = 0;
    if (!number(loader, row, 1, INT64_MAX, &bytes))
        return false;
    g_array_append_val(loader->rows, bytes);
    return true;
}

/* Loads rows by id, which must count from 0 without gaps. On error, `rows` holds the rows before
 * the bad one, so that they can be freed. */
static bool load_rows(struct loader *loader, const char *sql,
                      bool (*load)(struct loader *, sqlite3_stmt *))
{
    sqlite3_stmt *row = database_prepare(loader->database, sql, loader->error);
    if (!row)
        return false;
    int status;
    bool ok = true;
    while (ok && (status = sqlite3_step(row)) != SQLITE_DONE) {
        if (status != SQLITE_ROW) {
            database_set_error(loader->database, loader->error);
            ok = false;
        } else if (sqlite3_column_int64(row, 0) != (sqlite3_int64)loader->rows->len) {
            ok = refuse(loader, loader->rows->len, "missing");
        } else if (loader->rows->len == UINT32_MAX - 1) {
            ok = refuse(loader, loader->rows->len, "more rows than a trace can have");
        } else {
            ok = load(loader, row);
        }
    }
    sqlite3_finalize(row);
    return ok;
}

/* The rows of a table, freed with g_free. NULL if there are none. */
struct table {
    void *rows;
    uint32_t count;
};

/* Loads a table. On error it holds the rows before the bad one. */
static bool load_table(const struct database *database, struct trace *trace, const char *name,
                       const char *columns, size_t row_bytes,
                       bool (*load)(struct loader *, sqlite3_stmt *), struct table *table,
                       GError **error)
{
    struct loader loader = {
        .database = database,
        .table = name,
        .trace = trace,
        .rows = g_array_new(false, false, (guint)row_bytes),
        .error = error,
    };
    char *sql = g_strdup_printf("SELECT %s FROM %s ORDER BY id", columns, name);
    bool ok = load_rows(&loader, sql, load);
    g_free(sql);
    table->count = loader.rows->len;
    table->rows = g_array_free(loader.rows, loader.rows->len == 0);
    return ok;
}

static bool user_version(const struct database *database, int *version, GError **error)
{
    sqlite3_stmt *row = database_prepare(database, "PRAGMA user_version", error);
    bool ok = row && sqlite3_step(row) == SQLITE_ROW;
    if (ok)
        *version = sqlite3_column_int(row, 0);
    else if (row)
        database_set_error(database, error);
    sqlite3_finalize(row);
    return ok;
}

static bool load_tensors(const struct database *database, struct trace *trace, GError **error)
{
    struct table table;
    int version = 0;
    if (!user_version(database, &version, error))
        return false;
    bool partial = version >= TRACE_SCHEMA_PARTIAL;
    bool ok = load_table(database, trace, "tensors",
                         partial ? "id, name, elements, lists" : "id, name, elements",
                         sizeof(struct trace_tensor), load_tensor, &table, error);
    trace->tensors = table.rows;
    trace->tensor_count = table.count;
    return ok;
}

static bool load_operators(const struct database *database, struct trace *trace, GError **error)
{
    struct table table;
    bool ok = load_table(database, trace, "operators",
                         "id, name, phase, place, layer, micro_batch, flops, bytes, h2d_bytes, "
                         "d2h_bytes, duration_ns",
                         sizeof(struct trace_operator), load_operator, &table, error);
    trace->operators = table.rows;
    trace->operator_count = table.count;
    return ok;
}

/* Accesses are ordered by operator. An operator without any gets the position where its accesses
 * would begin. */
static void place_empty_operators(struct trace *trace)
{
    uint32_t next = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (trace->operators[m].access_count == 0)
            trace->operators[m].first_access = next;
        next = trace->operators[m].first_access + trace->operators[m].access_count;
    }
}

static bool load_accesses(const struct database *database, struct trace *trace, GError **error)
{
    struct table table;
    bool ok = load_table(database, trace, "accesses",
                         trace->state_block ? "id, operator, tensor, list, mode, block"
                                            : "id, operator, tensor, list, mode",
                         sizeof(struct trace_access), load_access, &table, error);
    trace->accesses = table.rows;
    trace->access_count = table.count;
    place_empty_operators(trace);
    return ok;
}

static bool load_buffers(const struct database *database, struct trace *trace, GError **error)
{
    struct table table;
    bool ok = load_table(database, trace, "buffers",
                         "id, name, bytes, first, last, saved, recompute_flops",
                         sizeof(struct trace_buffer), load_buffer, &table, error);
    trace->buffers = table.rows;
    trace->buffer_count = table.count;
    return ok;
}

static bool load_uses(const struct database *database, struct trace *trace, GError **error)
{
    struct table table = {0};
    if (!database_has_table(database, "uses"))
        return true;
    bool ok = load_table(database, trace, "uses", "id, buffer, operator, kind",
                         sizeof(struct trace_use), load_use, &table, error);
    trace->uses = table.rows;
    trace->use_count = table.count;
    return ok;
}

static bool load_exchanges(const struct database *database, struct trace *trace, GError **error)
{
    struct table table = {0};
    if (!database_has_table(database, "exchanges"))
        return true;
    bool ok = load_table(database, trace, "exchanges",
                         "id, operator, collective, sent_bytes, received_bytes", sizeof(moment_id),
                         load_exchange, &table, error);
    g_free(table.rows);
    return ok;
}

static bool load_moments(const struct database *database, struct trace *trace, GError **error)
{
    struct table table;
    bool ok = load_table(database, trace, "moments", "id, non_model_bytes", sizeof(uint64_t),
                         load_moment, &table, error);
    trace->non_model_bytes = table.rows;
    if (ok && table.count != trace->operator_count) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: moments: %u rows for %u operators", database->path, table.count,
                    trace->operator_count);
        return false;
    }
    return ok;
}

static bool load_iteration(const struct database *database, struct trace *trace, GError **error)
{
    if (!database_has_table(database, "operators")) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: holds NVTX ranges but no iteration: the traced program did not annotate "
                    "its tensors and operators",
                    database->path);
        return false;
    }
    return load_tensors(database, trace, error) && load_operators(database, trace, error) &&
           load_accesses(database, trace, error) && load_buffers(database, trace, error) &&
           load_uses(database, trace, error) && load_exchanges(database, trace, error) &&
           load_moments(database, trace, error) && trace_check(trace, database->path, error);
}

struct trace *trace_read(const char *path, GError **error)
{
    struct database *database = database_open(path, error);
    if (!database)
        return NULL;
    struct trace *trace = g_new0(struct trace, 1);
    /* One transaction, so that all tables have the same state of the file. */
    bool ok = database_execute(database, "BEGIN", error) &&
              trace_load_meta(database, trace, error) && load_iteration(database, trace, error);
    database_close(database);
    if (!ok)
        g_clear_pointer(&trace, trace_free);
    return trace;
}

struct trace *trace_read_whole(const char *path, GError **error)
{
    struct trace *trace = trace_read(path, error);
    if (!trace || trace->stages <= 1)
        return trace;
    g_set_error(
        error, TRACE_ERROR, TRACE_ERROR_INVALID,
        "%s: the trace is stage %u of a pipeline of %u; each waits for the others, so pstar-sim "
        "needs the traces of all of them, and pstar-plan does not plan them yet",
        path, trace->stage, trace->stages);
    trace_free(trace);
    return NULL;
}

static bool verify_pages(const struct database *database, GError **error)
{
    sqlite3_stmt *row = database_prepare(database, "PRAGMA integrity_check(1)", error);
    if (!row)
        return false;
    bool ok = true;
    if (sqlite3_step(row) != SQLITE_ROW) {
        database_set_error(database, error);
        ok = false;
    } else if (g_strcmp0((const char *)sqlite3_column_text(row, 0), "ok") != 0) {
        g_autofree char *reason = g_strdup((const char *)sqlite3_column_text(row, 0));
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_NOT_OURS, "%s: damaged: %s", database->path,
                    g_strdelimit(reason, "\n", ' '));
        ok = false;
    }
    sqlite3_finalize(row);
    return ok;
}

/* Returns the id of the annotation domain; 0 if it was not recorded. */
static uint32_t find_domain(const struct records *records)
{
    for (uint32_t i = 0; i < records->event_count; i++)
        if (records->events[i].type == RECORD_DOMAIN &&
            strcmp(records_text(records, records->events[i].text), ANNOTATION_DOMAIN) == 0)
            return records->events[i].domain;
    return 0;
}

/* `trace` may be NULL if the file holds no iteration. */
static bool verify_ranges(const char *path, const struct trace *trace,
                          const struct records *records, GError **error)
{
    uint32_t domain = find_domain(records);
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        const char *fault = NULL;
        if (event->end_ns != 0 && event->end_ns < event->start_ns)
            fault = "ends before it begins";
        else if (domain != 0 && trace && event->domain == domain &&
                 event->type == RECORD_PUSH_POP && event->category == ANNOTATION_OPERATOR &&
                 event->payload >= trace->operator_count)
            fault = "names an operator that the trace does not have";
        if (fault) {
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                        "%s: NVTX_EVENTS: the range '%s' that starts at %" G_GUINT64_FORMAT " %s",
                        path, records_text(records, event->text), event->start_ns, fault);
            return false;
        }
    }
    return true;
}

bool trace_verify(const char *path, GError **error)
{
    struct database *database = database_open(path, error);
    bool ok = database && verify_pages(database, error);
    database_close(database);
    if (!ok)
        return false;
    bool partial = false;
    struct trace *trace = NULL;
    struct activity *activity = NULL;
    struct records *records = records_read(path, error);
    if (records && trace_is_partial(path, &partial, error) &&
        (!records->has_iteration || (trace = trace_read(path, error))))
        activity = activity_read(path, ACTIVITY_ALL, error);
    ok = activity && verify_ranges(path, trace, records, error) &&
         activity_verify(activity, records, partial, path, error);
    activity_free(activity);
    records_free(records);
    trace_free(trace);
    return ok;
}
