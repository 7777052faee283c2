#include "policies/plugin.h"

#include "base/files.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

G_DEFINE_QUARK(pstar_policy_error, policy_error)

static bool is_path(const char *text)
{
    return strchr(text, '/') || g_str_has_suffix(text, ".so");
}

/* dlerror() begins with the path, as our messages do. */
static const char *reason_of_loader(const char *path)
{
    const char *reason = dlerror();
    size_t length = strlen(path);
    return !strncmp(reason, path, length) && reason[length] == ':' ? reason + length + 2 : reason;
}

static const char *missing_part(const struct pstar_policy_ops *ops)
{
    const struct {
        const char *name;
        bool is_there;
    } parts[] = {
        {"name", ops->name && *ops->name},
        {"summary", ops->summary},
        {"open", ops->open},
        {"close", ops->close},
        {"admit", ops->admit},
        {"remove", ops->remove},
        {"victim", ops->victim},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++)
        if (!parts[i].is_there)
            return parts[i].name;
    return NULL;
}

/* The policy that the loaded object exports; NULL with a reason, to be freed. */
static const struct pstar_policy_ops *find_exported(void *object, char **reason)
{
    const uint32_t *abi = dlsym(object, "pstar_policy_abi");
    const struct pstar_policy_ops *ops = dlsym(object, "pstar_policy");
    if (!abi || !ops)
        *reason = g_strdup_printf("not a policy: it exports no %s",
                                  abi ? "pstar_policy" : "pstar_policy_abi");
    else if (*abi != PSTAR_POLICY_ABI)
        *reason =
            g_strdup_printf("compiled for version %u of the policy interface, but this program has "
                            "version %u: recompile it with this version's pstar.h",
                            *abi, PSTAR_POLICY_ABI);
    else if (missing_part(ops))
        *reason = g_strdup_printf("its pstar_policy does not define `%s`", missing_part(ops));
    else if (policy_find(ops->name))
        *reason = g_strdup_printf("its policy is named %s like a built-in policy; rename it",
                                  ops->name);
    return *reason ? NULL : ops;
}

/* ---- a plug-in that crashes ---- */

enum { MOST_NAMED = 64, MOST_FRAMES = 64 };

/* The loaded plug-ins. A signal's handler has no other way to know them. */
static struct {
    const void *base; /* of the shared object in memory */
    char *path;       /* as it was given */
} loaded[MOST_NAMED];
static volatile gint loaded_count;
/* What this thread loads: the code of a library may run before its policy is known. */
static _Thread_local const char *volatile loading;

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* Returns the path of the plug-in whose code the thread is in, or NULL. Uses only what may be
 * called within a handler (backtrace, once it has been called before). */
static const char *path_on_stack(void)
{
    void *frames[MOST_FRAMES];
    int count = backtrace(frames, MOST_FRAMES);
    for (int f = 0; f < count; f++) {
        Dl_info info;
        for (gint p = 0; p < loaded_count && dladdr(frames[f], &info); p++)
            if (info.dli_fbase == loaded[p].base)
                return loaded[p].path;
    }
    return NULL;
}

/* Names the plug-in that the thread was in. The signal's default action follows, because the
 * handler is reset before it runs. */
static void name_crashed(int number)
{
    const char *path = loading ? loading : path_on_stack();
    if (!path)
        return;
    say(path);
    say(loading ? ": crashed while it was loaded: " : ": the policy crashed: ");
    say(sigdescr_np(number));
    say("\n");
}

/* A plug-in that calls exit would end the program as if its work were done. */
static void name_ended(void)
{
    const char *path = loading ? loading : path_on_stack();
    if (!path)
        return;
    say(path);
    say(": the policy ended the program\n");
    _exit(EXIT_FAILURE);
}

static void watch(const char *path, const struct pstar_policy_ops *ops)
{
    Dl_info info;
    if (loaded_count == MOST_NAMED || !dladdr(ops, &info))
        return;
    loaded[loaded_count].base = info.dli_fbase;
    loaded[loaded_count].path = g_strdup(path);
    g_atomic_int_inc(&loaded_count);
}

enum { REPORT_STACK_BYTES = 64 << 10 };

static void free_report_stack(gpointer stack)
{
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    g_free(stack);
}

void policy_enter_thread(void)
{
    static GPrivate own = G_PRIVATE_INIT(free_report_stack);
    stack_t before;
    if (!g_atomic_int_get(&loaded_count) || sigaltstack(NULL, &before) != 0 ||
        !(before.ss_flags & SS_DISABLE))
        return;
    stack_t stack = {.ss_sp = g_malloc(REPORT_STACK_BYTES), .ss_size = REPORT_STACK_BYTES};
    sigaltstack(&stack, NULL);
    g_private_replace(&own, stack.ss_sp);
}

static void catch_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = name_crashed,
                               .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK)};
    void *frame;
    static bool is_set;
    backtrace(&frame, 1); /* the first call takes memory */
    if (!is_set)
        is_set = atexit(name_ended) == 0;
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
        struct sigaction before;
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL); /* a program's own handler stays */
    }
}

/* ---- opening ---- */

static const struct pstar_policy_ops *load(const char *path, GError **error)
{
    g_autofree char *full = g_canonicalize_filename(path, NULL);
    g_autofree char *reason = g_strdup(library_file_refusal(full));
    if (reason) {
        g_set_error(error, POLICY_ERROR, POLICY_ERROR_PLUGIN, "%s: %s", path, reason);
        return NULL;
    }
    catch_crashes();
    loading = path;
    void *object = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    loading = NULL;
    if (!object) {
        g_set_error(error, POLICY_ERROR, POLICY_ERROR_PLUGIN, "%s: %s", path,
                    reason_of_loader(full));
        return NULL;
    }
    const struct pstar_policy_ops *ops = find_exported(object, &reason);
    if (!ops) {
        g_set_error(error, POLICY_ERROR, POLICY_ERROR_PLUGIN, "%s: %s", path, reason);
        dlclose(object);
    } else {
        watch(path, ops);
    }
    return ops;
}

/* ---- parameters ---- */

/* Sets the value of a text such as "small=0.2". */
static bool parse_value(const char *text, const struct pstar_policy_ops *ops, double *values,
                        GError **error)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    g_autoptr(GString) known = g_string_new(NULL);
    for (size_t i = 0; ops->parameters && ops->parameters[i].name; i++) {
        const struct pstar_policy_parameter *p = &ops->parameters[i];
        char *end = NULL;
        g_string_append_printf(known, "%s%s in [%.10g, %.10g]", i ? ", " : "", p->name, p->least,
                               p->most);
        if (!equals || strlen(p->name) != length || strncmp(p->name, text, length) != 0)
            continue;
        values[i] = g_ascii_strtod(equals + 1, &end);
        if (end != equals + 1 && !*end && values[i] >= p->least && values[i] <= p->most &&
            (!p->whole || values[i] == floor(values[i])))
            return true;
        g_set_error(error, POLICY_ERROR, POLICY_ERROR_PARAMETER,
                    "policy %s: %s must be %s number in [%.10g, %.10g], not '%s'", ops->name,
                    p->name, p->whole ? "a whole" : "a", p->least, p->most, equals + 1);
        return false;
    }
    g_set_error(error, POLICY_ERROR, POLICY_ERROR_PARAMETER,
                "policy %s has no parameter '%.*s'%s%s", ops->name, (int)length, text,
                known->len ? "; it has " : "", known->str);
    return false;
}

/* Returns the values that `texts` give, and usual ones for the rest. */
static double *parse_values(char *const *texts, const struct pstar_policy_ops *ops, GError **error)
{
    size_t count = 0;
    while (ops->parameters && ops->parameters[count].name)
        count++;
    double *values = g_new(double, count + 1);
    for (size_t i = 0; i < count; i++)
        values[i] = ops->parameters[i].usual;
    for (; *texts; texts++)
        if (!parse_value(*texts, ops, values, error)) {
            g_free(values);
            return NULL;
        }
    return values;
}

/* The policies with values. They live as long as the process, as plug-ins do. */
static GHashTable *with_values;

/* `given` is the whole text: what the policy is called in tables and files. */
static const struct pstar_policy_ops *set_values(const struct pstar_policy_ops *ops,
                                                 const char *given, char *const *texts,
                                                 GError **error)
{
    double *values = parse_values(texts, ops, error);
    if (!values)
        return NULL;
    struct pstar_policy_ops *own = g_memdup2(ops, sizeof *ops);
    own->name = g_intern_string(given);
    own->values = values;
    if (!with_values)
        with_values = g_hash_table_new(NULL, NULL);
    g_hash_table_add(with_values, own);
    return own;
}

static const struct pstar_policy_ops *open_plain(const char *name_or_path, GError **error)
{
    if (is_path(name_or_path))
        return load(name_or_path, error);
    const struct pstar_policy_ops *ops = policy_find(name_or_path);
    if (ops)
        return ops;
    g_autoptr(GString) names = g_string_new(NULL);
    for (int i = 0; policy_all[i]; i++)
        g_string_append_printf(names, "%s, ", policy_all[i]->name);
    g_set_error(error, POLICY_ERROR, POLICY_ERROR_UNKNOWN,
                "unknown policy '%s'; choose one of %sor give the path of a shared object",
                name_or_path, names->str);
    return NULL;
}

const struct pstar_policy_ops *policy_open(const char *text, GError **error)
{
    const char *colon = strchr(text, ':');
    if (!colon || !strchr(colon, '='))
        return open_plain(text, error);
    g_auto(GStrv) parts = g_strsplit(text, ":", -1);
    const struct pstar_policy_ops *ops = open_plain(parts[0], error);
    return ops ? set_values(ops, text, parts + 1, error) : NULL;
}
