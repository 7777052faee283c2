#include "traces/failure.h"

G_DEFINE_QUARK(pstar_failure, failure)

bool failure_mark(GError **error, enum failure failure)
{
    if (error) {
        (*error)->domain = FAILURE;
        (*error)->code = (int)failure;
    }
    return false;
}
