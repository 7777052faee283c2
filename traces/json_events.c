#include "traces/json_events.h"

#include "traces/input_file.h"
#include "traces/trace.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

enum { PIECE_BYTES = 1 << 20 };
#define MOST_BYTES (G_MAXUINT32 - 2 * PIECE_BYTES) /* that a byte array holds */

/* A file's text, and how far it is read. */
struct reading {
    const char *path, *key;
    char *text;
    size_t bytes, at;
    GError **error;
};

G_GNUC_PRINTF(2, 3)
static bool refuse(const struct reading *reading, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(reading->error, TRACE_ERROR, TRACE_ERROR_NOT_OURS, "%s: byte %zu: %s",
                reading->path, reading->at, reason);
    return false;
}

/* zlib hands through what is not compressed. */
static bool inflate_file(gzFile file, GByteArray *text, const char *path, GError **error)
{
    g_autofree uint8_t *piece = g_malloc(PIECE_BYTES);
    int got, status;
    while (text->len < MOST_BYTES && (got = gzread(file, piece, PIECE_BYTES)) > 0)
        g_byte_array_append(text, piece, (guint)got);
    if (text->len >= MOST_BYTES) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: larger than 4 GB", path);
        return false;
    }
    const char *reason = gzerror(file, &status);
    if (status == Z_OK)
        return true;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot be read: %s", path,
                status == Z_ERRNO ? g_strerror(errno) : reason);
    return false;
}

/* Names of kernels are not always UTF-8, which all of JSON must be. */
static void make_valid(struct reading *reading)
{
    if (g_utf8_validate(reading->text, (gssize)reading->bytes, NULL))
        return;
    char *valid = g_utf8_make_valid(reading->text, (gssize)reading->bytes);
    g_free(reading->text);
    reading->text = valid;
    reading->bytes = strlen(valid);
}

static bool read_text(struct reading *reading)
{
    if (!input_file_check(reading->path, reading->error))
        return false;
    gzFile file = gzopen(reading->path, "rbe");
    if (file == NULL) {
        g_set_error(reading->error, TRACE_ERROR, TRACE_ERROR_IO, "%s: %s", reading->path,
                    g_strerror(errno));
        return false;
    }
    GByteArray *text = g_byte_array_new();
    bool good = inflate_file(file, text, reading->path, reading->error);
    gzclose(file);
    reading->bytes = text->len;
    reading->text = (char *)g_byte_array_free(text, FALSE);
    if (good)
        make_valid(reading);
    return good;
}

/* The next character that is not white space, which is not consumed; 0: the end. */
static char next(struct reading *reading)
{
    while (reading->at < reading->bytes && strchr(" \t\r\n", reading->text[reading->at]) != NULL)
        reading->at++;
    return reading->at < reading->bytes ? reading->text[reading->at] : '\0';
}

static bool expect(struct reading *reading, char wanted)
{
    char found = next(reading);
    if (found == '\0')
        return refuse(reading, "the file ends where '%c' should be", wanted);
    if (found != wanted)
        return refuse(reading, "'%c' where '%c' should be", found, wanted);
    reading->at++;
    return true;
}

/* NULL on error. */
static json_t *read_value(struct reading *reading)
{
    json_error_t fault;
    next(reading);
    json_t *value = json_loadb(reading->text + reading->at, reading->bytes - reading->at,
                               JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_DECODE_INT_AS_REAL |
                                   JSON_ALLOW_NUL,
                               &fault);
    if (value == NULL) {
        reading->at += (size_t)MAX(0, fault.position);
        refuse(reading, "%s", fault.text);
        return NULL;
    }
    reading->at += (size_t)fault.position; /* jansson tells there how much it has consumed */
    return value;
}

/* After a member: whether another follows before `end`, which is consumed. */
static bool another(struct reading *reading, char end, bool *more)
{
    *more = next(reading) == ',';
    if (*more) {
        reading->at++;
        return true;
    }
    return expect(reading, end);
}

static bool read_events(struct reading *reading, json_events_take *take, void *data)
{
    if (!expect(reading, '['))
        return false;
    bool more = next(reading) != ']';
    if (!more)
        return expect(reading, ']');
    while (more) {
        size_t at = reading->at;
        json_t *event = read_value(reading);
        bool good = event != NULL && json_is_object(event);
        if (event != NULL && !good) {
            reading->at = at;
            refuse(reading, "an event that is no object");
        }
        good = good && take(data, event, reading->error) && another(reading, ']', &more);
        json_decref(event);
        if (!good)
            return false;
    }
    return true;
}

static bool read_member(struct reading *reading, json_t *others, json_events_take *take, void *data,
                        bool *events)
{
    json_t *key = read_value(reading);
    bool good = key != NULL &&
                (json_is_string(key) || refuse(reading, "a member's name is no string")) &&
                expect(reading, ':');
    if (good && strcmp(json_string_value(key), reading->key) == 0) {
        *events = true;
        good = read_events(reading, take, data);
    } else if (good) {
        json_t *value = read_value(reading);
        good = value != NULL;
        if (good)
            json_object_set_new(others, json_string_value(key), value);
    }
    json_decref(key);
    return good;
}

static bool read_object(struct reading *reading, json_t *others, json_events_take *take, void *data)
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
    struct reading reading = {.path = path, .key = key, .error = error};
    json_t *others = json_object();
    bool good = read_text(&reading);
    if (good && next(&reading) == '[')
        good = read_events(&reading, take, data);
    else if (good)
        good = read_object(&reading, others, take, data);
    g_free(reading.text);
    if (!good)
        g_clear_pointer(&others, json_decref);
    return others;
}
