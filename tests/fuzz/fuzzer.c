/* One fuzzer for all readers; the environment names the one to fuzz. libFuzzer calls the functions
 * below. */
#include "tests/fuzz/readers.h"

static const struct fuzz_reader *fuzzed;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *name = g_getenv("PSTAR_FUZZ_READER");
    fuzzed = name ? fuzz_reader_find(name) : NULL;
    if (!fuzzed)
        g_error("PSTAR_FUZZ_READER must name a reader of tests/fuzz/readers.c");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
    fuzz_try(fuzzed, input, bytes);
    return 0;
}
