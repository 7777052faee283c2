/* Masters in two halves lose nothing, and updates have the bits of whole masters. */
#include "engine/bf16.h"
#include "fixture.h"

#include <math.h>

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Draws half a unit in the last place of the upper half, one less, one more, the extremes, or a
 * value between. */
static uint32_t draw_rest(unsigned i)
{
    static const uint32_t rests[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    return i < G_N_ELEMENTS(rests) ? rests[i] : random_token(0x10000);
}

/* Tries every upper half: zeros, denormals, numbers that overflow, infinities and NaNs of both
 * signs. */
static void halves_give_the_whole_back(void)
{
    for (uint32_t upper = 0; upper < 0x10000; upper++)
        for (unsigned i = 0; i < 12; i++) {
            uint32_t bits = upper << 16 | draw_rest(i);
            uint32_t quiet = isnan(float_of(bits)) ? 0x400000 : 0;
            float value = float_of(bits);
            uint32_t joined = bits_of(bf16_join(bf16_round(value), bf16_rest(value)));
            g_assert_cmphex(joined, ==, bits | quiet);
        }
}

/* One step of the same values in two layouts, with the master whole and in two halves. */
struct both {
    bool gradient_in_bf16; /* false: in fp32 */
    struct adamw_step step;
    struct tensor *gradient;
    struct tensor *param, *master, *exp_avg, *exp_avg_sq;
    struct tensor *upper, *rest, *split_avg, *split_avg_sq;
};

static void update_whole(struct cpu_context *cpu, void *argument)
{
    const struct both *b = argument;
    const struct adamw_tensor tensor = {
        .elements = b->param->elements,
        .param = b->param->data,
        .gradient = b->gradient_in_bf16 ? NULL : b->gradient->data,
        .master = b->master->data,
        .exp_avg = b->exp_avg->data,
        .exp_avg_sq = b->exp_avg_sq->data,
    };
    cpu_adamw(cpu, &b->step, NULL, &tensor);
}

static void update_split(struct cpu_context *cpu, void *argument)
{
    const struct both *b = argument;
    const struct adamw_tensor tensor = {
        .elements = b->upper->elements,
        .param = b->upper->data,
        .gradient = b->gradient_in_bf16 ? NULL : b->gradient->data,
        .gradient_bf16 = b->gradient_in_bf16 ? b->gradient->data : NULL,
        .rest = b->rest->data,
        .exp_avg = b->split_avg->data,
        .exp_avg_sq = b->split_avg_sq->data,
    };
    cpu_adamw(cpu, &b->step, NULL, &tensor);
}

static struct tensor *copy_of(const struct tensor *tensor)
{
    struct tensor *copy = tensor_unset(tensor->precision, tensor->elements);
    memcpy(copy->data, tensor->data, tensor_bytes(tensor));
    return copy;
}

/* Sets an element to a bf16 or fp32 of any class. */
static void set_any(struct tensor *tensor, uint64_t i)
{
    uint32_t bits = random_token(0x10000) << 16 | draw_rest(random_token(12));
    if (tensor->precision == MODEL_BF16)
        ((uint16_t *)tensor->data)[i] = (uint16_t)(bits >> 16);
    else
        ((uint32_t *)tensor->data)[i] = bits;
}

/* Draws normal values. In each 4 elements one master or one gradient is of any class, but never
 * both, because no standard says which of two NaNs an operation returns. */
static struct both both_new(uint64_t elements, bool gradient_in_bf16)
{
    const struct adamw_options options = {3e-3, 0.9, 0.95, 1e-8, 0.1, 0.7};
    struct both b = {.gradient_in_bf16 = gradient_in_bf16, .step = adamw_step_of(&options, 3)};
    b.gradient = tensor_random(gradient_in_bf16 ? MODEL_BF16 : MODEL_FP32, elements, 1);
    b.master = tensor_random(MODEL_FP32, elements, 1);
    b.exp_avg = tensor_random(MODEL_FP32, elements, 0.1);
    b.exp_avg_sq = tensor_random(MODEL_FP32, elements, 0.1);
    b.upper = tensor_unset(MODEL_BF16, elements);
    b.rest = tensor_unset(MODEL_BF16, elements);
    for (uint64_t i = 0; i < elements; i++) {
        if (i % 4 == 1)
            set_any(b.master, i);
        else if (i % 4 == 3)
            set_any(b.gradient, i);
        float master = ((float *)b.master->data)[i], *v = (float *)b.exp_avg_sq->data + i;
        ((uint16_t *)b.upper->data)[i] = bf16_round(master);
        ((uint16_t *)b.rest->data)[i] = bf16_rest(master);
        *v *= *v;
    }
    b.param = copy_of(gradient_in_bf16 ? b.gradient : b.upper);
    b.split_avg = copy_of(b.exp_avg);
    b.split_avg_sq = copy_of(b.exp_avg_sq);
    return b;
}

static void both_clear(struct both *b)
{
    struct tensor *all[] = {b->gradient, b->param, b->master,    b->exp_avg,     b->exp_avg_sq,
                            b->upper,    b->rest,  b->split_avg, b->split_avg_sq};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
}

static void assert_same(const struct tensor *a, const struct tensor *b)
{
    g_assert_cmpmem(a->data, tensor_bytes(a), b->data, tensor_bytes(b));
}

static void check_update(uint64_t elements, bool gradient_in_bf16)
{
    struct both b = both_new(elements, gradient_in_bf16);
    struct tensor *whole[] = {b.param, b.master, b.exp_avg, b.exp_avg_sq};
    struct tensor *split[] = {b.upper, b.rest, b.split_avg, b.split_avg_sq};
    run_everywhere(update_whole, &b, whole, G_N_ELEMENTS(whole));
    run_everywhere(update_split, &b, split, G_N_ELEMENTS(split));
    assert_same(b.param, b.upper);
    assert_same(b.exp_avg, b.split_avg);
    assert_same(b.exp_avg_sq, b.split_avg_sq);
    for (uint64_t i = 0; i < elements; i++) {
        float joined = bf16_join(((uint16_t *)b.upper->data)[i], ((uint16_t *)b.rest->data)[i]);
        g_assert_cmphex(bits_of(joined), ==, ((uint32_t *)b.master->data)[i]);
    }
    both_clear(&b);
}

static void updates_are_those_of_whole_masters(void)
{
    static const uint64_t sizes[] = {1, 17, 1000, 5003, 40000};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        check_update(sizes[i], false);
        check_update(sizes[i], true);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/split/halves", halves_give_the_whole_back);
    g_test_add_func("/split/updates", updates_are_those_of_whole_masters);
    return g_test_run();
}
