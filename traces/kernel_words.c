#include "traces/kernel_words.h"

#include <glib.h>
#include <string.h>

static bool has_word(const char *name, const char *const *words)
{
    g_autofree char *lower = g_ascii_strdown(name, -1);
    for (; *words != NULL; words++)
        if (strstr(lower, *words) != NULL)
            return true;
    return false;
}

bool kernel_words_optimizer(const char *name)
{
    static const char *const words[] = {"adam",      "sgd",   "optimizer", "multi_tensor_apply",
                                        "adagrad",   "lamb_", "rmsprop",   "adadelta",
                                        "adafactor", "muon",  "shampoo",   NULL};
    return has_word(name, words);
}

bool kernel_words_backward(const char *name)
{
    static const char *const words[] = {"backward", "bwd",   "dgrad", "wgrad",
                                        "_grad",    "grad_", NULL};
    return has_word(name, words);
}
