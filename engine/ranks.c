#include "engine/ranks.h"

#include "base/failure.h"
#include "base/files.h"
#include "base/process_limits.h"
#include "base/size.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

G_DEFINE_QUARK(pstar_ranks_error, ranks_error)

/* ---- opening ---- */

typedef struct ranks *open_ranks(uint32_t count, uint32_t number, const char *variable,
                                 GError **error);

static struct ranks *refuse(GError **error, const char *why)
{
    g_set_error_literal(error, RANKS_ERROR, RANKS_ERROR_ALONE, why);
    return NULL;
}

/* What a launcher tells each process in the environment: how many there are, and its number. */
struct launcher {
    const char *count, *number;
};

/* Open MPI, MPICH (also under srun) and Slurm. */
static const struct launcher launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                            {"PMI_SIZE", "PMI_RANK"},
                                            {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};

/* Returns a number of the environment, or `otherwise`. */
static uint32_t number_of(const char *variable, uint32_t otherwise)
{
    guint64 number;
    const char *value = g_getenv(variable);
    return value && g_ascii_string_to_unsigned(value, 10, 0, UINT32_MAX, &number, NULL)
               ? (uint32_t)number
               : otherwise;
}

/* Returns the launcher that started this process, or NULL. */
static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(launchers); i++)
        if (number_of(launchers[i].count, 0) > 0)
            return &launchers[i];
    return NULL;
}

uint32_t ranks_left_out(void)
{
    uint32_t tasks = number_of("SLURM_NTASKS", 1);
    return find_launcher() || tasks <= 1 ? 0 : tasks;
}

/* Without addresses MPI itself would fail, by a signal or with messages of its own. It maps memory
 * of each rank of the host. */
static bool has_addresses(uint32_t count, GError **error)
{
    enum { OF_MPI = 128 << 20, OF_RANK = 4 << 20, MOST_ON_HOST = 256 };
    uint64_t needed = OF_MPI + (uint64_t)OF_RANK * MIN(count, MOST_ON_HOST);
    void *room = mmap(NULL, needed, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, needed);
        return true;
    }
    g_autofree char *size = size_format(needed);
    g_set_error(error, FAILURE, FAILURE_DOES_NOT_FIT,
                "the address space (ulimit -v) has less than the %s left that MPI may need; any "
                "run takes at least %" G_GUINT64_FORMAT " bytes",
                size, process_bytes(PROCESS_ADDRESSES) + needed);
    return false;
}

/* MPI is loaded only if it is needed, so that the program starts without it. */
static struct ranks *join(uint32_t count, uint32_t number, const char *variable, GError **error)
{
    g_autofree char *path = library_file_find("libpstar-mpi.so", NULL);
    if (!path)
        return refuse(error, "the launcher started several processes, but this build of pstar-run "
                             "was made without MPI: it trains on one rank");
    const char *why = library_file_refusal(path);
    if (why) {
        g_autofree char *reason = g_strdup_printf("%s: %s", path, why);
        return refuse(error, reason);
    }
    if (!has_addresses(count, error))
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    void *found = library ? dlsym(library, "pstar_ranks_open") : NULL;
    if (!found)
        return refuse(error, dlerror());
    open_ranks *open;
    memcpy(&open, &found, sizeof open);
    return open(count, number, variable, error);
}

/* Processes that did not join cannot agree which of them reports the error, so the launcher's
 * numbers decide. A launcher may end the first process as soon as another one has ended: the others
 * leave it the time to report. Returns 0 if this one has an error that the first may not have. */
static int leave_to_first(uint32_t number, ranks_status_of *status_of, GError **error)
{
    enum { REPORT_US = 2000000 };
    if (number == 0)
        return 0;
    g_usleep(REPORT_US);
    if (!g_error_matches(*error, RANKS_ERROR, RANKS_ERROR_LAUNCH)) {
        g_prefix_error(error, "rank %u on %s: ", number, g_get_host_name());
        return 0;
    }
    int status = status_of(*error);
    g_clear_error(error);
    return status;
}

bool ranks_open(struct ranks **ranks, ranks_status_of *status_of, int *elsewhere, GError **error)
{
    const struct launcher *launcher = find_launcher();
    uint32_t count = launcher ? number_of(launcher->count, 1) : 1;
    uint32_t number = launcher ? number_of(launcher->number, 0) : 0;
    *elsewhere = 0;
    *ranks = count > 1 ? join(count, number, launcher->number, error) : NULL;
    if (*ranks || count <= 1)
        return true;
    *elsewhere = leave_to_first(number, status_of, error);
    return false;
}

void ranks_close(struct ranks *ranks)
{
    if (ranks)
        ranks->ops->close(ranks);
}

void ranks_fail(struct ranks *ranks, const char *message)
{
    ranks = ranks_all(ranks);
    ranks->ops->fail(ranks, message);
    g_assert_not_reached();
}

/* ---- cores ---- */

/* Returns core number `index` of a set. */
static int nth_core(const cpu_set_t *set, int index)
{
    int core = 0;
    while (!CPU_ISSET(core, set) || index-- > 0)
        core++;
    return core;
}

/* Returns part `index` of `count` equal parts of a set. */
static cpu_set_t part_of(const cpu_set_t *set, int index, int count)
{
    cpu_set_t part;
    int cores = CPU_COUNT(set);
    CPU_ZERO(&part);
    if (cores < count)
        CPU_SET(nth_core(set, index % cores), &part);
    for (int core = index * cores / count; cores >= count && core < (index + 1) * cores / count;
         core++)
        CPU_SET(nth_core(set, core), &part);
    return part;
}

void ranks_share_cores(struct ranks *ranks)
{
    g_autofree cpu_set_t *sets = g_new0(cpu_set_t, ranks->count);
    cpu_set_t *own = &sets[ranks->rank];
    int index = 0, sharing = 0;
    sched_getaffinity(0, sizeof *own, own);
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, sizeof *sets, sets);
    ranks_end(ranks);
    for (uint32_t r = 0; r < ranks->count; r++)
        if (strcmp(ranks->hosts[r], ranks->hosts[ranks->rank]) == 0 && CPU_EQUAL(&sets[r], own)) {
            index += r < ranks->rank;
            sharing++;
        }
    cpu_set_t part = part_of(own, index, sharing);
    if (sharing > 1 && CPU_COUNT(own) > 0)
        sched_setaffinity(0, sizeof part, &part);
}

/* ---- turns ---- */

void ranks_init_turns(struct ranks *ranks)
{
    g_mutex_init(&ranks->lock);
    g_cond_init(&ranks->next);
    ranks->issued = ranks->turn = 0;
}

void ranks_clear_turns(struct ranks *ranks)
{
    g_mutex_clear(&ranks->lock);
    g_cond_clear(&ranks->next);
}

uint64_t ranks_issue(struct ranks *ranks)
{
    return ranks_all(ranks)->issued++;
}

void ranks_begin(struct ranks *ranks, uint64_t turn)
{
    ranks = ranks_all(ranks);
    g_mutex_lock(&ranks->lock);
    while (ranks->turn != turn)
        g_cond_wait(&ranks->next, &ranks->lock);
    g_mutex_unlock(&ranks->lock);
}

void ranks_end(struct ranks *ranks)
{
    ranks = ranks_all(ranks);
    g_mutex_lock(&ranks->lock);
    ranks->turn++;
    g_cond_broadcast(&ranks->next);
    g_mutex_unlock(&ranks->lock);
}

/* ---- collectives ---- */

struct ranks_transfer ranks_transfer_begin(void)
{
    return (struct ranks_transfer){g_array_new(FALSE, FALSE, sizeof(struct ranks_message)),
                                   g_array_new(FALSE, FALSE, sizeof(struct ranks_message))};
}

static void add_message(GArray *messages, uint32_t rank, uint64_t bytes, void *data)
{
    const struct ranks_message message = {.rank = rank, .bytes = bytes, .data = data};
    if (bytes)
        g_array_append_val(messages, message);
}

void ranks_transfer_send(struct ranks_transfer *transfer, uint32_t rank, uint64_t bytes,
                         const void *data)
{
    add_message(transfer->sends, rank, bytes, (void *)data);
}

void ranks_transfer_receive(struct ranks_transfer *transfer, uint32_t rank, uint64_t bytes,
                            void *data)
{
    add_message(transfer->receives, rank, bytes, data);
}

void ranks_transfer_end(struct ranks_transfer *transfer, struct ranks *ranks)
{
    ranks->ops->transfer(ranks, (const struct ranks_message *)(const void *)transfer->sends->data,
                         transfer->sends->len,
                         (const struct ranks_message *)(const void *)transfer->receives->data,
                         transfer->receives->len);
    g_array_unref(transfer->sends);
    g_array_unref(transfer->receives);
}

uint32_t ranks_after(const struct ranks *ranks, uint32_t distance)
{
    return (ranks->rank + distance) % ranks->count;
}

uint32_t ranks_before(const struct ranks *ranks, uint32_t distance)
{
    return (ranks->rank + ranks->count - distance) % ranks->count;
}

void ranks_gather_within(struct ranks *ranks, struct ranks_transfer *transfer,
                         const struct ranks_part *parts, void *whole)
{
    uint8_t *bytes = whole;
    const struct ranks_part *own = &parts[ranks->rank];
    for (uint32_t i = 1; i < ranks->count; i++) {
        const struct ranks_part *theirs = &parts[ranks_before(ranks, i)];
        ranks_transfer_send(transfer, ranks_after(ranks, i), own->bytes, bytes + own->first);
        ranks_transfer_receive(transfer, ranks_before(ranks, i), theirs->bytes,
                               bytes + theirs->first);
    }
}

void ranks_gather(struct ranks *ranks, const struct ranks_part *parts, void *whole)
{
    struct ranks_transfer transfer = ranks_transfer_begin();
    ranks_gather_within(ranks, &transfer, parts, whole);
    ranks_transfer_end(&transfer, ranks);
}

void ranks_share(struct ranks *ranks, uint64_t bytes, void *blocks)
{
    g_autofree struct ranks_part *parts = g_new(struct ranks_part, ranks->count);
    for (uint32_t r = 0; r < ranks->count; r++)
        parts[r] = (struct ranks_part){r * bytes, bytes};
    ranks_gather(ranks, parts, blocks);
}

/* ---- agreement ---- */

/* How a rank fares, and how long its description is. */
struct report {
    int32_t status;
    uint32_t length;
};

static struct report *share_reports(struct ranks *ranks, const char *description, int status)
{
    struct report *reports = g_new0(struct report, ranks->count);
    reports[ranks->rank] = (struct report){status, description ? (uint32_t)strlen(description) : 0};
    ranks_share(ranks, sizeof *reports, reports);
    return reports;
}

#define NO_LINE G_MAXUINT

/* Returns which line says how the descriptions differ. Lines that explain count only if the line
 * that they explain differs. */
static guint find_difference(char *const *lines, char *const *others)
{
    guint explanation = NO_LINE, i = 0;
    for (; lines[i] && others[i]; i++) {
        bool explains = g_str_has_prefix(lines[i], RANKS_EXPLAINS);
        bool same = strcmp(lines[i], others[i]) == 0;
        if (!same && !explains)
            return explanation == NO_LINE ? i : explanation;
        if (!explains)
            explanation = NO_LINE;
        else if (!same && explanation == NO_LINE)
            explanation = i;
    }
    return lines[i] || others[i] ? i : NO_LINE;
}

/* Returns the value of the line about the same subject as a line of "subject: value", or "none". */
static const char *value_of(char *const *lines, const char *about)
{
    const char *end = strstr(about, ": ");
    size_t subject = end ? (size_t)(end - about) + strlen(": ") : strlen(about);
    for (; *lines; lines++)
        if (strncmp(*lines, about, subject) == 0)
            return *lines + subject;
    return "none";
}

/* Returns "seed: 7, not 0", or NULL if the descriptions do not differ. */
static char *describe_difference(const char *theirs, const char *ours)
{
    g_auto(GStrv) lines = g_strsplit(theirs, "\n", -1), others = g_strsplit(ours, "\n", -1);
    guint line = find_difference(lines, others);
    if (line == NO_LINE)
        return NULL;
    const char *one = lines[line] ? lines[line] : "", *other = others[line] ? others[line] : "";
    bool is_missing = strcmp(value_of(lines, other), "none") == 0;
    const char *about = is_missing ? other : one, *value = value_of(lines, about);
    size_t subject = strcspn(about, ":") - strspn(about, RANKS_EXPLAINS);
    return g_strdup_printf("%.*s: %s, not %s", (int)subject, about + strspn(about, RANKS_EXPLAINS),
                           value, value_of(others, about));
}

/* Finds the first rank whose description is not rank 0's. texts[count] are of `length` bytes each.
 * Returns the difference, or NULL if there is none. */
static char *find_other(const struct ranks *ranks, const char *texts, uint32_t length,
                        uint32_t *rank)
{
    char *difference = NULL;
    for (*rank = 1; *rank < ranks->count; ++*rank)
        if ((difference = describe_difference(texts + (size_t)*rank * length, texts)))
            break;
    return difference;
}

/* Compares the descriptions when all ranks fare well. */
static bool describe_alike(struct ranks *ranks, const char *description,
                           const struct report *reports, int *elsewhere, GError **error)
{
    enum { BAD_INPUT = 2 };
    uint32_t length = 0;
    for (uint32_t r = 0; r < ranks->count; r++)
        length = MAX(length, reports[r].length + 1);
    g_autofree char *texts = g_malloc0((size_t)ranks->count * length);
    memcpy(texts + (size_t)ranks->rank * length, description, strlen(description));
    ranks_share(ranks, length, texts);
    uint32_t other;
    g_autofree char *difference = find_other(ranks, texts, length, &other);
    if (!difference)
        return true;
    if (ranks->rank == 0)
        g_set_error(error, RANKS_ERROR, RANKS_ERROR_DIFFER,
                    "rank %u on %s was started with another run than rank %u on %s: %s",
                    ranks_number(ranks, other), ranks->hosts[other], ranks_number(ranks, 0),
                    ranks->hosts[0], difference);
    else
        *elsewhere = BAD_INPUT;
    return false;
}

/* `status` is 0, or the exit status of the error that this rank is about to report. */
static bool compare(struct ranks *ranks, const char *description, int status, int *elsewhere,
                    GError **difference)
{
    g_assert(description || status);
    ranks_begin(ranks, ranks_issue(ranks));
    g_autofree struct report *reports = share_reports(ranks, description, status);
    uint32_t failed = 0;
    while (failed < ranks->count && !reports[failed].status)
        failed++;
    bool well = failed == ranks->count &&
                describe_alike(ranks, description, reports, elsewhere, difference);
    if (failed < ranks->count && failed != ranks->rank)
        *elsewhere = reports[failed].status;
    ranks_end(ranks);
    return well;
}

bool ranks_agree(struct ranks *ranks, const char *description, ranks_status_of *status_of,
                 int *elsewhere, GError **error)
{
    GError *difference = NULL;
    *elsewhere = 0;
    if (!ranks)
        return !*error;
    bool well = compare(ranks, description, *error ? status_of(*error) : 0, elsewhere, &difference);
    if (difference)
        g_propagate_error(error, difference);
    else if (*elsewhere)
        g_clear_error(error);
    return well;
}

/* Gives all ranks the text of one, which is of `length` bytes with its end. Free with g_free. */
static char *share_text(struct ranks *ranks, uint32_t from, uint32_t length, const char *text)
{
    g_autofree struct ranks_message *sends = g_new(struct ranks_message, ranks->count);
    char *shared = from == ranks->rank ? g_strdup(text) : g_malloc(length);
    const struct ranks_message receive = {.rank = from, .bytes = length, .data = shared};
    uint32_t sent = 0;
    for (uint32_t r = 0; from == ranks->rank && r < ranks->count; r++)
        if (r != from)
            sends[sent++] = (struct ranks_message){.rank = r, .bytes = length, .data = shared};
    ranks->ops->transfer(ranks, sends, sent, &receive, from == ranks->rank ? 0 : 1);
    return shared;
}

bool ranks_share_error(struct ranks *ranks, GError **error)
{
    const char *own = *error ? (*error)->message : NULL;
    ranks_begin(ranks, ranks_issue(ranks));
    g_autofree struct report *reports = share_reports(ranks, own, own != NULL);
    g_autofree char *text = NULL;
    uint32_t failed = 0;
    while (failed < ranks->count && !reports[failed].status)
        failed++;
    if (failed < ranks->count)
        text = share_text(ranks, failed, reports[failed].length + 1, own);
    ranks_end(ranks);
    if (!text)
        return true;
    g_clear_error(error);
    g_set_error_literal(error, RANKS_ERROR, RANKS_ERROR_FAILED, text);
    if (failed > 0)
        g_prefix_error(error, "rank %u on %s: ", failed, ranks->hosts[failed]);
    return false;
}
