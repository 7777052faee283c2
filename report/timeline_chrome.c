#include "report/error.h"
#include "report/text.h"
#include "report/timeline.h"

#include <errno.h>
#include <jansson.h>
#include <zlib.h>

/* A name in quotes. Equal names are one string (struct strips), so each is quoted once. */
static const char *quoted(GHashTable *names, const char *name)
{
    char *known = g_hash_table_lookup(names, name);
    if (known)
        return known;
    g_autofree char *printable = text_printable(name);
    json_t *string = json_string(printable);
    char *dumped = json_dumps(string, JSON_ENCODE_ANY);
    g_hash_table_insert(names, (void *)name, dumped);
    json_decref(string);
    return dumped;
}

/* Whole ns: all that a trace has, and a million of them are written five times as fast as doubles.
 */
static uint64_t ns_of(double seconds)
{
    return (uint64_t)(MAX(seconds, 0) * 1e9 + 0.5);
}

/* Of microseconds, as the format wants them. */
static void write_times(gzFile file, uint64_t start_ns, uint64_t ns)
{
    gzprintf(file, ",\"ts\":%" G_GUINT64_FORMAT ".%03u,\"dur\":%" G_GUINT64_FORMAT ".%03u",
             start_ns / 1000, (unsigned)(start_ns % 1000), ns / 1000, (unsigned)(ns % 1000));
}

static void write_strip(gzFile file, const struct strips *strips, enum strip strip)
{
    g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL, free);
    g_autofree char *row = g_strdup_printf(",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"name\":",
                                           strip);
    gzprintf(file,
             ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{\"name\":"
             "\"%s\"}}",
             strip, strip_label(strip));
    for (guint i = 0; i < strips->spans[strip]->len; i++) {
        const struct strip_span *span = &g_array_index(strips->spans[strip], struct strip_span, i);
        gzputs(file, row);
        gzputs(file, quoted(names, span->name)); /* gzprintf has a limit, names have none */
        write_times(file, ns_of(span->start), ns_of(span->end - span->start));
        if (span->bytes)
            gzprintf(file, ",\"args\":{\"bytes\":%" G_GUINT64_FORMAT "}", span->bytes);
        gzputc(file, '}');
    }
}

bool timeline_write(const struct strips *strips, const char *folder, unsigned number,
                    GError **error)
{
    g_autofree char *name = timeline_name(number);
    g_autofree char *base = g_strconcat(name, ".json.gz", NULL);
    g_autofree char *path = g_build_filename(folder, base, NULL);
    /* The fastest level: a million spans are much text. */
    gzFile file = gzopen(path, "wb1");
    if (file) {
        gzputs(file,
               "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
               "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"step\"}}");
        for (int s = 0; s < STRIPS; s++)
            if (strips->spans[s]->len)
                write_strip(file, strips, (enum strip)s);
        gzputs(file, "\n]}\n");
    }
    int status = Z_OK;
    bool broken = !file || (gzerror(file, &status), status != Z_OK);
    if (file && gzclose(file) != Z_OK)
        broken = true;
    if (broken)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED, "%s: %s", path, g_strerror(errno));
    return !broken;
}
