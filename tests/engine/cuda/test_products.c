/* Algorithms of products that are timed once, and kept in a file; and GELU's derivative behind a
 * product, with and without the sums of its columns. */
#include "engine/bf16.h"
#include "engine/cuda/choices.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/operators.h"
#include "engine/gelu.h"
#include "tests/engine/cuda/cublaslt.h"

#include <cublasLt.h>
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

/* ---- GELU's derivative behind a product: dpre[N,I] of dy[N,O] and weight ---- */

struct slope {
    struct cuda_products *products;
    struct cuda_context context;
    uint16_t *dy, *weight, *pre, *dpre; /* each in 4,096 bytes */
    uint8_t *own;
    float expected[N * I];
};

/* Small numbers, whose products and sums are exact in fp32. */
static uint16_t number_of(int i)
{
    return bf16_round((float)(i * 5 % 11 - 5) / 8);
}

/* The weight is [I,O], or [O,I] if it is transposed. */
static struct slope slope_new(const struct fixture *f, bool transposed)
{
    uint8_t *own = g_aligned_alloc0(4, 4096, 256);
    struct slope s = {.products = cuda_products_new(NULL, f->workspace, WORKSPACE),
                      .dy = (uint16_t *)own,
                      .weight = (uint16_t *)(own + 4096),
                      .pre = (uint16_t *)(own + 8192),
                      .dpre = (uint16_t *)(own + 12288),
                      .own = own};
    s.context = (struct cuda_context){.products = s.products};
    for (int i = 0; i < N * O; i++)
        s.dy[i] = number_of(i);
    for (int i = 0; i < I * O; i++)
        s.weight[i] = number_of(7 * i + 3);
    for (int i = 0; i < N * I; i++)
        s.pre[i] = number_of(3 * i + 1);
    for (int n = 0; n < N; n++)
        for (int i = 0; i < I; i++) {
            float dy = 0;
            for (int o = 0; o < O; o++)
                dy += bf16_widen(s.dy[n * O + o]) *
                      bf16_widen(s.weight[transposed ? o * I + i : i * O + o]);
            s.expected[n * I + i] = dy * gelu_slope(bf16_widen(s.pre[n * I + i]));
        }
    return s;
}

static void slope_free(struct slope *s)
{
    cuda_products_free(s->products);
    g_aligned_free(s->own);
}

static bool run_slope(struct slope *s, bool transposed)
{
    cublaslt_products = 0;
    bool fused = (transposed ? cuda_product_slope : cuda_linear_slope)(&s->context, N, I, O, s->dy,
                                                                       s->weight, s->pre, s->dpre);
    g_assert_null(cuda_products_take_error(s->products));
    g_assert_cmpuint(cublaslt_products, ==, fused ? 1 : 0);
    return fused;
}

static void assert_slope(const struct slope *s)
{
    for (int i = 0; i < N * I; i++)
        g_assert_cmpfloat_with_epsilon(bf16_widen(s->dpre[i]), s->expected[i],
                                       fabsf(s->expected[i]) / 256);
}

static void slopes(struct fixture *f, gconstpointer data)
{
    (void)data;
    for (int transposed = 0; transposed < 2; transposed++) {
        struct slope s = slope_new(f, transposed);
        g_assert_true(run_slope(&s, transposed));
        assert_slope(&s);
        slope_free(&s);
    }
}

/* Without the library's derivative nothing is queued. What the library has is asked once for each
 * shape. */
static void missing_slopes(struct fixture *f, gconstpointer data)
{
    (void)data;
    struct slope s = slope_new(f, false);
    cublaslt_lacks = CUBLASLT_EPILOGUE_DGELU;
    for (int i = 0; i < 3; i++) {
        cublaslt_searches = 0;
        g_assert_false(run_slope(&s, false));
        g_assert_cmpuint(cublaslt_searches, ==, i == 0);
    }
    for (int i = 0; i < N * I; i++)
        g_assert_cmpuint(s.dpre[i], ==, 0);
    slope_free(&s);
    cublaslt_lacks = 0;
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/products/chosen-once", chosen_once);
    ADD("/products/not-what-adds", not_what_adds);
    ADD("/products/not-when-fixed", not_when_fixed);
    ADD("/products/other-files", other_files);
    ADD("/products/slopes", slopes);
    ADD("/products/missing-slopes", missing_slopes);
    return g_test_run();
}
