/* Policies from shared objects: the example in examples/policy, and others that are refused. */
#include "policies/plugin.h"
#include "tests/policies/cache.h"

#include <string.h>

static void refuses(const char *name_or_path, int code, const char *says)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(policy_open(name_or_path, &error));
    g_assert_error(error, POLICY_ERROR, code);
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, says));
    g_assert_true(strstr(error->message, name_or_path) == error->message ||
                  code == POLICY_ERROR_UNKNOWN);
    g_assert_null(strchr(error->message, '\n'));
}

static void test_names(void)
{
    for (int i = 0; policy_all[i]; i++)
        g_assert_true(policy_open(policy_all[i]->name, NULL) == policy_all[i]);
    refuses("none such", POLICY_ERROR_UNKNOWN, "unknown policy 'none such'");
    refuses("none such", POLICY_ERROR_UNKNOWN, "fifo, lru,");
    refuses("", POLICY_ERROR_UNKNOWN, "unknown policy ''");
}

static void test_refused(void)
{
    refuses("./none-such.so", POLICY_ERROR_PLUGIN, "No such file");
    refuses("none-such.so", POLICY_ERROR_PLUGIN, "No such file");
    refuses(TEST_SOURCE_DIR "/requests.txt", POLICY_ERROR_PLUGIN, "invalid ELF header");
    refuses(BROKEN_NO_VERSION_PLUGIN, POLICY_ERROR_PLUGIN, "exports no pstar_policy_abi");
    refuses(BROKEN_NO_POLICY_PLUGIN, POLICY_ERROR_PLUGIN, "exports no pstar_policy");
    refuses(BROKEN_OTHER_ABI_PLUGIN, POLICY_ERROR_PLUGIN, "version 99 of the policy interface");
    refuses(BROKEN_NO_VICTIM_PLUGIN, POLICY_ERROR_PLUGIN, "not define `victim`");
    refuses(BROKEN_TAKEN_NAME_PLUGIN, POLICY_ERROR_PLUGIN, "named lru");
}

/* On a loop the most recently used is the one used farthest in the future. */
static void test_example(void)
{
    g_autoptr(GError) error = NULL;
    const struct pstar_policy_ops *mru = policy_open(EXAMPLE_PLUGIN, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(mru->name, ==, "mru");
    struct requests *loop = requests_parse("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    struct cache by_example, by_opt;
    cache_open(&by_example, mru, loop, 4);
    cache_open(&by_opt, &policy_opt, loop, 4);
    for (uint32_t i = 0; i < 5 * loop->count; i++)
        g_assert_cmpint(cache_request(&by_example, loop), ==, cache_request(&by_opt, loop));
    cache_close(&by_example);
    cache_close(&by_opt);
    requests_free(loop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/policies/plugin/names", test_names);
    g_test_add_func("/policies/plugin/refused", test_refused);
    g_test_add_func("/policies/plugin/example", test_example);
    return g_test_run();
}
