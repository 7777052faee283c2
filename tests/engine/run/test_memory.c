/* Operators reach the arena only: host memory is fatal to touch, by either of the ways to it. */
#include "engine/cpu/memory.h"
#include "engine/device.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARENA = (3 << 20) + 256, HOST = (1 << 20) + 256 };

/* The signal that ends a child that reads one byte; 0 where it lives. */
static int signal_of_reading(const uint8_t *address)
{
    pid_t child = fork();
    g_assert_cmpint(child, >=, 0);
    if (child == 0) {
        /* A sanitizer's handler would turn the signal into an exit. */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        volatile uint8_t byte = *(const volatile uint8_t *)address;
        (void)byte;
        _exit(0);
    }
    int status;
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_host_is_hidden(void)
{
    struct cpu_memory memory;
    g_assert_true(cpu_memory_open(&memory, ARENA, HOST, NULL, 1, NULL));
    for (uint64_t byte = 0; byte < HOST; byte += HOST / 16) {
        memory.host[byte] = 1;
        g_assert_cmpint(signal_of_reading(memory.host_hidden + byte), ==, SIGSEGV);
    }
    g_assert_cmpint(signal_of_reading(memory.host), ==, 0);
    g_assert_cmpint(signal_of_reading(memory.arena + ARENA - 1), ==, 0);
    cpu_memory_close(&memory);
}

/* An address past the arena's end is no luckier. */
static void test_leaving_the_arena(void)
{
    struct cpu_memory memory;
    g_assert_true(cpu_memory_open(&memory, ARENA, HOST, NULL, 1, NULL));
    g_assert_cmpuint((uintptr_t)memory.arena % (2 << 20), ==, 0);
    uint64_t past = (ARENA + 4095) / 4096 * 4096;
    g_assert_cmpint(signal_of_reading(memory.arena + past), ==, SIGSEGV);
    g_assert_cmpint(signal_of_reading(memory.host_hidden - 1), ==, SIGSEGV);
    g_assert_cmpint(signal_of_reading(memory.host_hidden), ==, SIGSEGV);
    cpu_memory_close(&memory);
}

static void test_either_may_be_empty(void)
{
    struct cpu_memory memory;
    g_assert_true(cpu_memory_open(&memory, ARENA, 0, NULL, 1, NULL));
    g_assert_null(memory.host);
    memory.arena[ARENA - 1] = 1;
    cpu_memory_close(&memory);
    g_assert_true(cpu_memory_open(&memory, 0, HOST, NULL, 1, NULL));
    memory.host[HOST - 1] = 1;
    cpu_memory_close(&memory);
}

static void test_more_than_there_is(void)
{
    struct cpu_memory memory;
    GError *error = NULL;
    g_assert_false(cpu_memory_open(&memory, UINT64_C(1) << 46, HOST, NULL, 1, &error));
    g_assert_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY);
    g_clear_error(&error);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/host-is-hidden", test_host_is_hidden);
    g_test_add_func("/memory/leaving-the-arena", test_leaving_the_arena);
    g_test_add_func("/memory/either-may-be-empty", test_either_may_be_empty);
    g_test_add_func("/memory/more-than-there-is", test_more_than_there_is);
    return g_test_run();
}
