/* Algorithms of products that are timed once, and kept in a file. */
#include "engine/cuda/choices.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/operators.h"
#include "tests/engine/cuda/cublaslt.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

enum { N = 4, I = 8, O = 16, WORKSPACE = 1 << 20, TIMED = CUBLASLT_ALGORITHMS * (1 + 3) };

struct fixture {
    char *folder, *path;
    float *memory; /* x, weight, bias, y */
    void *workspace;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->folder = g_dir_make_tmp("pstar-products-XXXXXX", NULL);
    f->path = g_build_filename(f->folder, "products", NULL);
    f->memory = g_aligned_alloc0(5 * 1024, sizeof(float), 256);
    f->workspace = g_aligned_alloc(1, WORKSPACE, 256);
    for (int i = 0; i < 3 * 1024; i++)
        f->memory[i] = (float)(i % 7);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_unlink(f->path);
    g_rmdir(f->folder);
    g_free(f->folder);
    g_free(f->path);
    g_aligned_free(f->memory);
    g_aligned_free(f->workspace);
}

static struct cuda_products *open_products(const struct fixture *f, float first, float second,
                                           float third)
{
    GError *error = NULL;
    const float milliseconds[] = {first, second, third};
    memcpy(cublaslt_milliseconds, milliseconds, sizeof milliseconds);
    struct cuda_products *products = cuda_products_new(NULL, f->workspace, WORKSPACE);
    g_assert_true(cuda_products_time(products, f->path, &error));
    g_assert_no_error(error);
    return products;
}

/* Returns how many products the layer's forward computes. */
static uint32_t forward(const struct fixture *f, struct cuda_products *products)
{
    const struct cuda_context context = {.products = products};
    cublaslt_products = 0;
    cuda_linear_forward(&context, MODEL_FP32, N, I, O, f->memory, f->memory + 1024,
                        f->memory + 2048, f->memory + 3072);
    g_assert_null(cuda_products_take_error(products));
    return cublaslt_products;
}

/* Adds to a gradient of 1, which a repetition would change. */
static uint32_t add_gradient(const struct fixture *f, struct cuda_products *products)
{
    const struct cuda_context context = {.products = products};
    float *dweight = f->memory + 4096;
    cublaslt_products = 0;
    for (int i = 0; i < I * O; i++)
        dweight[i] = 1;
    cuda_linear_backward_weight(&context, MODEL_FP32, N, I, O, f->memory, f->memory + 1024,
                                KERNEL_GRADIENT_ADD, NULL, dweight, NULL);
    float expected = 1;
    for (int n = 0; n < N; n++)
        expected += f->memory[n * I] * f->memory[1024 + n * O];
    g_assert_cmpfloat(dweight[0], ==, expected);
    g_assert_null(cuda_products_take_error(products));
    return cublaslt_products;
}

static char *contents(const struct fixture *f)
{
    char *text = NULL;
    g_file_get_contents(f->path, &text, NULL, NULL);
    return text;
}

/* The quickest is taken, once; the next run finds it, though another would be quicker then. */
static void chosen_once(struct fixture *f, gconstpointer data)
{
    (void)data;
    struct cuda_products *products = open_products(f, 3, 2, 5);
    g_assert_cmpuint(forward(f, products), ==, TIMED + 1);
    g_autofree char *first = contents(f);
    g_assert_nonnull(strstr(first, "\t5eee\t")); /* the second algorithm */
    g_assert_cmpuint(forward(f, products), ==, 1);
    cuda_products_free(products);

    products = open_products(f, 1, 2, 5);
    g_assert_cmpuint(forward(f, products), ==, 1);
    cuda_products_free(products);
    g_autofree char *second = contents(f);
    g_assert_cmpstr(first, ==, second);
}

static void not_what_adds(struct fixture *f, gconstpointer data)
{
    (void)data;
    struct cuda_products *products = open_products(f, 3, 2, 5);
    g_assert_cmpuint(add_gradient(f, products), ==, 1);
    g_assert_cmpuint(add_gradient(f, products), ==, 1);
    cuda_products_free(products);
}

/* Several ranks time nothing: each would choose for itself. */
static void not_when_fixed(struct fixture *f, gconstpointer data)
{
    (void)data;
    struct cuda_products *products = open_products(f, 3, 2, 5);
    cuda_products_fix(products);
    g_assert_cmpuint(forward(f, products), ==, 1);
    g_assert_false(g_file_test(f->path, G_FILE_TEST_EXISTS));
    cuda_products_free(products);
}

/* A choice of another GPU is kept and not used; a file of anything else is refused. */
static void other_files(struct fixture *f, gconstpointer data)
{
    static const char other[] =
        "another GPU\t130000\t4 16 8 0 0 00 0 0 20\t0\t5eef\t0\t0\t0\t0\t0\t0\t0\n";
    GError *error = NULL;
    (void)data;
    g_file_set_contents(f->path, other, -1, NULL);
    struct cuda_products *products = open_products(f, 3, 2, 5);
    g_assert_cmpuint(forward(f, products), ==, TIMED + 1);
    cuda_products_free(products);
    g_autofree char *text = contents(f);
    g_assert_true(g_str_has_prefix(text, other));

    g_file_set_contents(f->path, "{}\n", -1, NULL);
    g_assert_null(choices_open(f->path, "no GPU", 130000, &error));
    g_assert_nonnull(strstr(error->message, "line 1 is not a choice"));
    g_clear_error(&error);
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/products/chosen-once", chosen_once);
    ADD("/products/not-what-adds", not_what_adds);
    ADD("/products/not-when-fixed", not_when_fixed);
    ADD("/products/other-files", other_files);
    return g_test_run();
}
