#include "traces/import/kernel_words.h"

#include <glib.h>
#include <string.h>

static bool has_word(const char *lower, const char *const *words)
{
    for (; *words; words++)
        if (strstr(lower, *words))
            return true;
    return false;
}

/* But "lambda", which many names of kernels have. */
static bool has_lamb(const char *lower)
{
    const char *lamb = lower;
    while ((lamb = strstr(lamb, "lamb")) && g_str_has_prefix(lamb, "lambda"))
        lamb += strlen("lambda");
    return lamb != NULL;
}

bool kernel_words_optimizer(const char *name)
{
    static const char *const words[] = {"adam",      "sgd",     "optimizer", "multi_tensor_apply",
                                        "adagrad",   "rmsprop", "adadelta",  "shampoo",
                                        "adafactor", "muon",    "sophia",    "_lion",
                                        "lion_",     NULL};
    g_autofree char *lower = g_ascii_strdown(name, -1);
    return has_word(lower, words) || has_lamb(lower);
}

bool kernel_words_backward(const char *name)
{
    static const char *const words[] = {"backward", "bwd",   "dgrad", "wgrad",
                                        "_grad",    "grad_", NULL};
    g_autofree char *lower = g_ascii_strdown(name, -1);
    return has_word(lower, words);
}
