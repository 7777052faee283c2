#include "collect/kernel_name.h"

#include <dlfcn.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef char *(*demangle_function)(const char *name, char *buffer, size_t *length, int *status);

/* By name, so that no C++ runtime comes into a program that has none: NULL without it. */
static demangle_function find_demangle(void)
{
    static gsize looked = 0;
    static demangle_function function = NULL;
    if (g_once_init_enter(&looked)) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        if (library)
            *(void **)&function = dlsym(library, "__cxa_demangle");
        g_once_init_leave(&looked, 1);
    }
    return function;
}

char *kernel_name_demangle(const char *name)
{
    demangle_function demangle = strncmp(name, "_Z", 2) == 0 ? find_demangle() : NULL;
    int status = 0;
    char *text = !demangle ? NULL : demangle(name, NULL, NULL, &status);
    char *copy = g_strdup(!text ? name : text);
    free(text);
    return copy;
}

/* Behind the bracket that closes the one at `text`. */
static const char *skip_brackets(const char *text)
{
    int depth = 0;
    do {
        if (*text == '<' || *text == '(')
            depth++;
        else if (*text == '>' || *text == ')')
            depth--;
        text++;
    } while (depth > 0 && *text != '\0');
    return text;
}

char *kernel_name_short(const char *demangled)
{
    const char *begin = demangled, *end = NULL, *c = demangled;
    while (*c != '\0') {
        bool scope = strncmp(c, "::", 2) == 0;
        if (scope || *c == ' ') { /* a namespace, or what is returned */
            c += scope ? 2 : 1;
            begin = c;
            end = NULL;
        } else if (*c == '<') {
            end = !end ? c : end;
            c = skip_brackets(c);
        } else if (*c == '(' && c > begin) { /* parameters */
            end = !end ? c : end;
            break;
        } else { /* "(anonymous namespace)" is a name */
            c = *c == '(' ? skip_brackets(c) : c + 1;
        }
    }
    if (!end)
        end = c;
    return end > begin ? g_strndup(begin, (gsize)(end - begin)) : g_strdup(demangled);
}
