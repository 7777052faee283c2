#include "base/fault.h"

#include <stdatomic.h>
#include <string.h>

G_DEFINE_QUARK(pstar_fault_error, fault_error)

struct rule {
    uint64_t first; /* the event that goes wrong; 0 for none */
    bool later;     /* all events after it go wrong, too */
};

static const char *const names[FAULTS] = {
    [FAULT_DEVICE_MEMORY] = "device-memory",
    [FAULT_PINNED_MEMORY] = "pinned-memory",
    [FAULT_COPY] = "copy",
    [FAULT_SLOW_COPY] = "slow-copy",
    [FAULT_GRADIENT] = "gradient",
    [FAULT_DEVICE_LOST] = "device-lost",
};

/* Names of the library that tests preload (tests/faults), which sees calls of the system. */
static const char *const names_of_library[] = {"heap", "write"};

enum state { STATE_UNKNOWN, STATE_NONE, STATE_SOME };

static _Atomic(enum state) state;
static struct rule rules[FAULTS]; /* constant while `state` is STATE_SOME */
static _Atomic uint64_t seen[FAULTS];

static bool refuse(const char *rule, GError **error)
{
    g_autoptr(GString) known = g_string_new(NULL);
    for (int f = 0; f < FAULTS; f++)
        g_string_append_printf(known, "%s, ", names[f]);
    g_set_error(error, FAULT_ERROR, FAULT_ERROR_SYNTAX,
                FAULT_VARIABLE ": %s: must be NAME:N or NAME:N+, with N from 1 and NAME one of "
                               "%sheap, write",
                rule, known->str);
    return false;
}

/* Returns the fault's number; FAULTS for one of the library, and -1 if there is none. */
static int find(const char *name)
{
    for (int f = 0; f < FAULTS; f++)
        if (strcmp(name, names[f]) == 0)
            return f;
    for (size_t i = 0; i < G_N_ELEMENTS(names_of_library); i++)
        if (strcmp(name, names_of_library[i]) == 0)
            return FAULTS;
    return -1;
}

static bool parse(const char *text, struct rule parsed[FAULTS + 1], GError **error)
{
    g_auto(GStrv) each = g_strsplit(text, ",", -1);
    for (char **rule = each; *rule; rule++) {
        g_auto(GStrv) parts = g_strsplit(*rule, ":", 2);
        int fault = g_strv_length(parts) == 2 ? find(parts[0]) : -1;
        bool later = fault >= 0 && g_str_has_suffix(parts[1], "+");
        guint64 first;
        if (later)
            parts[1][strlen(parts[1]) - 1] = '\0';
        if (fault < 0 || !g_ascii_string_to_unsigned(parts[1], 10, 1, G_MAXUINT64, &first, NULL))
            return refuse(*rule, error);
        parsed[fault] = (struct rule){first, later};
    }
    return true;
}

bool fault_set(const char *text, GError **error)
{
    struct rule parsed[FAULTS + 1] = {{0}};
    bool some = text && *text;
    bool ok = !some || parse(text, parsed, error);
    memcpy(rules, parsed, sizeof rules);
    for (int f = 0; f < FAULTS; f++)
        atomic_store(&seen[f], 0);
    atomic_store(&state, ok && some ? STATE_SOME : STATE_NONE);
    return ok;
}

bool fault_set_from_environment(GError **error)
{
    return fault_set(g_getenv(FAULT_VARIABLE), error);
}

/* A library that is loaded later has a switchboard of its own, which its first event sets. */
static void set_once(void)
{
    static gsize done;
    if (!g_once_init_enter(&done))
        return;
    if (atomic_load(&state) == STATE_UNKNOWN)
        fault_set_from_environment(NULL);
    g_once_init_leave(&done, 1);
}

bool fault_strikes(enum fault fault)
{
    if (atomic_load_explicit(&state, memory_order_relaxed) == STATE_NONE)
        return false;
    set_once();
    if (atomic_load(&state) != STATE_SOME || !rules[fault].first)
        return false;
    uint64_t event = atomic_fetch_add(&seen[fault], 1) + 1;
    return event == rules[fault].first || (rules[fault].later && event > rules[fault].first);
}
