#include "base/failure.h"

G_DEFINE_QUARK(pstar_failure, failure)

bool failure_mark(GError **error, enum failure failure)
{
    if (error) {
        GError *marked = g_error_new_literal(FAILURE, (int)failure, (*error)->message);
        g_error_free(*error);
        *error = marked;
    }
    return false;
}
