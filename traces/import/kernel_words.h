/* What a kernel is for, as far as its name tells. */
#ifndef PSTAR_TRACES_IMPORT_KERNEL_WORDS_H
#define PSTAR_TRACES_IMPORT_KERNEL_WORDS_H

#include <stdbool.h>

/* Of an optimizer: "adam", "sgd", "multi_tensor_apply" and the like. */
bool kernel_words_optimizer(const char *name);

/* Of backward: "backward", "bwd", "dgrad", "wgrad" and the like. */
bool kernel_words_backward(const char *name);

#endif
