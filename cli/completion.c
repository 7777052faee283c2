#include "cli/completion.h"

#include "platforms/shipped.h"
#include "policies/policy.h"

#include <stdio.h>
#include <string.h>

void completion_offer(const char *word, const char *candidate, const char *meaning)
{
    if (g_str_has_prefix(candidate, word))
        printf("%s%s%s\n", candidate, meaning ? "\t" : "", meaning ? meaning : "");
}

/* ---- options ---- */

static bool is_named(const struct option *option, const char *word)
{
    if (option->arguments || word[0] != '-')
        return false;
    if (word[1] != '-')
        return option_letter(option) && word[1] == option_letter(option) && !word[2];
    return strcmp(word + 2, option_name(option)) == 0;
}

/* Returns the option with a value that the word names, or NULL. */
static const struct option *find(const struct program *program, const char *word)
{
    for (size_t g = 0; g < program->group_count; g++)
        for (size_t i = 0; i < program->groups[g].count; i++) {
            const struct option *option = &program->groups[g].options[i];
            if (is_named(option, word) && !option->flag)
                return option;
        }
    return NULL;
}

static void offer_options(const struct option *options, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++) {
        g_autofree char *help = options[i].arguments ? NULL : option_help(&options[i]);
        g_autofree char *name = g_strconcat("--", option_name(&options[i]), NULL);
        if (help)
            completion_offer(word, name, help);
    }
}

/* ---- values ---- */

/* Offers one value of a list: what comes before the last comma of the word stays. */
static void offer_value(const char *before, const char *word, const char *value, bool listed)
{
    const char *comma = listed ? strrchr(word, ',') : NULL;
    g_autofree char *done = comma ? g_strndup(word, (gsize)(comma - word) + 1) : g_strdup("");
    g_autofree char *both = g_strconcat(done, value, NULL);
    if (g_str_has_prefix(both, word))
        printf("%s%s\n", before, both);
}

/* The names in "NAME,..|all" that stand for themselves. */
static void offer_literals(const char *form, const char *before, const char *word, bool listed)
{
    g_auto(GStrv) parts = g_strsplit(form, "|", -1);
    for (char **part = parts; *part; part++)
        if (**part && strspn(*part, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(*part) &&
            g_ascii_islower(**part))
            offer_value(before, word, *part, listed);
}

static void offer_values(const struct option *option, const char *before, const char *word)
{
    const char *form = option_value(option);
    bool listed = strstr(form, ",..");
    g_auto(GStrv) names = option->words                       ? option->words()
                          : option->shared == OPTION_PLATFORM ? platform_shipped_names()
                                                              : NULL;
    for (size_t i = 0; option->shared == OPTION_POLICY && policy_all[i]; i++)
        offer_value(before, word, policy_all[i]->name, listed);
    for (char **name = names; name && *name; name++)
        offer_value(before, word, *name, listed);
    offer_literals(form, before, word, listed);
    if (option->file || option->shared == OPTION_POLICY) /* plug-ins are files */
        puts(strcmp(form, "DIR") == 0 ? ":folders" : ":files");
}

/* ---- the command line ---- */

static void offer_arguments(const struct program *program, bool commands)
{
    const struct option_group *main = &program->groups[0];
    for (size_t i = 0; i < main->count; i++)
        if (main->options[i].arguments)
            puts(commands ? ":commands" : ":files");
}

/* Returns the place of the command in the words of a program that runs one, or -1. */
static int find_command(const struct program *program, int count, char **words)
{
    for (int i = 0; program->strict_posix && i < count; i++) {
        if (strcmp(words[i], "--") == 0)
            return i + 1;
        if (words[i][0] != '-')
            return i;
        i += find(program, words[i]) != NULL;
    }
    return -1;
}

void completion_print(const struct program *program, int word_count, char **words)
{
    g_autoptr(GPtrArray) kept = g_ptr_array_new(); /* without the "=" that bash makes a word */
    for (int i = 0; i + 1 < word_count; i++)
        if (strcmp(words[i], "=") != 0)
            g_ptr_array_add(kept, words[i]);
    const char *last = word_count ? words[word_count - 1] : "";
    const char *word = strcmp(last, "=") == 0 ? "" : last;
    const char *before = kept->len ? g_ptr_array_index(kept, kept->len - 1) : "";
    int count = (int)kept->len, command = find_command(program, count, (char **)kept->pdata);
    const char *equals = g_str_has_prefix(word, "--") ? strchr(word, '=') : NULL;
    g_autofree char *name = equals ? g_strndup(word, (gsize)(equals - word)) : g_strdup(before);
    g_autofree char *begin = equals ? g_strndup(word, (gsize)(equals - word) + 1) : g_strdup("");
    const struct option *option = command < 0 ? find(program, name) : NULL;
    if (command >= 0)
        offer_arguments(program, command == count);
    else if (option)
        offer_values(option, begin, equals ? equals + 1 : word);
    else if (word[0] == '-') {
        for (size_t g = 0; g < program->group_count; g++)
            offer_options(program->groups[g].options, program->groups[g].count, word);
        offer_options(options_common, COMMON_OPTIONS, word);
    } else
        offer_arguments(program, program->strict_posix);
}
