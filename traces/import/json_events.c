#include "traces/import/json_events.h"

#include "base/files.h"
#include "traces/trace.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { PIECE_BYTES = 1 << 20, MOST_VALUE_BYTES = 1 << 30 };

/* A gzipped file may become this many times as large, or as large as the second. Recordings become
 * 10 to 25 times as large; what becomes much larger only costs memory. */
enum { MOST_TIMES = 50, SMALL_BYTES = 64 << 20 };

/* State of reading: a window of the text and the position in it. */
struct json_reading {
    const char *path, *key;
    gzFile file;
    GByteArray *window;
    size_t at;     /* in the window */
    size_t before; /* offset of the window in the text */
    size_t most;   /* bytes that the text may have */
    bool ended;    /* nothing follows the window */
    bool failed;   /* reading failed; `error` says why */
    GError **error;
};

G_GNUC_PRINTF(2, 3)
static bool refuse(const struct json_reading *reading, const char *format, ...)
{
    if (reading->failed)
        return false;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(reading->error, TRACE_ERROR, TRACE_ERROR_NOT_OURS, "%s: byte %zu: %s",
                reading->path, reading->before + reading->at, reason);
    return false;
}

static void fail(struct json_reading *reading, const char *reason)
{
    g_set_error(reading->error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot be read: %s",
                reading->path, reason);
    reading->ended = reading->failed = true;
}

static bool open_file(struct json_reading *reading)
{
    if (!input_file_check(reading->path, reading->error))
        return false;
    reading->file = gzopen(reading->path, "rbe"); /* passes uncompressed files through */
    struct stat file;
    if (!reading->file || stat(reading->path, &file) != 0) {
        g_set_error(reading->error, TRACE_ERROR, TRACE_ERROR_IO, "%s: %s", reading->path,
                    g_strerror(errno));
        return false;
    }
    reading->most = S_ISREG(file.st_mode) ? MAX((size_t)file.st_size * MOST_TIMES, SMALL_BYTES)
                                          : SIZE_MAX;
    return true;
}

/* Drops what has been consumed and reads more. */
static void read_on(struct json_reading *reading)
{
    GByteArray *window = reading->window;
    if (reading->at > 0)
        g_byte_array_remove_range(window, 0, (guint)reading->at);
    reading->before += reading->at;
    reading->at = 0;
    if (window->len > MOST_VALUE_BYTES) {
        fail(reading, "a value is larger than 1 GiB");
        return;
    }
    guint kept = window->len;
    g_byte_array_set_size(window, kept + PIECE_BYTES);
    int got = gzread(reading->file, window->data + kept, PIECE_BYTES), status;
    g_byte_array_set_size(window, kept + (guint)MAX(got, 0));
    if (reading->before + window->len > reading->most) {
        fail(reading, "it unpacks to more than 50 times its size; gunzip makes a file of it that "
                      "can be read");
        return;
    }
    if (got > 0)
        return;
    const char *reason = gzerror(reading->file, &status);
    reading->ended = true;
    if (status != Z_OK && status != Z_STREAM_END)
        fail(reading, status == Z_ERRNO ? g_strerror(errno) : reason);
}

/* Returns the character at `place` after `at`; 0 at the end. The window may move, and `at` with it.
 */
static char peek(struct json_reading *reading, size_t place)
{
    while (reading->at + place >= reading->window->len && !reading->ended)
        read_on(reading);
    return reading->at + place < reading->window->len
               ? (char)reading->window->data[reading->at + place]
               : '\0';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Skips white space and returns the next character without consuming it; 0 at the end. */
static char next(struct json_reading *reading)
{
    char c;
    while (is_space(c = peek(reading, 0)))
        reading->at++;
    return c;
}

static bool expect(struct json_reading *reading, char wanted)
{
    char found = next(reading);
    if (found == '\0')
        return refuse(reading, "the file ends where '%c' should be", wanted);
    if (found != wanted)
        return refuse(reading, "'%c' where '%c' should be", found, wanted);
    reading->at++;
    return true;
}

/* Returns whether `place` lies within the text, reading more if necessary. */
static bool has(struct json_reading *reading, size_t place)
{
    peek(reading, place);
    return reading->at + place < reading->window->len;
}

/* Returns the length of the string that begins here, with its quotes. */
static size_t text_bytes(struct json_reading *reading, size_t place)
{
    size_t begin = place++;
    while (has(reading, place)) {
        char c = peek(reading, place++);
        if (c == '"')
            break;
        place += c == '\\';
    }
    return place - begin;
}

/* Returns the length of the value at `at`, judged by brackets. */
static size_t value_bytes(struct json_reading *reading)
{
    size_t place = 0, depth = 0;
    while (has(reading, place)) {
        char c = peek(reading, place);
        bool closes = c == '}' || c == ']';
        if (depth == 0 && place > 0 && (closes || c == ',' || c == ':' || is_space(c)))
            return place;
        place += c == '"' ? text_bytes(reading, place) : 1;
        depth += c == '{' || c == '[';
        depth -= closes && depth > 0;
        if (depth == 0 && (closes || c == '"'))
            return place;
    }
    return reading->window->len - reading->at;
}

/* NULL on error. */
static json_t *read_value(struct json_reading *reading)
{
    json_error_t fault;
    next(reading);
    size_t bytes = value_bytes(reading);
    bytes = MIN(bytes, reading->window->len - reading->at); /* a string may be unterminated */
    if (reading->failed)
        return NULL;
    const char *text = (const char *)reading->window->data + reading->at;
    /* JSON must be UTF-8, but kernel names are not always. */
    g_autofree char *valid = g_utf8_validate(text, (gssize)bytes, NULL)
                                 ? NULL
                                 : g_utf8_make_valid(text, (gssize)bytes);
    json_t *value = json_loadb(!valid ? text : valid, !valid ? bytes : strlen(valid),
                               JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &fault);
    if (!value) {
        reading->at += MIN(bytes, (size_t)MAX(0, fault.position));
        refuse(reading, "%s", fault.text);
        return NULL;
    }
    reading->at += bytes;
    return value;
}

/* Consumes what follows a member: a comma, or `end`. Sets *more if another member follows. */
static bool another(struct json_reading *reading, char end, bool *more)
{
    *more = next(reading) == ',';
    if (*more) {
        reading->at++;
        return true;
    }
    return expect(reading, end);
}

static bool read_events(struct json_reading *reading, json_events_take *take, void *data)
{
    if (!expect(reading, '['))
        return false;
    bool more = next(reading) != ']';
    if (!more)
        return expect(reading, ']');
    while (more) {
        json_t *event = read_value(reading);
        bool ok = json_is_object(event);
        if (event && !ok)
            refuse(reading, "the event that ends here is not an object");
        ok = ok && take(data, event, reading->error) && another(reading, ']', &more);
        json_decref(event);
        if (!ok)
            return false;
    }
    return true;
}

static bool read_member(struct json_reading *reading, json_t *others, json_events_take *take,
                        void *data, bool *events)
{
    json_t *key = read_value(reading);
    bool ok = key && (json_is_string(key) || refuse(reading, "a member's name is not a string")) &&
              expect(reading, ':');
    if (ok && strcmp(json_string_value(key), reading->key) == 0) {
        *events = true;
        ok = read_events(reading, take, data);
    } else if (ok) {
        json_t *value = read_value(reading);
        ok = value != NULL;
        if (ok)
            json_object_set_new(others, json_string_value(key), value);
    }
    json_decref(key);
    return ok;
}

static bool read_object(struct json_reading *reading, json_t *others, json_events_take *take,
                        void *data)
{
    bool events = false;
    if (!expect(reading, '{'))
        return false;
    bool more = next(reading) != '}';
    while (more)
        if (!read_member(reading, others, take, data, &events) || !another(reading, '}', &more))
            return false;
    return events || refuse(reading, "no array \"%s\" up to here", reading->key);
}

json_t *json_events_read(const char *path, const char *key, json_events_take *take, void *data,
                         GError **error)
{
    struct json_reading reading = {
        .path = path, .key = key, .window = g_byte_array_new(), .error = error};
    json_t *others = json_object();
    bool ok = open_file(&reading);
    if (ok && next(&reading) == '[')
        ok = read_events(&reading, take, data);
    else if (ok)
        ok = read_object(&reading, others, take, data);
    while (ok && !reading.ended) { /* a compressed file is checked only at its end */
        reading.at = reading.window->len;
        read_on(&reading);
    }
    ok = ok && !reading.failed;
    if (reading.file)
        gzclose(reading.file);
    g_byte_array_unref(reading.window);
    if (!ok)
        g_clear_pointer(&others, json_decref);
    return others;
}
