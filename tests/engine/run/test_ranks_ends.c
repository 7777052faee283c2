/* The end of another rank's process on this host is noticed, and one process says so. */
#include "engine/ranks_ends.h"

#include <glib.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts a process that waits, as a rank of this host. */
static struct ranks_process start(uint32_t rank)
{
    struct ranks_process process = ranks_process_own(rank);
    process.number = (int32_t)fork();
    while (process.number == 0)
        pause();
    return process;
}

static void end(const struct ranks_process *process)
{
    kill(process->number, SIGKILL);
    waitid(P_PID, (id_t)process->number, NULL, WEXITED | WNOWAIT);
}

static void bury(const struct ranks_process *process)
{
    kill(process->number, SIGKILL);
    waitpid(process->number, NULL, 0);
}

/* Ranks 1 and 5 are others, and rank 3 is this one. */
static void look(bool of_first)
{
    const struct ranks_process all[] = {start(1), ranks_process_own(3), start(5)};
    struct ranks_ends *ends = ranks_ends_new(all, G_N_ELEMENTS(all));
    g_assert_false(ranks_ends_look(ends));
    end(&all[of_first ? 0 : 2]);
    g_assert_true(ranks_ends_look(ends));
    g_assert_false(ranks_ends_look(ends)); /* nothing new */
    ranks_ends_say(ends);
    ranks_ends_free(ends);
    bury(&all[0]);
    bury(&all[2]);
}

/* With rank 1 gone, this one is the first. */
static void test_first(void)
{
    if (!g_test_subprocess()) {
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        g_test_trap_assert_stderr("pstar-run: rank 1 on * has ended before the others: *\n");
        return;
    }
    look(true);
}

/* Rank 1, which is alive, speaks of rank 5. */
static void test_last(void)
{
    if (!g_test_subprocess()) {
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        g_test_trap_assert_stderr_unmatched("*pstar-run*");
        return;
    }
    look(false);
}

/* The number of a process in another space is that of nobody here. */
static void test_spaces(void)
{
    struct ranks_process other = start(0);
    const struct ranks_process real = other;
    other.space++;
    const struct ranks_process all[] = {other, ranks_process_own(1)};
    struct ranks_ends *ends = ranks_ends_new(all, G_N_ELEMENTS(all));
    end(&real);
    g_assert_false(ranks_ends_look(ends));
    ranks_ends_free(ends);
    bury(&real);
}

/* Of those that fail at once, one says why; those of another job speak for themselves. */
static void test_why(void)
{
    if (!g_test_subprocess()) {
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        g_test_trap_assert_stderr("pstar-run: rank 1 on *: the disk is gone\n"
                                  "pstar-run: rank 3 on *: another disk is gone\n");
        return;
    }
    const struct ranks_process job[] = {ranks_process_own(1)},
                               other[] = {{.number = 1}, ranks_process_own(3)};
    struct ranks_ends *ends = ranks_ends_new(job, G_N_ELEMENTS(job));
    struct ranks_ends *ends_of_other = ranks_ends_new(other, G_N_ELEMENTS(other));
    ranks_ends_say_why(ends, "the disk is gone");
    ranks_ends_say_why(ends, "it is gone here, too");
    ranks_ends_say_why(ends_of_other, "another disk is gone");
    ranks_ends_free(ends);
    ranks_ends_free(ends_of_other);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ranks-ends/first", test_first);
    g_test_add_func("/ranks-ends/last", test_last);
    g_test_add_func("/ranks-ends/spaces", test_spaces);
    g_test_add_func("/ranks-ends/why", test_why);
    return g_test_run();
}
