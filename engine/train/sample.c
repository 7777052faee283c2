/* Continues a text, the prompt, with the trained model. */
#include "base/printable.h"
#include "engine/random.h"
#include "engine/train/trainer.h"
#include "models/tokenizer.h"

#include <math.h>

/* ---- the prompt ---- */

static bool refuse_prompt(const char *text, const char *why, uint32_t vocabulary, GError **error)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--prompt %s: %s; numbers in [0, %u] are taken as tokens", text, why,
                vocabulary - 1);
    return false;
}

static bool are_numbers(const char *text)
{
    return text[strspn(text, "0123456789, ")] == '\0';
}

/* Reads "15496, 11". Fails if a word is not a token of the model. */
static bool parse_tokens(const char *text, uint32_t vocabulary, GArray *tokens, GError **error)
{
    g_auto(GStrv) words = g_strsplit_set(text, ", ", -1);
    for (char **word = words; *word; word++) {
        guint64 number;
        if (!**word)
            continue;
        if (!g_ascii_string_to_unsigned(*word, 10, 0, vocabulary - 1, &number, NULL))
            return refuse_prompt(text, "has a number that is not a token of the model", vocabulary,
                                 error);
        uint32_t token = (uint32_t)number;
        g_array_append_val(tokens, token);
    }
    return true;
}

/* Encodes a text with the tokenizer in the model's folder. */
static bool encode_text(const char *text, const char *model, uint32_t vocabulary, GArray *tokens,
                        GError **error)
{
    g_autoptr(GError) why = NULL;
    struct tokenizer *tokenizer = tokenizer_read(model, &why);
    bool ok = tokenizer && tokenizer_encode(tokenizer, text, strlen(text), tokens, &why);
    tokenizer_free(tokenizer);
    if (!ok)
        return refuse_prompt(text, why->message, vocabulary, error);
    for (guint i = 0; i < tokens->len; i++)
        if (g_array_index(tokens, uint32_t, i) >= vocabulary)
            return refuse_prompt(text, "the tokenizer's vocabulary is larger than the model's",
                                 vocabulary, error);
    return true;
}

GArray *trainer_read_prompt(const struct run_options *options, const struct data *data,
                            const struct model_iteration *iteration, GError **error)
{
    enum { PROMPT = 16 };
    const char *prompt = options->prompt;
    uint32_t T = iteration->job.sequence;
    GArray *text = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    bool ok = true;
    if (!prompt) {
        g_autofree uint32_t *first = g_new(uint32_t, 2 * (size_t)T);
        data_read(data, DATA_TRAINING, 0, 1, first, first + T);
        g_array_append_vals(text, first, MIN(T, PROMPT));
    } else if (data_is_text(data)) {
        for (const char *at = prompt; *at; at++) {
            uint32_t token = (unsigned char)*at;
            g_array_append_val(text, token);
        }
    } else if (are_numbers(prompt)) {
        ok = parse_tokens(prompt, iteration->config->vocabulary, text, error);
    } else {
        ok = encode_text(prompt, options->model, iteration->config->vocabulary, text, error);
    }
    if (ok && text->len == 0) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--prompt '': is empty");
        ok = false;
    }
    if (!ok)
        g_clear_pointer(&text, g_array_unref);
    return text;
}

/* ---- the text ---- */

/* Below 1, so that unlikely tokens, which a small model overrates, are drawn less often. */
#define TEMPERATURE 0.8

/* Draws a token from the distribution softmax(logits / TEMPERATURE). `uniform` is a random number
 * in [0, 1). */
static uint32_t draw(const float *logits, uint32_t vocabulary, double uniform)
{
    double greatest = -INFINITY, sum = 0, below = 0;
    for (uint32_t v = 0; v < vocabulary; v++)
        greatest = logits[v] > greatest ? logits[v] : greatest;
    for (uint32_t v = 0; v < vocabulary; v++)
        sum += exp((logits[v] - greatest) / TEMPERATURE);
    for (uint32_t v = 0; v < vocabulary; v++) {
        below += exp((logits[v] - greatest) / TEMPERATURE) / sum;
        if (uniform < below)
            return v;
    }
    return vocabulary - 1;
}

/* Copies the last tokens of `text` to the first row. The other rows stay zero, because their logits
 * are not read. */
static uint32_t fill_window(const GArray *text, uint32_t sequence, uint32_t *tokens)
{
    uint32_t used = MIN(text->len, sequence);
    memcpy(tokens, &g_array_index(text, uint32_t, text->len - used), used * sizeof *tokens);
    return used;
}

bool trainer_continue_text(struct engine *engine, const struct model_iteration *iteration,
                           uint64_t seed, uint32_t count, const struct trainer_watch *watch,
                           GArray *text, GError **error)
{
    const struct model_job *job = &iteration->job;
    uint32_t V = iteration->config->vocabulary;
    struct random_stream stream = {.seed = seed, .pass = 0, .site = UINT32_MAX};
    g_autofree uint32_t *tokens = g_new0(uint32_t, 2 * (size_t)job->choices.batch * job->sequence);
    g_autofree float *logits = g_new(float, V);
    g_assert(text->len > 0);
    for (uint32_t i = 0; i < count && !(watch && watch->is_stopped(watch->data)); i++) {
        uint32_t used = fill_window(text, job->sequence, tokens);
        if (!engine_logits(engine, tokens, used - 1, 1, logits, error))
            return false;
        uint32_t token = draw(logits, V, random_word(&stream, i) * 0x1p-32);
        g_array_append_val(text, token);
    }
    return true;
}

/* Returns the text whose bytes are the tokens. */
static char *text_of_bytes(const GArray *sample)
{
    GString *bytes = g_string_new(NULL);
    for (uint32_t i = 0; i < sample->len; i++) {
        uint32_t token = g_array_index(sample, uint32_t, i);
        g_string_append_c(bytes, token && token <= UINT8_MAX ? (char)token : '?');
    }
    return g_string_free(bytes, FALSE);
}

char *trainer_sample_text(const GArray *sample, bool bytes, const char *model)
{
    g_autofree char *text = NULL;
    if (bytes) {
        text = text_of_bytes(sample);
    } else {
        struct tokenizer *tokenizer = tokenizer_read(model, NULL);
        if (tokenizer)
            text = tokenizer_decode(tokenizer, &g_array_index(sample, uint32_t, 0), sample->len,
                                    NULL);
        tokenizer_free(tokenizer);
    }
    return text ? text_printable_lines(text) : NULL;
}
