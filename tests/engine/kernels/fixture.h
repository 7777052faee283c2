/* Helpers of the kernels' tests: tensors with known fp64 values, and runs of a kernel with every
 * vector extension and several numbers of threads, which must give the same bits. */
#ifndef PSTAR_TESTS_ENGINE_KERNELS_FIXTURE_H
#define PSTAR_TESTS_ENGINE_KERNELS_FIXTURE_H

#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

struct tensor {
    enum model_precision precision;
    uint64_t elements;
    void *data;    /* as the kernels see it */
    double *value; /* what is stored there, exactly */
};

/* Draws normal values times `deviation`, rounded to the precision. */
struct tensor *tensor_random(enum model_precision precision, uint64_t elements, double deviation);
/* Makes a tensor of fp64 values, rounded to the precision. */
struct tensor *tensor_from(enum model_precision precision, uint64_t elements, const double *values);
/* Makes a tensor of NaN, so that a test sees an element that nobody writes. */
struct tensor *tensor_unset(enum model_precision precision, uint64_t elements);
void tensor_free(struct tensor *tensor);

uint64_t tensor_bytes(const struct tensor *tensor);
/* Reads data into value again. */
void tensor_read(struct tensor *tensor);

/* Asserts that the tensor holds `expected`: the norm of the difference is within `tolerance` of the
 * norm of expected, and each element within 16 times that of the greatest. A NaN fails. In bf16
 * another half unit in the last place is allowed. */
void assert_close(struct tensor *tensor, const double *expected, double tolerance,
                  const char *what);
/* Does the same for the norm and the greatest of `terms`, because a sum of few terms may be much
 * smaller than they are. */
void assert_close_for(struct tensor *tensor, const double *expected, const double *terms,
                      double tolerance, const char *what);

/* Runs a kernel in every context, from the same first contents of its outputs, and asserts that all
 * runs leave the same bits. */
typedef void kernel_run(struct cpu_context *cpu, void *argument);
void run_everywhere(kernel_run *run, void *argument, struct tensor *const *outputs,
                    unsigned output_count);

/* Adds the tests `path`/fp32 and `path`/bf16. */
typedef void precision_test(enum model_precision precision);
void add_precision_test(const char *path, precision_test *test);

enum model_precision gradient_precision(enum kernel_gradient gradient);

uint32_t random_token(uint32_t below);
uint32_t *random_tokens(uint32_t count, uint32_t below);
double *zeros(uint64_t count);

/* Returns the mask of a dropout times its scale, of [rows, columns], by random_word. `dropout` may
 * be NULL: then the mask is ones. */
double *dropout_mask(const struct kernel_dropout *dropout, uint64_t rows, uint32_t columns);

/* Asserts that `gradient` is the gradient of `loss` at `at`, by central differences at some
 * elements. */
typedef double loss_function(const double *at, const void *argument);
void assert_gradient(loss_function *loss, const void *argument, const double *at,
                     const double *gradient, uint64_t elements);

#endif
