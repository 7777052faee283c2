#include "collect/allocator.h"

#include <glib.h>
#include <stdio.h>

#define BACKEND "backend:cudaMallocAsync"

/* `options` ("key:value,...", or NULL) with our backend. Free with g_free. */
static char *with_backend(const char *options)
{
    g_auto(GStrv) parts = g_strsplit(!options ? "" : options, ",", -1);
    GString *text = g_string_new(BACKEND);
    for (char **part = parts; *part; part++)
        if (**part != '\0' && !g_str_has_prefix(g_strstrip(*part), "backend:"))
            g_string_append_printf(text, ",%s", *part);
    return g_string_free(text, FALSE);
}

void allocator_show_tensors(void)
{
    /* The newer name counts where both are there; older versions know the other alone. */
    const char *names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
    const char *newer = g_getenv(names[0]), *older = g_getenv(names[1]);
    g_autofree char *options = with_backend(newer ? newer : older);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        g_setenv(names[i], options, TRUE);
    fprintf(stderr,
            "pstar-collect: PyTorch's allocator on CUDA devices is set to cudaMallocAsync "
            "(%s=%s): each tensor is visible; times and fragmentation are not those of the native "
            "allocator\n",
            names[0], options);
}
