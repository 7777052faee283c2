/* Law 2 in a test: what was counted is what the plan predicts. */
#ifndef PSTAR_TESTS_CHUNKS_CHECK_FIGURES_H
#define PSTAR_TESTS_CHUNKS_CHECK_FIGURES_H

#include "chunks/figures.h"

#include <glib.h>

/* Checks every count and every peak. Times are predicted, and so are not compared. */
static inline void check_figures(const struct plan_figures *seen,
                                 const struct plan_figures *predicted)
{
    const struct plan_figure *figure = figures_first_difference(seen, predicted);
    if (figure)
        g_error("%s is %" G_GUINT64_FORMAT ", but %" G_GUINT64_FORMAT " is predicted", figure->name,
                figures_count(seen, figure), figures_count(predicted, figure));
}

#endif
