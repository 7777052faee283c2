#include "traces/database.h"
#include "traces/trace_file.h"

static void bind_text(sqlite3_stmt *statement, int column, const char *text)
{
    sqlite3_bind_text(statement, column, text, -1, SQLITE_STATIC);
}

/* Numbers fit into SQLite's signed integers, because trace_check limits them. */
static void bind_number(sqlite3_stmt *statement, int column, uint64_t number)
{
    sqlite3_bind_int64(statement, column, (sqlite3_int64)number);
}

static bool store_text(const struct database *database, sqlite3_stmt *statement, const char *key,
                       const char *text, GError **error)
{
    if (!text)
        return true;
    bind_text(statement, 1, key);
    bind_text(statement, 2, text);
    return database_insert(database, statement, error);
}

static bool store_number(const struct database *database, sqlite3_stmt *statement, const char *key,
                         uint64_t number, GError **error)
{
    bind_text(statement, 1, key);
    bind_number(statement, 2, number);
    return database_insert(database, statement, error);
}

static bool store_element_bytes(const struct database *database, sqlite3_stmt *statement,
                                const struct trace *trace, GError **error)
{
    bool ok = true;
    for (int list = 0; ok && list < TRACE_LISTS; list++) {
        if (list == TRACE_GATHERED && !trace->list_element_bytes[list])
            continue; /* as files of earlier versions */
        char *key = g_strconcat("element_bytes_", trace_list_name((enum trace_list)list), NULL);
        ok = store_number(database, statement, key, trace->list_element_bytes[list], error);
        g_free(key);
    }
    return ok;
}

static int version_of(const struct trace *trace)
{
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        if (trace->tensors[t].absent)
            return TRACE_SCHEMA_PARTIAL;
    return trace->state_block ? TRACE_SCHEMA_CUT : TRACE_SCHEMA_PLAIN;
}

/* A new database has the lowest version. */
static bool store_version(const struct database *database, sqlite3_stmt *statement,
                          const struct trace *trace, GError **error)
{
    g_autofree char *sql = g_strdup_printf("PRAGMA user_version = %d", version_of(trace));
    return (version_of(trace) == TRACE_SCHEMA_PLAIN || database_execute(database, sql, error)) &&
           store_number(database, statement, "schema_version", (uint64_t)version_of(trace),
                        error) &&
           (!trace->state_block ||
            store_number(database, statement, "state_block", trace->state_block, error));
}

static bool store_ranks(const struct database *database, sqlite3_stmt *statement,
                        const struct trace *trace, GError **error)
{
    if (trace->ranks > 1 &&
        !(store_number(database, statement, "ranks", trace->ranks, error) &&
          store_number(database, statement, "shared_parameters", trace->shared_parameters, error)))
        return false;
    return !trace->whole_gradients ||
           (store_number(database, statement, "whole_gradients", 1, error) &&
            store_number(database, statement, "whole_states", trace->whole_states, error));
}

static bool store_stages(const struct database *database, sqlite3_stmt *statement,
                         const struct trace *trace, GError **error)
{
    return trace->stages <= 1 ||
           (store_number(database, statement, "stages", trace->stages, error) &&
            store_number(database, statement, "stage", trace->stage, error));
}

bool trace_store_meta(const struct database *database, const struct trace *trace, GError **error)
{
    if (!database_execute(database, SCHEMA_META, error))
        return false;
    sqlite3_stmt *row = database_prepare(database, "INSERT INTO meta VALUES (?, ?)", error);
    bool ok = row && store_version(database, row, trace, error) &&
              store_text(database, row, "producer", trace->producer, error) &&
              store_text(database, row, "model", trace->model, error) &&
              store_text(database, row, "precision", trace->precision, error) &&
              store_text(database, row, "machine", trace->machine, error) &&
              store_number(database, row, "batch", trace->batch, error) &&
              store_number(database, row, "sequence", trace->sequence, error) &&
              store_number(database, row, "micro_batches", trace->micro_batches, error) &&
              store_ranks(database, row, trace, error) &&
              store_stages(database, row, trace, error) &&
              store_number(database, row, "library_bytes", trace->library_bytes, error) &&
              store_number(database, row, "estimated", trace->estimated, error) &&
              store_number(database, row, "partial", trace->partial, error) &&
              store_element_bytes(database, row, trace, error);
    sqlite3_finalize(row);
    return ok;
}

static bool store_tensors(const struct database *database, const struct trace *trace,
                          GError **error)
{
    bool partial = version_of(trace) == TRACE_SCHEMA_PARTIAL;
    if (partial && !database_execute(database, SCHEMA_LISTS, error))
        return false;
    sqlite3_stmt *row = database_prepare(database,
                                         partial ? "INSERT INTO tensors VALUES (?, ?, ?, ?)"
                                                 : "INSERT INTO tensors VALUES (?, ?, ?)",
                                         error);
    bool ok = row != NULL;
    for (uint32_t i = 0; ok && i < trace->tensor_count; i++) {
        bind_number(row, 1, i);
        bind_text(row, 2, trace->tensors[i].name);
        bind_number(row, 3, trace->tensors[i].elements);
        g_autofree char *lists = trace_lists_of(trace, i);
        if (partial)
            bind_text(row, 4, lists);
        ok = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

static void bind_operator(sqlite3_stmt *row, moment_id moment, const struct trace_operator *op)
{
    bind_number(row, 1, moment);
    bind_text(row, 2, op->name);
    bind_text(row, 3, trace_phase_name(op->phase));
    bind_text(row, 4, trace_place_name(op->place));
    if (op->layer < 0)
        sqlite3_bind_null(row, 5);
    else
        sqlite3_bind_int64(row, 5, op->layer);
    bind_number(row, 6, op->micro_batch);
    bind_number(row, 7, op->flops);
    bind_number(row, 8, op->bytes);
    bind_number(row, 9, op->h2d_bytes);
    bind_number(row, 10, op->d2h_bytes);
    if (op->duration_ns == 0)
        sqlite3_bind_null(row, 11);
    else
        bind_number(row, 11, op->duration_ns);
}

static bool store_operators(const struct database *database, const struct trace *trace,
                            GError **error)
{
    sqlite3_stmt *row = database_prepare(
        database, "INSERT INTO operators VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", error);
    bool ok = row != NULL;
    for (uint32_t m = 0; ok && m < trace->operator_count; m++) {
        bind_operator(row, m, &trace->operators[m]);
        ok = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

static bool store_accesses(const struct database *database, const struct trace *trace,
                           GError **error)
{
    bool cut = trace->state_block > 0;
    if (cut && !database_execute(database, SCHEMA_BLOCKS, error))
        return false;
    sqlite3_stmt *row = database_prepare(database,
                                         cut ? "INSERT INTO accesses VALUES (?, ?, ?, ?, ?, ?)"
                                             : "INSERT INTO accesses VALUES (?, ?, ?, ?, ?)",
                                         error);
    bool ok = row != NULL;
    for (uint32_t m = 0; ok && m < trace->operator_count; m++) {
        uint32_t first = trace->operators[m].first_access;
        for (uint32_t i = first; ok && i < first + trace->operators[m].access_count; i++) {
            const struct trace_access *access = &trace->accesses[i];
            bind_number(row, 1, i);
            bind_number(row, 2, m);
            bind_number(row, 3, access->tensor);
            bind_text(row, 4, trace_list_name(access->list));
            bind_text(row, 5, trace_mode_name(access->mode));
            if (cut)
                bind_number(row, 6, access->block);
            ok = database_insert(database, row, error);
        }
    }
    sqlite3_finalize(row);
    return ok;
}

static bool store_buffers(const struct database *database, const struct trace *trace,
                          GError **error)
{
    sqlite3_stmt *row = database_prepare(database,
                                         "INSERT INTO buffers VALUES (?, ?, ?, ?, ?, ?, ?)", error);
    bool ok = row != NULL;
    for (uint32_t i = 0; ok && i < trace->buffer_count; i++) {
        const struct trace_buffer *buffer = &trace->buffers[i];
        bind_number(row, 1, i);
        bind_text(row, 2, buffer->name);
        bind_number(row, 3, buffer->bytes);
        bind_number(row, 4, buffer->first);
        bind_number(row, 5, buffer->last);
        bind_number(row, 6, buffer->saved);
        bind_number(row, 7, buffer->recompute_flops);
        ok = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

static bool store_uses(const struct database *database, const struct trace *trace, GError **error)
{
    if (!trace->use_count)
        return true;
    if (!database_execute(database, SCHEMA_USES, error))
        return false;
    sqlite3_stmt *row = database_prepare(database, "INSERT INTO uses VALUES (?, ?, ?, ?)", error);
    bool ok = row != NULL;
    for (uint32_t i = 0; ok && i < trace->use_count; i++) {
        const struct trace_use *use = &trace->uses[i];
        bind_number(row, 1, i);
        bind_number(row, 2, use->buffer);
        bind_number(row, 3, use->moment);
        bind_text(row, 4, trace_use_name(use->kind));
        ok = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

static bool store_exchanges(const struct database *database, const struct trace *trace,
                            GError **error)
{
    if (trace->ranks <= 1 && trace->stages <= 1)
        return true;
    if (!database_execute(database, SCHEMA_EXCHANGES, error))
        return false;
    sqlite3_stmt *row = database_prepare(database, "INSERT INTO exchanges VALUES (?, ?, ?, ?, ?)",
                                         error);
    bool ok = row != NULL;
    uint32_t id = 0;
    for (uint32_t i = 0; ok && i < trace->operator_count * TRACE_COLLECTIVES; i++) {
        uint32_t moment = i / TRACE_COLLECTIVES, collective = i % TRACE_COLLECTIVES;
        const struct trace_exchange *exchange = &trace->operators[moment].exchange[collective];
        if (!exchange->sent_bytes && !exchange->received_bytes)
            continue;
        bind_number(row, 1, id++);
        bind_number(row, 2, moment);
        bind_text(row, 3, trace_collective_name((enum trace_collective)collective));
        bind_number(row, 4, exchange->sent_bytes);
        bind_number(row, 5, exchange->received_bytes);
        ok = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

static bool store_moments(const struct database *database, const struct trace *trace,
                          GError **error)
{
    sqlite3_stmt *row = database_prepare(database, "INSERT INTO moments VALUES (?, ?)", error);
    bool ok = row != NULL;
    for (uint32_t m = 0; ok && m < trace->operator_count; m++) {
        bind_number(row, 1, m);
        bind_number(row, 2, trace->non_model_bytes[m]);
        ok = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

bool trace_store(const struct database *database, const struct trace *trace, GError **error)
{
    return trace_store_meta(database, trace, error) &&
           database_execute(database, SCHEMA_ITERATION, error) &&
           store_tensors(database, trace, error) && store_operators(database, trace, error) &&
           store_accesses(database, trace, error) && store_buffers(database, trace, error) &&
           store_uses(database, trace, error) && store_moments(database, trace, error) &&
           store_exchanges(database, trace, error);
}

bool trace_write(const struct trace *trace, const char *path, GError **error)
{
    if (!trace_check(trace, path, error))
        return false;
    struct database *database = database_create(path, error);
    if (!database)
        return false;
    if (!trace_store(database, trace, error)) {
        database_close(database);
        return false;
    }
    return database_publish(database, error);
}
