/* pstar-tokens: turns a text into the tokens of a model, as pstar-run --data reads them. */
#include "base/failure.h"
#include "base/files.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "models/tokenizer.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct tokens_arguments {
    char *model, *output, *decode;
    char **files;
};

/* The files of llm.c: 256 int32 and the tokens. */
static const struct token_format {
    int32_t magic, version;
    size_t bytes; /* a token */
} gpt2_format = {20240520, 1, sizeof(uint16_t)}, llama_format = {20240801, 7, sizeof(uint32_t)};

/* Removes the mask of the tokens that were there before (docs/formats.md). */
static bool remove_mask(const char *path, GError **error)
{
    g_autofree char *mask = g_strconcat(path, ".mask", NULL);
    if (g_unlink(mask) == 0 || errno == ENOENT)
        return true;
    g_set_error(error, FAILURE, FAILURE_RUNNING, "%s: cannot be removed: %s", mask,
                g_strerror(errno));
    return false;
}

/* The mask goes when all else is done but giving the tokens their name: until then those that were
 * there before may have to stay, and are of no use without it. */
static bool write_tokens(const char *path, const GArray *tokens, uint32_t vocabulary,
                         GError **error)
{
    const struct token_format *format = vocabulary <= 1 << 16 ? &gpt2_format : &llama_format;
    const int32_t header[256] = {GINT32_TO_LE(format->magic), GINT32_TO_LE(format->version),
                                 GINT32_TO_LE((gint32)tokens->len)};
    struct output_file file;
    if (tokens->len > G_MAXINT32) {
        g_set_error(error, TOKENIZER_ERROR, TOKENIZER_ERROR_TEXT,
                    "%s: a token file holds at most %d tokens; divide the text", path, G_MAXINT32);
        return false;
    }
    if (!output_file_open(&file, path, error))
        return false;
    fwrite(header, sizeof header, 1, file.stream);
    for (guint i = 0; i < tokens->len; i++) {
        uint32_t token = GUINT32_TO_LE(g_array_index(tokens, uint32_t, i));
        fwrite(&token, format->bytes, 1, file.stream); /* its low bytes come first */
    }
    bool written = fflush(file.stream) == 0 && !ferror(file.stream);
    bool removed = !written || remove_mask(path, error);
    if (removed)
        return output_file_close(&file, error);
    output_file_abandon(&file);
    return false;
}

/* The text is not mapped: a disk that cannot read it would end the program by a signal. */
static bool read_text(const char *path, char **text, gsize *bytes, GError **error)
{
    g_autoptr(GError) problem = NULL;
    if (g_file_get_contents(path, text, bytes, &problem))
        return true;
    bool no_memory = g_error_matches(problem, G_FILE_ERROR, G_FILE_ERROR_NOMEM);
    g_propagate_error(error, g_steal_pointer(&problem));
    return no_memory ? failure_mark(error, FAILURE_DOES_NOT_FIT) : false;
}

static bool encode(const struct tokenizer *tokenizer, const char *path, const char *output,
                   GError **error)
{
    if (!output_file_has_place(output, error) || !input_file_check(path, error))
        return false;
    g_autofree char *text = NULL;
    gsize bytes;
    if (!read_text(path, &text, &bytes, error))
        return false;
    g_autoptr(GArray) tokens = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    if (!tokenizer_encode(tokenizer, text, bytes, tokens, error)) {
        g_prefix_error(error, "%s: ", path);
        return false;
    }
    if (!write_tokens(output, tokens, tokenizer_vocabulary(tokenizer), error))
        return false;
    text_print_line(stdout, "%s: %u tokens of %zu bytes", output, tokens->len, bytes);
    return true;
}

static bool decode(const struct tokenizer *tokenizer, const char *numbers, GError **error)
{
    g_autoptr(GArray) tokens = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_auto(GStrv) words = g_strsplit_set(numbers, " ,\n", -1);
    for (char **word = words; *word; word++) {
        guint64 token;
        if (!**word)
            continue;
        if (!g_ascii_string_to_unsigned(*word, 10, 0, UINT32_MAX, &token, NULL))
            return options_refuse(error, "--decode: '%s' is no token", *word);
        g_array_append_val(tokens, *(uint32_t[]){(uint32_t)token});
    }
    g_autofree char *text = tokenizer_decode(tokenizer, &g_array_index(tokens, uint32_t, 0),
                                             tokens->len, error);
    g_autofree char *shown = isatty(STDOUT_FILENO) ? text_printable_lines(text) : g_strdup(text);
    if (text)
        puts(shown);
    return text;
}

/* What a signal ends leaves no unfinished file. */
static void write_all(const struct tokenizer *tokenizer, const struct tokens_arguments *a,
                      const struct console *console, GError **error)
{
    struct progress *progress = progress_begin_output(console, a->output);
    encode(tokenizer, a->files[0], a->output, error);
    progress_end(progress);
}

static int run(void *data, const struct console *console, GError **error)
{
    const struct tokens_arguments *a = data;
    bool one_file = a->files && !a->files[1];
    if (!a->model || (a->decode ? a->files || a->output : !one_file || !a->output))
        options_refuse(error, "--model, one TEXT and -o are needed, or --model and --decode");
    else {
        struct tokenizer *tokenizer = tokenizer_read(a->model, error);
        if (tokenizer && a->decode)
            decode(tokenizer, a->decode, error);
        else if (tokenizer)
            write_all(tokenizer, a, console, error);
        tokenizer_free(tokenizer);
    }
    return STATUS_DONE;
}

int main(int argc, char **argv)
{
    struct tokens_arguments a = {NULL, NULL, NULL, NULL};
    const struct option options[] = {
        {.name = "model",
         .file = &a.model,
         .help = "A model's folder with its tokenizer.json, or its vocab.json and merges.txt",
         .value = "DIR"},
        {.name = "decode",
         .text = &a.decode,
         .use = OPTION_PRINTS,
         .help = "Print the text of these tokens instead",
         .value = "N N .."},
        {.shared = OPTION_OUTPUT, .file = &a.output, .use = OPTION_WRITES},
        {.arguments = &a.files, .value = "TEXT"},
    };
    static const struct example examples[] = {
        {"Write the tokens of a text for a model whose tokenizer lies in the folder gpt2.",
         "pstar-tokens --model gpt2 text.txt -o text.bin"},
        {"Print the text of three tokens.", "pstar-tokens --model gpt2 --decode '72 101 108'"},
    };
    const struct option_group group = {.options = options, .count = G_N_ELEMENTS(options)};
    const struct program program = {
        .name = "pstar-tokens",
        .purpose = "turn a text into the tokens of a model",
        .summary =
            "Writes the tokens of a text for pstar-run --data. The tokenizer is the model's own:\n"
            "a byte-level BPE as GPT-2's, or a BPE of characters as LLaMA 2's and Gemma's. The\n"
            "file is llm.c's: 256 int32, then uint16 tokens, or uint32 tokens if the vocabulary\n"
            "has more than 65,536.",
        .examples = examples,
        .example_count = G_N_ELEMENTS(examples),
        .groups = &group,
        .group_count = 1,
        .run = run,
        .data = &a};
    return program_main(&program, argc, argv);
}
