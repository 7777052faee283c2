#include "cli/options.h"

#include "base/failure.h"
#include "base/output_file.h"
#include "base/size.h"
#include "cli/platforms.h"
#include "cli/suggest.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name, *help, *value;
    char letter;
} table[SHARED_OPTIONS] = {
    [OPTION_BATCH] = {"batch", "Sequences in a micro-batch", "B", 0},
    [OPTION_BYTES_PER_PARAMETER] = {"bytes-per-parameter",
                                    "Bytes of model data per parameter in bf16: 14 (default) or "
                                    "12; with several micro-batches 18 (default) or 16",
                                    "N", 0},
    [OPTION_CHUNK_SIZE] = {"chunk-size",
                           "Size of the chunks, or one size for each list of chunks: "
                           "param=64MiB,master=1GiB",
                           "SIZE|LIST=SIZE,..", 0},
    [OPTION_DEVICE_MEMORY] = {"device-memory", "Budget of device memory", "SIZE", 0},
    [OPTION_EMIT_PLAN] = {"emit-plan", "Write the plan, for pstar-run --plan", "PLAN", 0},
    [OPTION_GPUS] = {"gpus",
                     "GPUs that train together, one a rank, each with as many micro-batches as a "
                     "rank of the trace; default: the trace's ranks",
                     "N", 0},
    [OPTION_HELP] = {"help", "Print the options", NULL, 'h'},
    [OPTION_HOST_EMBEDDING] = {"host-embedding", "Run the embedding on the host", NULL, 0},
    [OPTION_HOST_MEMORY] = {"host-memory", "Budget of host memory", "SIZE", 0},
    [OPTION_NVME_MEMORY] = {"nvme-memory",
                            "Budget of NVMe, below host memory, for what the host has no room "
                            "for",
                            "SIZE", 0},
    [OPTION_HOST_UPDATE] = {"host-update", "Run the optimizer on the host", NULL, 0},
    [OPTION_JSON] = {"json", "Write the results as JSON", NULL, 0},
    [OPTION_LAYOUT] = {"layout",
                       "Take the chunks from a layout file or a plan, instead of --chunk-size",
                       "FILE", 0},
    [OPTION_LINK] = {"link", "Rates of the copies between host and device", "h2d=RATE,d2h=RATE", 0},
    [OPTION_LIST_PLATFORMS] = {"list-platforms", "Print the platforms that --platform names", NULL,
                               0},
    [OPTION_LOOK_AHEAD] = {"look-ahead", "How many moments ahead to fetch chunks; default: 0", "N",
                           0},
    [OPTION_MICRO_BATCHES] = {"micro-batches", "Micro-batches in a step", "N", 0},
    [OPTION_MODEL] = {"model", "The model's config.json, or the folder that holds it", "CONFIG", 0},
    [OPTION_NODES] = {"nodes", "Nodes that hold the GPUs; default: as few as the platform allows",
                      "M", 0},
    [OPTION_NO_CLIP] = {"no-clip",
                        "The run does not clip gradients: superoffload updates before the norm of "
                        "all is known",
                        NULL, 0},
    [OPTION_OBJECTIVE] = {"objective", "What to minimize", "time|traffic|memory", 0},
    [OPTION_OFFLOAD_ACTIVATIONS] = {"offload-activations",
                                    "Layers whose activations may leave the device",
                                    "all|none|0,2,5-7", 0},
    [OPTION_OUTPUT] = {"output", "Where to write the result", "FILE", 'o'},
    [OPTION_PLATFORM] =
        {"platform",
         "The machine: a name of --list-platforms, or a file of rates, as pstar-run "
         "--probe writes them",
         "NAME|FILE", 0},
    [OPTION_POLICY] = {"policy", "Eviction policy", "NAME|./MINE.so", 0},
    [OPTION_PRECISION] = {"precision", "Precision of parameters and activations", "fp32|bf16", 0},
    [OPTION_QUIET] = {"quiet", "Print errors and warnings only, and results that no file receives",
                      NULL, 'q'},
    [OPTION_RECOMPUTE] = {"recompute", "Layers that compute their activations again",
                          "all|none|0,2,5-7", 0},
    [OPTION_REDUCTION] = {"reduction",
                          "How ranks sum gradients: exact, as one rank would, in fp32; or fast, as "
                          "other systems do, whose results depend on the number of ranks",
                          "exact|fast", 0},
    [OPTION_SCHEDULE] =
        {"schedule",
         "In which order a stage takes its micro-batches: 1f1b alternates between "
         "forward and backward, gpipe runs all forward passes first, 2bw alternates "
         "and does not drain between steps, interleaved alternates between the parts of a stage, "
         "too, zb-h1 takes the gradients of weights apart and fills waits with them",
         NULL, 0},
    [OPTION_SEED] = {"seed", "Seed of all random choices", "N", 0},
    [OPTION_SEQUENCE] = {"seq", "Tokens in a sequence", "T", 0},
    [OPTION_STAGE] = {"stage",
                      "What several ranks share: 1 optimizer states, 2 gradients, too, 3 also "
                      "parameters; 0 and 1 need --reduction fast",
                      "0|1|2|3", 0},
    [OPTION_STAGES] = {"stages", "Cut the model's layers into N stages of a pipeline; default: 1",
                       "N", 0},
    [OPTION_STAGE_LAYERS] = {"stage-layers",
                             "Layers of each stage, whose number they say; default: as equal as "
                             "can be",
                             "N,N,..", 0},
    [OPTION_STAGE_PARTS] = {"stage-parts",
                            "With --schedule interleaved, parts of the model that each stage has",
                            "N", 0},
    [OPTION_STATE_BLOCK] = {"state-block",
                            "Cut the optimizer states of tensors of more than four blocks into "
                            "blocks of N elements, a multiple of 1024, which move and are updated "
                            "one by one; auto: a 64th of the model; default: 0, no blocks",
                            "auto|N", 0},
    [OPTION_THREADS] = {"threads", "Number of threads; default: all processors", "N", 0},
    [OPTION_TIMELINE] = {"timeline",
                         "Write when each operator and copy runs, for pstar-report and "
                         "chrome://tracing",
                         "FILE", 0},
    [OPTION_TOP] = {"top", "How many of the best to print", "N|all", 0},
    [OPTION_TRAIN] =
        {"train",
         "What is trained: all; adapters of a rank beside the linear layers (LoRA); or "
         "the tensors whose names match a pattern of the list, such as "
         "'lm_head.*,*norm*'; default: all",
         "all|lora:RANK|LIST", 0},
    [OPTION_VERBOSE] = {"verbose",
                        "Also print files read and written, progress every second, time and memory",
                        NULL, 'v'},
    [OPTION_VERSION] = {"version", "Print the version", NULL, 0},
};

const struct option options_common[COMMON_OPTIONS] = {{.shared = OPTION_HELP},
                                                      {.shared = OPTION_QUIET},
                                                      {.shared = OPTION_VERBOSE},
                                                      {.shared = OPTION_VERSION}};

bool options_parse_top(const char *text, uint32_t usual, uint32_t *top, GError **error)
{
    guint64 count = usual;
    *top = UINT32_MAX;
    if (text && strcmp(text, "all") == 0)
        return true;
    if (text && !g_ascii_string_to_unsigned(text, 10, 1, G_MAXINT32, &count, NULL))
        return options_refuse(error, "--top %s: must be all, or an integer above 0", text);
    *top = (uint32_t)count;
    return true;
}

const char *option_name(const struct option *option)
{
    return option->arguments ? G_OPTION_REMAINING
           : option->shared  ? table[option->shared].name
                             : option->name;
}

char option_letter(const struct option *option)
{
    return option->shared ? table[option->shared].letter : option->letter;
}

const char *option_value(const struct option *option)
{
    return option->value || !option->shared ? option->value : table[option->shared].value;
}

char *option_help(const struct option *option)
{
    const char *shared = option->shared ? table[option->shared].help : NULL;
    return shared && option->help ? g_strconcat(shared, "; ", option->help, NULL)
                                  : g_strdup(shared ? shared : option->help);
}

static bool refuse(const struct option *option, const char *text, GError **error,
                   const char *format, ...) G_GNUC_PRINTF(4, 5);
static bool refuse(const struct option *option, const char *text, GError **error,
                   const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--%s %s: %s", option_name(option),
                text, why);
    return false;
}

bool options_refuse(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *what = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s; see --help", what);
    return false;
}

/* ---- from a text to a value ---- */

static bool parse_count(const struct option *option, const char *text, GError **error)
{
    char *end;
    errno = 0;
    gint64 value = g_ascii_strtoll(text, &end, 10);
    gint64 least = (gint64)option->least;
    gint64 most = option->most > 0 ? (gint64)option->most : option->count ? G_MAXINT64 : G_MAXINT32;
    if (end == text || *end || errno == ERANGE || value < least || value > most)
        return refuse(option, text, error,
                      "must be an integer in [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]", least,
                      most);
    if (option->count)
        *option->count = (uint64_t)value;
    else
        *option->count32 = (uint32_t)value;
    return true;
}

static bool parse_real(const struct option *option, const char *text, GError **error)
{
    char *end;
    double value = g_ascii_strtod(text, &end);
    double below = option->below > 0 ? option->below : INFINITY;
    if (end == text || *end || !(value >= option->least && value < below))
        return refuse(option, text, error, "must be a number in [%g, %g)", option->least, below);
    *option->real = value;
    return true;
}

static bool parse_size(const struct option *option, const char *text, GError **error)
{
    if (size_parse(text, option->size, error))
        return true;
    g_prefix_error(error, "--%s: ", option_name(option));
    return false;
}

static bool parse_choice(const struct option *option, const char *text, GError **error)
{
    g_auto(GStrv) words = g_strsplit(option_value(option), "|", -1);
    for (uint8_t i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0) {
            *option->choice = i;
            return true;
        }
    return refuse(option, text, error, "must be one of %s", option_value(option));
}

static bool parse_text(const struct option *option, const char *text, GError **error)
{
    return option->size                       ? parse_size(option, text, error)
           : option->count || option->count32 ? parse_count(option, text, error)
           : option->real                     ? parse_real(option, text, error)
                                              : parse_choice(option, text, error);
}

static bool check_text(const struct option *option, GError **error)
{
    const char *text = *option->text;
    return !text || option->any_bytes || g_utf8_validate(text, -1, NULL) ||
           refuse(option, text, error, "must be text in UTF-8");
}

/* ---- GOption ---- */

/* The values that GOption sets for one option, before their text is parsed. */
struct raw {
    gboolean flag;
    char *text;
};

static GOptionEntry entry_of(const struct option *option, struct raw *raw, GStringChunk *strings)
{
    g_autofree char *help = option_help(option);
    GOptionEntry entry = {.long_name = option_name(option),
                          .short_name = option_letter(option),
                          .arg = G_OPTION_ARG_FILENAME, /* whatever the locale says */
                          .arg_data = &raw->text,
                          .description = help ? g_string_chunk_insert(strings, help) : NULL,
                          .arg_description = option_value(option)};
    if (option->flag) {
        entry.arg = G_OPTION_ARG_NONE;
        entry.arg_data = &raw->flag;
        entry.arg_description = NULL;
    } else if (option->arguments) {
        entry.arg = G_OPTION_ARG_FILENAME_ARRAY;
        entry.arg_data = option->arguments;
    } else if (option->file) {
        entry.arg_data = option->file;
    } else if (option->text) {
        entry.arg_data = option->text;
    }
    return entry;
}

static void add_group(GOptionContext *context, const struct option_group *group, struct raw *raw,
                      GStringChunk *strings)
{
    GArray *entries = g_array_new(TRUE, TRUE, sizeof(GOptionEntry));
    for (size_t i = 0; i < group->count; i++) {
        GOptionEntry entry = entry_of(&group->options[i], &raw[i], strings);
        g_array_append_val(entries, entry);
    }
    if (group->name) {
        GOptionGroup *added = g_option_group_new(group->name, group->title, group->help, NULL,
                                                 NULL);
        g_option_group_add_entries(added, (const GOptionEntry *)(void *)entries->data);
        g_option_context_add_group(context, added);
    } else {
        g_option_context_add_main_entries(context, (const GOptionEntry *)(void *)entries->data,
                                          NULL);
    }
    g_array_unref(entries);
}

static bool take_values(const struct option_group *group, const struct raw *raw, GError **error)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct option *option = &group->options[i];
        if (option->flag)
            *option->flag |= raw[i].flag;
        else if ((option->text && !check_text(option, error)) ||
                 (option->shared == OPTION_PLATFORM && !platforms_find(option->file, error)) ||
                 (raw[i].text && !parse_text(option, raw[i].text, error)))
            return false;
    }
    return true;
}

/* Appends the option that the first unknown one of the command line may stand for. */
static void suggest_option(const struct option_group *groups, size_t group_count, char **argv,
                           GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            if (!groups[g].options[i].arguments)
                g_ptr_array_add(names, (char *)option_name(&groups[g].options[i]));
    for (; *argv; argv++) {
        g_autofree char *word = g_str_has_prefix(*argv, "--")
                                    ? g_strndup(*argv + 2, strcspn(*argv + 2, "="))
                                    : NULL;
        if (!word || !*word || g_ptr_array_find_with_equal_func(names, word, g_str_equal, NULL))
            continue;
        const char *meant = suggest(word, names);
        g_autofree char *hint = meant ? g_strdup_printf("; did you mean --%s?", meant)
                                      : g_strdup("; see --help");
        g_autofree char *message = g_strconcat((*error)->message, hint, NULL);
        g_clear_error(error);
        g_set_error_literal(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION, message);
        return;
    }
}

/* Parses the command line into the groups' raw values. *extra becomes the first argument that no
 * option takes, or NULL. */
static bool parse_raw(GOptionContext *context, const struct option_group *groups,
                      size_t group_count, struct raw **raw, int argc, char **argv,
                      const char **extra, GError **error)
{
    enum { CHUNK_BYTES = 1024 };
    GStringChunk *strings = g_string_chunk_new(CHUNK_BYTES);
    g_autofree char **rest = g_memdup2(argv, ((gsize)argc + 1) * sizeof *argv);
    for (size_t g = 0; g < group_count; g++) {
        raw[g] = g_new0(struct raw, groups[g].count);
        add_group(context, &groups[g], raw[g], strings);
    }
    bool ok = g_option_context_parse(context, &argc, &rest, error);
    if (!ok && g_error_matches(*error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION))
        suggest_option(groups, group_count, argv, error);
    *extra = argc > 1 ? rest[1] : NULL;
    g_string_chunk_free(strings);
    return ok;
}

bool options_parse(GOptionContext *context, const struct option_group *groups, size_t group_count,
                   int argc, char **argv, struct common_options *common, GError **error)
{
    const struct option rows[] = {{.shared = OPTION_QUIET, .flag = &common->quiet},
                                  {.shared = OPTION_VERBOSE, .flag = &common->verbose},
                                  {.shared = OPTION_VERSION, .flag = &common->version}};
    size_t count = group_count + 1;
    g_autofree struct option_group *all = g_new(struct option_group, count);
    g_autofree struct raw **raw = g_new(struct raw *, count);
    memcpy(all, groups, group_count * sizeof *groups);
    all[group_count] = (struct option_group){.options = rows, .count = G_N_ELEMENTS(rows)};
    const char *extra = NULL;
    bool ok = parse_raw(context, all, count, raw, argc, argv, &extra, error) &&
              take_values(&all[group_count], raw[group_count], error);
    if (ok && extra && !common->version)
        ok = options_refuse(error, "unexpected argument '%s'", extra);
    for (size_t g = 0; ok && !common->version && g < group_count; g++)
        ok = take_values(&groups[g], raw[g], error);
    if (ok && common->quiet && common->verbose)
        ok = options_refuse(error, "--quiet and --verbose exclude each other");
    for (size_t g = 0; g < count; g++) {
        for (size_t i = 0; i < all[g].count; i++)
            g_free(raw[g][i].text);
        g_free(raw[g]);
    }
    return ok;
}

/* ---- outputs ---- */

bool option_writes(const struct option *option)
{
    return option->use == OPTION_WRITES || option->use == OPTION_WRITES_LINES ||
           option->use == OPTION_WRITES_FILE || option->use == OPTION_WRITES_FOLDER ||
           option->use == OPTION_SAVES;
}

/* Returns whether the option names an output that is checked before the work. */
static bool is_output(const struct option *option)
{
    return option->file && *option->file && option_writes(option) && option->use != OPTION_SAVES;
}

static bool is_standard_output(const char *path)
{
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
}

/* Returns whether both are one regular file, or will be. */
static bool are_same(const char *a, const char *b)
{
    struct stat left, right;
    g_autofree char *a_path = g_canonicalize_filename(a, NULL);
    g_autofree char *b_path = g_canonicalize_filename(b, NULL);
    if (stat(a, &left) != 0 || stat(b, &right) != 0)
        return strcmp(a_path, b_path) == 0;
    return S_ISREG(left.st_mode) && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

/* Returns whether the file is one that programs read in the folder of a model or a checkpoint. */
static bool is_read_in(const char *path, const char *folder)
{
    static const char *const names[] = {"config.json",
                                        "trainer.json",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "optimizer.safetensors",
                                        "optimizer.safetensors.index.json",
                                        "tokenizer.json",
                                        "vocab.json",
                                        "merges.txt"};
    bool found = false;
    for (size_t i = 0; i < G_N_ELEMENTS(names) && !found; i++) {
        g_autofree char *file = g_build_filename(folder, names[i], NULL);
        found = g_file_test(file, G_FILE_TEST_IS_REGULAR) && are_same(path, file);
    }
    return found;
}

/* Compares an output with what another option names. */
static bool check_pair(const struct option *output, const struct option *other, GError **error)
{
    const char *path = *output->file;
    char **arguments = other->arguments && other->use != OPTION_RUNS ? *other->arguments : NULL;
    if (other == output)
        return true;
    for (char **argument = arguments; argument && *argument; argument++)
        if (are_same(path, *argument))
            return options_refuse(error, "--%s %s: would replace an input", option_name(output),
                                  path);
    if (!other->file || !*other->file)
        return true;
    if (is_read_in(path, *other->file))
        return options_refuse(error, "--%s %s: would replace a file of --%s", option_name(output),
                              path, option_name(other));
    if (!are_same(path, *other->file))
        return true;
    return options_refuse(error, "--%s %s: is also the file of --%s", option_name(output), path,
                          option_name(other));
}

/* A file that is moved to its place would replace a device or a pipe. */
static bool is_replaceable(const char *path, GError **error)
{
    if (!g_file_test(path, G_FILE_TEST_EXISTS) || g_file_test(path, G_FILE_TEST_IS_REGULAR) ||
        g_file_test(path, G_FILE_TEST_IS_DIR))
        return true;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                "%s: cannot be written: not a regular file", path);
    return false;
}

static bool check_place(const struct option *option, GError **error)
{
    const char *path = *option->file;
    bool ok = option->use == OPTION_WRITES_FOLDER  ? output_folder_has_place(path, error)
              : option->use == OPTION_WRITES_LINES ? output_file_grows_in_place(path, error)
                                                   : output_file_has_place(path, error);
    ok = ok && (option->use != OPTION_WRITES_FILE || is_replaceable(path, error));
    if (!ok) {
        g_prefix_error(error, "--%s: ", option_name(option));
        failure_mark(error, FAILURE_RUNNING);
    }
    return ok;
}

bool options_check_output(const struct option *output, const struct option_group *groups,
                          size_t group_count, GError **error)
{
    if (!**output->file) /* such as a variable of a script that is not set */
        return options_refuse(error, "--%s: the name is empty", option_name(output));
    if (is_standard_output(*output->file))
        return output->use == OPTION_WRITES || output->use == OPTION_WRITES_LINES ||
               options_refuse(error, "--%s %s: cannot go to standard output", option_name(output),
                              *output->file);
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            if (!check_pair(output, &groups[g].options[i], error))
                return false;
    return check_place(output, error);
}

static void redirect(const struct option *output)
{
    int descriptor = dup(STDOUT_FILENO);
    if (descriptor < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return; /* standard output is closed; writing to it fails as it should */
    g_free(*output->file);
    *output->file = g_strdup_printf("/dev/fd/%d", descriptor);
}

bool options_check_outputs(const struct option_group *groups, size_t group_count, GError **error)
{
    const struct option *printed = NULL;
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            const struct option *option = &groups[g].options[i];
            if (!is_output(option))
                continue;
            if (!options_check_output(option, groups, group_count, error))
                return false;
            if (!is_standard_output(*option->file))
                continue;
            if (printed)
                return options_refuse(error, "--%s and --%s cannot both go to standard output",
                                      option_name(printed), option_name(option));
            printed = option;
        }
    if (printed)
        redirect(printed);
    return true;
}

/* Returns whether the option was given and asks for text on standard output. */
static bool prints(const struct option *option)
{
    if (option->use != OPTION_PRINTS)
        return false;
    return (option->flag && *option->flag) || (option->count32 && *option->count32) ||
           (option->text && *option->text) || (option->file && *option->file);
}

static bool is_checked(const struct option *option)
{
    return option->use == OPTION_CHECKS && (option->arguments || *option->file);
}

bool options_need_no_output(const struct option_group *groups, size_t group_count)
{
    bool said = false;
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            const struct option *option = &groups[g].options[i];
            if (prints(option) || option->use == OPTION_RUNS)
                return false;
            said |= is_output(option) || is_checked(option);
        }
    return said;
}

void options_clear(const struct option_group *groups, size_t group_count)
{
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            const struct option *option = &groups[g].options[i];
            if (option->text)
                g_clear_pointer(option->text, g_free);
            if (option->file)
                g_clear_pointer(option->file, g_free);
            if (option->arguments)
                g_clear_pointer(option->arguments, g_strfreev);
        }
}
