#include "base/failure.h"
#include "base/output_file.h"

#include "tests/traces/random_trace.h"
#include "traces/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    char *folder, *path, *link;
};

static void set_up(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    fixture->folder = g_dir_make_tmp("pstar-output-XXXXXX", NULL);
    fixture->path = g_build_filename(fixture->folder, "file", NULL);
    fixture->link = g_build_filename(fixture->folder, "link", NULL);
}

/* Checks that only the two files are left. */
static void tear_down(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_unlink(fixture->path);
    g_unlink(fixture->link);
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    g_free(fixture->folder);
    g_free(fixture->path);
    g_free(fixture->link);
}

static void must_write(const char *path, const char *text)
{
    GError *error = NULL;
    g_assert_true(output_file_write(path, text, &error));
    g_assert_no_error(error);
}

static void must_hold(const char *path, const char *text)
{
    g_autofree char *contents = NULL;
    g_assert_true(g_file_get_contents(path, &contents, NULL, NULL));
    g_assert_cmpstr(contents, ==, text);
}

static void test_replaces(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    must_write(fixture->path, "first, and longer");
    must_hold(fixture->path, "first, and longer");
    must_write(fixture->path, "second");
    must_hold(fixture->path, "second");
}

static void test_link(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    must_write(fixture->path, "old");
    g_assert_cmpint(symlink("file", fixture->link), ==, 0);
    must_write(fixture->link, "new");
    must_hold(fixture->path, "new");
    g_assert_true(g_file_test(fixture->link, G_FILE_TEST_IS_SYMLINK));
}

/* Uses a pipe as a non-regular file, because root could destroy a device. */
static void test_pipe(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    GError *error = NULL;
    char text[8] = {0};
    g_assert_cmpint(mkfifo(fixture->path, 0600), ==, 0);
    g_assert_false(output_file_write(fixture->path, "unread", &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    g_clear_error(&error);
    int reader = g_open(fixture->path, O_RDONLY | O_NONBLOCK, 0);
    must_write(fixture->path, "through");
    g_assert_cmpint(read(reader, text, sizeof text), ==, 7);
    g_assert_cmpstr(text, ==, "through");
    close(reader);

    GStatBuf status;
    g_assert_cmpint(g_lstat(fixture->path, &status), ==, 0);
    g_assert_true(S_ISFIFO(status.st_mode));
}

static void test_trace_into_pipe(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    GError *error = NULL;
    g_autoptr(GRand) random = g_rand_new_with_seed(1);
    struct trace *trace = random_trace(random, 4);
    g_assert_cmpint(mkfifo(fixture->path, 0600), ==, 0);
    g_assert_false(trace_write(trace, fixture->path, &error));
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error->message, "not a regular file"));
    g_error_free(error);
    trace_free(trace);
}

static void test_no_place(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    GError *error = NULL;
    g_autofree char *path = g_build_filename(fixture->folder, "none", "file", NULL);
    g_assert_false(output_file_write(path, "text", &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    g_assert_nonnull(strstr(error->message, path));
    g_clear_error(&error);
    g_assert_false(output_file_write(fixture->folder, "text", &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    g_error_free(error);
}

static void test_full(struct fixture *fixture, gconstpointer data)
{
    (void)fixture, (void)data;
    GError *error = NULL;
    if (access("/dev/full", W_OK) != 0) {
        g_test_skip("no /dev/full here");
        return;
    }
    g_assert_false(output_file_write("/dev/full", "text", &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    g_clear_error(&error);
    json_t *root = json_pack("{s:[i, i]}", "numbers", 1, 2);
    g_assert_false(output_file_write_json("/dev/full", root, 0, &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    g_error_free(error);
    json_decref(root);
}

static void must_lack_place(const char *path, int code)
{
    GError *error = NULL;
    g_assert_false(output_file_has_place(path, &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    g_assert_true(g_str_has_prefix(error->message, path));
    g_assert_true(g_str_has_suffix(error->message, g_strerror(code)));
    g_error_free(error);
}

/* Checks the place before anything is written. */
static void test_has_place(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_autofree char *nowhere = g_build_filename(fixture->path, "file", NULL);
    must_lack_place(nowhere, ENOENT);
    must_lack_place(fixture->folder, EISDIR);
    must_lack_place("", EISDIR);
    g_assert_true(output_file_has_place("/dev/null", NULL));
    g_assert_true(output_file_has_place(fixture->path, NULL));
    g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
    must_write(fixture->path, "text");
    g_assert_true(output_file_has_place(fixture->path, NULL));
    must_hold(fixture->path, "text");
    must_lack_place(nowhere, ENOTDIR);
}

/* Runs a check in a process of its own, which may give up rights. Skips the test if the process
 * cannot (status 77). */
static void check_apart(int (*check)(const struct fixture *), const struct fixture *fixture)
{
    enum { CANNOT = 77 };
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(check(fixture));
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
        g_test_skip("the system does not let the process do this");
    else
        g_assert_cmpint(status, ==, 0);
}

static int check_protected(const struct fixture *fixture)
{
    enum { NOBODY = 65534 };
    if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 77;
    must_lack_place(fixture->path, EACCES);
    GError *error = NULL;
    g_assert_false(output_file_grows_in_place(fixture->path, &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    return 0;
}

/* A file that may not be written stays, although new ones may be made beside it. */
static void test_protected(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    must_write(fixture->path, "kept");
    g_assert_cmpint(g_chmod(fixture->folder, 0777), ==, 0);
    g_assert_cmpint(g_chmod(fixture->path, 0444), ==, 0);
    check_apart(check_protected, fixture);
    must_hold(fixture->path, "kept");
}

static int check_sticky(const struct fixture *fixture)
{
    enum { NOBODY = 65534 };
    if (geteuid() != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 77;
    must_lack_place(fixture->path, EPERM);
    g_assert_true(output_file_grows_in_place(fixture->path, NULL));
    g_assert_true(output_file_has_place(fixture->link, NULL));
    return 0;
}

/* In a folder such as /tmp everybody may write the file, but only its owner may replace it. */
static void test_sticky(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    must_write(fixture->path, "kept");
    g_assert_cmpint(chmod(fixture->folder, 01777), ==, 0);
    g_assert_cmpint(g_chmod(fixture->path, 0666), ==, 0);
    check_apart(check_sticky, fixture);
    must_hold(fixture->path, "kept");
}

static int check_mounted(const struct fixture *fixture)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(fixture->link, fixture->path, NULL, MS_BIND, NULL) != 0)
        return 77;
    must_lack_place(fixture->path, EBUSY);
    g_assert_true(output_file_grows_in_place(fixture->path, NULL));
    return 0;
}

/* A file that a container has from its host cannot be replaced. */
static void test_mounted(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    must_write(fixture->path, "kept");
    must_write(fixture->link, "the host's");
    check_apart(check_mounted, fixture);
    must_hold(fixture->path, "kept");
}

/* The longest name has no room for the name of a temporary file, which is cut. */
static void test_long_name(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    enum { LONGEST = 255 };
    g_autofree char *name = g_strnfill(LONGEST, 'n');
    g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
    g_assert_true(output_file_has_place(path, NULL));
    must_write(path, "text");
    must_hold(path, "text");
    struct output_file unfinished;
    g_assert_true(output_file_open(&unfinished, path, NULL));
    output_file_remove_unfinished(path);
    g_assert_false(g_file_test(unfinished.temporary, G_FILE_TEST_EXISTS));
    GError *error = NULL;
    g_assert_false(output_file_close(&unfinished, &error));
    g_error_free(error);
    g_unlink(path);
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/output-file/replaces", test_replaces);
    ADD("/output-file/link", test_link);
    ADD("/output-file/pipe", test_pipe);
    ADD("/output-file/trace-into-pipe", test_trace_into_pipe);
    ADD("/output-file/no-place", test_no_place);
    ADD("/output-file/full", test_full);
    ADD("/output-file/has-place", test_has_place);
    ADD("/output-file/protected", test_protected);
    ADD("/output-file/sticky", test_sticky);
    ADD("/output-file/mounted", test_mounted);
    ADD("/output-file/long-name", test_long_name);
    return g_test_run();
}
