#include "chunks/lack.h"

#include "base/size.h"
#include "chunks/plan.h"

#include <string.h>

/* GLib names the type of what an error has beside its message. */
typedef struct plan_lack pstar_plan_errorPrivate;

static void plan_error_private_init(struct plan_lack *lack)
{
    *lack = (struct plan_lack){0};
}

static void plan_error_private_copy(const struct plan_lack *from, struct plan_lack *to)
{
    *to = *from;
}

static void plan_error_private_clear(struct plan_lack *lack)
{
    (void)lack;
}

G_DEFINE_EXTENDED_ERROR(pstar_plan_error, plan_error)

/* Returns the end of the message; free with g_free. */
static char *what_fits(const struct plan_lack *lack)
{
    g_autofree char *size = size_format(lack->bytes);
    g_autofree char *device = lack->device_bytes ? g_strdup_printf(", with %" G_GUINT64_FORMAT
                                                                   " bytes of device memory",
                                                                   lack->device_bytes)
                                                 : g_strdup("");
    return g_strdup_printf("; %" G_GUINT64_FORMAT " bytes would fit (%s)%s", lack->bytes, size,
                           device);
}

void plan_lack_set(GError **error, const struct plan_lack *lack, const char *why)
{
    g_autofree char *fits = what_fits(lack);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT, "%s%s", why, fits);
    if (error)
        *plan_error_get_private(*error) = *lack;
}

const struct plan_lack *plan_lack_of(const GError *error)
{
    if (!g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT))
        return NULL;
    const struct plan_lack *lack = plan_error_get_private(error);
    return lack->memory == PLAN_MEMORY_NONE ? NULL : lack;
}

char *plan_lack_why(const GError *error)
{
    const struct plan_lack *lack = plan_lack_of(error);
    char *why = g_strdup(error->message);
    g_autofree char *fits = lack ? what_fits(lack) : g_strdup("");
    if (g_str_has_suffix(why, fits))
        why[strlen(why) - strlen(fits)] = '\0';
    return why;
}

void plan_lack_replace(GError *error, const struct plan_lack *lack)
{
    struct plan_lack *own = plan_error_get_private(error);
    g_autofree char *said = error->message, *old = what_fits(own), *new = what_fits(lack);
    g_assert(g_str_has_suffix(said, old));
    error->message = g_strdup_printf("%.*s%s", (int)(strlen(said) - strlen(old)), said, new);
    *own = *lack;
}
