#include "engine/train/data_kind.h"

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

enum {
    SAMPLE_BYTES = 64 << 10, /* that are looked at for bytes which no text has */
    LINE_BYTES = 1 << 20,    /* that are looked at for JSON */
    DOUBTFUL_BYTES = 3       /* of a magic number: bare token numbers may begin so, too */
};

#define UNPACK  "unpack it first"
#define TO_TEXT "write its texts to a text file first"
static const struct {
    const char *magic;
    uint8_t length;
    uint8_t form; /* enum data_form */
    const char *name, *advice;
} formats[] = {
    {"\x88\xd8\x34\x01", 4, DATA_FORM_GPT2, "a token file of llm.c", NULL},
    {"\xa1\xd9\x34\x01", 4, DATA_FORM_LLAMA, "a token file of llm.c", NULL},
    {"\x93NUMPY", 6, DATA_FORM_NPY, "a NumPy array", NULL},
    {"PAR1", 4, DATA_FORM_OTHER, "a Parquet file",
     "pstar-tokenize --model DIR --field text FILE.parquet -o tokens.bin makes a token file of it"},
    {"ARROW1", 6, DATA_FORM_OTHER, "an Arrow file", TO_TEXT},
    {"\xff\xff\xff\xff", 4, DATA_FORM_OTHER, "an Arrow stream", TO_TEXT},
    {"MMIDIDX\0\0", 9, DATA_FORM_MEGATRON, "the index of a Megatron data set", NULL},
    {"TNTIDX\0\0", 8, DATA_FORM_OTHER, "the index of a data set in fairseq's older form",
     "write the data set again with Megatron's --dataset-impl mmap"},
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
    {"\x89PNG\r\n", 6, DATA_FORM_OTHER, "an image", TO_TEXT},
    {"\x80\x04\x95", 3, DATA_FORM_OTHER, "a Python pickle", TO_TEXT},
    {"\xff\xfe\0\0", 4, DATA_FORM_OTHER, "text in UTF-32",
     "convert it with iconv -f UTF-32 -t UTF-8"},
    {"\0\0\xfe\xff", 4, DATA_FORM_OTHER, "text in UTF-32",
     "convert it with iconv -f UTF-32 -t UTF-8"},
    {"\xff\xfe", 2, DATA_FORM_OTHER, "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", 2, DATA_FORM_OTHER, "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"},
};

/* Returns whether the bytes are JSON, or begin a longer JSON value if they are `cut` from one. */
static bool parses(const uint8_t *bytes, size_t count, bool cut)
{
    json_error_t fault = {0};
    while (cut && count > 0 && (bytes[count] & 0xc0) == 0x80)
        count--; /* not within a character */
    json_t *value = json_loadb((const char *)bytes, count, 0, &fault);
    bool ok = value || (cut && json_error_code(&fault) == json_error_premature_end_of_input);
    json_decref(value);
    return ok;
}

/* Returns whether the first line, or all of the file as far as it is looked at, is a JSON object or
 * array. */
static bool is_json(const uint8_t *bytes, size_t count)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which some programs write first */
    size_t begin = count >= strlen(mark) && !memcmp(bytes, mark, strlen(mark)) ? strlen(mark) : 0;
    while (begin < MIN(count, SAMPLE_BYTES) && g_ascii_isspace((char)bytes[begin]))
        begin++;
    if (begin == count || (bytes[begin] != '{' && bytes[begin] != '['))
        return false;
    size_t rest = count - begin, looked = MIN(rest, LINE_BYTES);
    const uint8_t *end = memchr(bytes + begin, '\n', looked);
    return (end && parses(bytes + begin, (size_t)(end - bytes) - begin, false)) ||
           parses(bytes + begin, looked, looked < rest);
}

/* Texts in other encodings are not. A character may be cut at the end. */
static bool is_utf8(const uint8_t *bytes, size_t count)
{
    enum { LONGEST = 4 };
    const char *end = NULL;
    return g_utf8_validate((const char *)bytes, (gssize)count, &end) ||
           end > (const char *)bytes + count - LONGEST;
}

static bool is_tar(const uint8_t *bytes, size_t count)
{
    enum { MAGIC_AT = 257 };
    static const char magic[] = "ustar";
    return count >= MAGIC_AT + strlen(magic) && !memcmp(bytes + MAGIC_AT, magic, strlen(magic));
}

/* A length in 8 bytes, then a JSON object of that length, which begins here. */
static bool is_safetensors(const uint8_t *bytes, size_t count, uint64_t file_bytes)
{
    uint64_t length;
    if (count < sizeof length + 2)
        return false;
    memcpy(&length, bytes, sizeof length);
    length = GUINT64_FROM_LE(length);
    return length >= 2 && length <= file_bytes - sizeof length && !memcmp(bytes + 8, "{\"", 2);
}

struct data_kind data_kind_of(const uint8_t *bytes, size_t count, uint64_t file_bytes)
{
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++)
        if (count >= formats[i].length && !memcmp(bytes, formats[i].magic, formats[i].length))
            return (struct data_kind){formats[i].form, formats[i].name, formats[i].advice,
                                      formats[i].length <= DOUBTFUL_BYTES};
    if (is_tar(bytes, count))
        return (struct data_kind){DATA_FORM_OTHER, "a tar archive", UNPACK, false};
    if (is_safetensors(bytes, count, file_bytes))
        return (struct data_kind){DATA_FORM_OTHER, "a file of weights (safetensors)",
                                  "give a text or a token file", false};
    size_t looked = MIN(count, SAMPLE_BYTES);
    if (looked > 0 && memchr(bytes, 0, looked))
        return (struct data_kind){DATA_FORM_BINARY, "bytes that are no text", NULL, false};
    if (is_json(bytes, count))
        return (struct data_kind){DATA_FORM_JSON, "JSON", NULL, false};
    return (struct data_kind){DATA_FORM_TEXT, "text", NULL, !is_utf8(bytes, looked)};
}
