#include "engine/train/data_kind.h"

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

enum {
    SAMPLE_BYTES = 64 << 10, /* that are looked at for bytes which no text has */
    LINE_BYTES = 1 << 20     /* longest first line that is looked at for JSON */
};

#define UNPACK  "unpack it first"
#define TO_TEXT "write its texts to a text file first"
#define TO_NUMBERS                                                                               \
    "write its tokens as bare numbers, in Python with array.astype('uint16').tofile(FILE), and " \
    "give "                                                                                      \
    "--tokens uint16"

static const struct {
    const char *magic;
    uint8_t length;
    uint8_t form; /* enum data_form */
    const char *name, *advice;
} formats[] = {
    {"\x88\xd8\x34\x01", 4, DATA_FORM_GPT2, "a token file of llm.c", NULL},
    {"\xa1\xd9\x34\x01", 4, DATA_FORM_LLAMA, "a token file of llm.c", NULL},
    {"\x93NUMPY", 6, DATA_FORM_OTHER, "a NumPy array", TO_NUMBERS},
    {"PAR1", 4, DATA_FORM_OTHER, "a Parquet file", TO_TEXT},
    {"ARROW1", 6, DATA_FORM_OTHER, "an Arrow file", TO_TEXT},
    {"\xff\xff\xff\xff", 4, DATA_FORM_OTHER, "an Arrow stream", TO_TEXT},
    {"MMIDIDX", 7, DATA_FORM_OTHER, "the index of a Megatron data set",
     "give its .bin file with --tokens uint16 or uint32"},
    {"\x1f\x8b", 2, DATA_FORM_OTHER, "a gzip file", UNPACK},
    {"\x28\xb5\x2f\xfd", 4, DATA_FORM_OTHER, "a Zstandard file", UNPACK},
    {"\xfd"
     "7zXZ",
     5, DATA_FORM_OTHER, "an xz file", UNPACK},
    {"BZh91AY&SY", 10, DATA_FORM_OTHER, "a bzip2 file", UNPACK},
    {"7z\xbc\xaf\x27\x1c", 6, DATA_FORM_OTHER, "a 7z archive", UNPACK},
    {"PK\x03\x04", 4, DATA_FORM_OTHER, "a zip archive", UNPACK},
    {"\x89HDF", 4, DATA_FORM_OTHER, "an HDF5 file", TO_TEXT},
    {"SQLite format 3", 16, DATA_FORM_OTHER, "an SQLite database", TO_TEXT},
    {"GGUF", 4, DATA_FORM_OTHER, "a GGUF file of weights", "give a text or a token file"},
    {"%PDF-", 5, DATA_FORM_OTHER, "a PDF file", TO_TEXT},
    {"\xff\xfe", 2, DATA_FORM_OTHER, "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", 2, DATA_FORM_OTHER, "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"},
};

/* Returns whether the first line, or all of a short file, is a JSON object or array. */
static bool is_json(const uint8_t *bytes, size_t count)
{
    size_t begin = 0, length = 0;
    while (begin < MIN(count, SAMPLE_BYTES) && g_ascii_isspace((char)bytes[begin]))
        begin++;
    if (begin == count || (bytes[begin] != '{' && bytes[begin] != '['))
        return false;
    while (begin + length < count && length < LINE_BYTES && bytes[begin + length] != '\n')
        length++;
    json_t *line = json_loadb((const char *)bytes + begin, length, 0, NULL);
    if (!line && count < LINE_BYTES)
        line = json_loadb((const char *)bytes + begin, count - begin, 0, NULL);
    json_decref(line);
    return line;
}

struct data_kind data_kind_of(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++)
        if (count >= formats[i].length && !memcmp(bytes, formats[i].magic, formats[i].length))
            return (struct data_kind){formats[i].form, formats[i].name, formats[i].advice};
    if (count > 0 && memchr(bytes, 0, MIN(count, SAMPLE_BYTES)))
        return (struct data_kind){DATA_FORM_BINARY, "bytes that are no text", NULL};
    if (is_json(bytes, count))
        return (struct data_kind){DATA_FORM_JSON, "JSON", NULL};
    return (struct data_kind){DATA_FORM_TEXT, "text", NULL};
}
