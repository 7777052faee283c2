/* The memory that control groups leave: of either version, in any group above, less what is used.
 */
#include "engine/host/machine.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#define NO_LIMIT "9223372036854771712\n"

static void write_group(const char *mount, const char *group, const char *const files[][2],
                        size_t count)
{
    g_autofree char *folder = g_build_filename(mount, group, NULL);
    g_assert_cmpint(g_mkdir_with_parents(folder, 0777), ==, 0);
    for (size_t i = 0; i < count; i++) {
        g_autofree char *path = g_build_filename(folder, files[i][0], NULL);
        g_assert_true(g_file_set_contents(path, files[i][1], -1, NULL));
    }
}

static void remove_tree(const char *path)
{
    GDir *folder = g_dir_open(path, 0, NULL);
    for (const char *name; folder && (name = g_dir_read_name(folder));) {
        g_autofree char *child = g_build_filename(path, name, NULL);
        remove_tree(child);
    }
    if (folder)
        g_dir_close(folder);
    g_remove(path);
}

static void test_unified(void)
{
    static const char *const job[][2] = {{"memory.max", "max\n"}, {"memory.current", "700\n"}};
    static const char *const user[][2] = {
        {"memory.max", "10000\n"},
        {"memory.current", "4000\n"},
        {"memory.stat", "anon 900\ninactive_file 1500\nactive_file 600\n"}};
    static const char *const full[][2] = {{"memory.max", "10\n"}, {"memory.current", "11\n"}};
    g_autofree char *mount = g_dir_make_tmp("groups-XXXXXX", NULL);
    write_group(mount, "user/job", job, G_N_ELEMENTS(job));
    write_group(mount, "user", user, G_N_ELEMENTS(user));
    write_group(mount, "other", full, G_N_ELEMENTS(full));
    g_assert_cmpuint(machine_group_bytes("0::/user/job\n", mount), ==, 10000 - (4000 - 1500));
    g_assert_cmpuint(machine_group_bytes("0::/user\n", mount), ==, 7500);
    g_assert_cmpuint(machine_group_bytes("0::/other\n", mount), ==, 0);
    g_assert_cmpuint(machine_group_bytes("0::/\n", mount), ==, UINT64_MAX);
    g_assert_cmpuint(machine_group_bytes("", mount), ==, UINT64_MAX);
    /* A container's root is its own group, whatever the kernel calls it. */
    write_group(mount, "", user, G_N_ELEMENTS(user));
    g_assert_cmpuint(machine_group_bytes("0::/docker/1234\n", mount), ==, 7500);
    remove_tree(mount);
}

static void test_separate(void)
{
    static const char *const root[][2] = {{"memory.limit_in_bytes", NO_LIMIT},
                                          {"memory.usage_in_bytes", "123456\n"}};
    static const char *const job[][2] = {
        {"memory.limit_in_bytes", "314572800\n"},
        {"memory.usage_in_bytes", "4096\n"},
        {"memory.stat", "cache 9\ninactive_file 7\ntotal_inactive_file 1024\n"}};
    static const char lines[] = "9:name=systemd:/\n4:cpu,memory:/slurm/job_1\n3:cpuset:/x\n0::/\n";
    g_autofree char *mount = g_dir_make_tmp("groups-XXXXXX", NULL);
    write_group(mount, "memory", root, G_N_ELEMENTS(root));
    write_group(mount, "memory/slurm/job_1", job, G_N_ELEMENTS(job));
    g_assert_cmpuint(machine_group_bytes(lines, mount), ==, 314572800 - (4096 - 1024));
    g_assert_cmpuint(machine_group_bytes("4:memory:/\n", mount), >, UINT64_C(1) << 62);
    remove_tree(mount);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/groups/unified", test_unified);
    g_test_add_func("/groups/separate", test_separate);
    return g_test_run();
}
