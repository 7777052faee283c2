#include "collect/step_marks.h"

#include <glib.h>
#include <string.h>

bool step_marks_is_step(const char *text)
{
    static const char *const words[] = {
        "profilerstep", "iteration",     "iter",          "step",        "train_step",
        "train step",   "training_step", "training step", "global_step", "batch"};
    size_t digits = strlen(text), end;
    while (digits > 0 && g_ascii_isdigit(text[digits - 1]))
        digits--;
    for (end = digits; end > 0 && strchr(" _#:-=", text[end - 1]); end--)
        ;
    if (text[digits] == '\0')
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (strlen(words[i]) == end && g_ascii_strncasecmp(text, words[i], end) == 0)
            return true;
    return false;
}

bool step_marks_is_optimizer(const char *text)
{
    return g_str_has_prefix(text, "Optimizer.step#");
}
