/* The options of the programs. An option is one row: its name, its help and where its value goes.
 * Options that several programs have are rows of one table (options.c), so that their names, help
 * texts and messages exist once. */
#ifndef PSTAR_CLI_OPTIONS_H
#define PSTAR_CLI_OPTIONS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Options that several programs have. */
enum shared_option {
    OPTION_OWN, /* of one program */
    OPTION_BATCH,
    OPTION_BYTES_PER_PARAMETER,
    OPTION_CHUNK_SIZE,
    OPTION_DEVICE_MEMORY,
    OPTION_EMIT_PLAN,
    OPTION_GPUS,
    OPTION_HELP,
    OPTION_HOST_EMBEDDING,
    OPTION_HOST_MEMORY,
    OPTION_NVME_MEMORY,
    OPTION_HOST_UPDATE,
    OPTION_JSON,
    OPTION_LAYOUT,
    OPTION_LINK,
    OPTION_LIST_PLATFORMS,
    OPTION_LOOK_AHEAD,
    OPTION_MICRO_BATCHES,
    OPTION_MODEL,
    OPTION_NODES,
    OPTION_NO_CLIP,
    OPTION_OBJECTIVE,
    OPTION_OFFLOAD_ACTIVATIONS,
    OPTION_OUTPUT,
    OPTION_PLATFORM,
    OPTION_POLICY,
    OPTION_PRECISION,
    OPTION_QUIET,
    OPTION_RECOMPUTE,
    OPTION_REDUCTION,
    OPTION_SCHEDULE,
    OPTION_SEED,
    OPTION_SEQUENCE,
    OPTION_STAGE,
    OPTION_STAGES,
    OPTION_STAGE_LAYERS,
    OPTION_STAGE_PARTS,
    OPTION_STATE_BLOCK,
    OPTION_THREADS,
    OPTION_TIMELINE,
    OPTION_TOP,
    OPTION_TRAIN,
    OPTION_VERBOSE,
    OPTION_VERSION,
    SHARED_OPTIONS
};

/* What a program does with the file that an option names. */
enum option_use {
    OPTION_READS,         /* or it is no file, or the program checks it itself */
    OPTION_WRITES,        /* - is standard output */
    OPTION_WRITES_LINES,  /* the same, for what grows where it is, line by line */
    OPTION_WRITES_FILE,   /* which cannot be standard output */
    OPTION_WRITES_FOLDER, /* which is made if it is missing */
    OPTION_SAVES,         /* a folder that the work writes to, and checks itself */
    OPTION_USES,          /* a folder for files that are gone when the work is done */
    OPTION_RUNS,          /* arguments: a command */
    OPTION_CHECKS,        /* the exit status says what was asked about the file or the arguments */
    OPTION_PRINTS         /* it asks for text on standard output */
};

struct option {
    enum shared_option shared; /* the row of the shared table that this one completes */
    const char *name;          /* a shared option has its table's */
    char letter;               /* 'o' for -o; 0 if it has no short name */
    const char *help;          /* of a shared option: appended to the table's help; may be NULL */
    const char *value;         /* the value's name in --help; NULL for the table's name */
    char **(*words)(void);     /* returns names that the value may have, for completion, to be freed
                                * with g_strfreev; may be NULL */

    /* Pointers to the target. Exactly one is set, and its type decides how the text is parsed. If
     * the option is not given, the target keeps its value. */
    char **text;       /* in UTF-8, if not any_bytes */
    char **file;       /* a path, in the encoding of file names */
    char ***arguments; /* all other arguments, ending with NULL; the row needs no name */
    bool *flag;
    uint64_t *size; /* bytes: "64MiB" */
    uint64_t *count;
    uint32_t *count32;
    double *real;
    uint8_t *choice; /* the place of the text among the words of `value`: "fp32|bf16" */

    uint8_t use;        /* enum option_use */
    bool any_bytes;     /* the text may be anything */
    double least, most; /* of a count, inclusive; `most` 0 means the target type's maximum */
    double below; /* of a real number, which is at least `least`; 0 allows any finite number */
};

struct option_group {
    const char *name, *title, *help; /* for GOption; all are NULL for the program's main options */
    const struct option *options;
    size_t count;
};

/* The options that every program has, for lists of options. They have no targets. */
enum { COMMON_OPTIONS = 4 };
extern const struct option options_common[COMMON_OPTIONS];

/* Return the option's name without dashes, its letter (0 if it has none), and its value's name
 * (NULL if it takes no value). */
const char *option_name(const struct option *option);
char option_letter(const struct option *option);
const char *option_value(const struct option *option);

/* Returns the option's help; free with g_free. */
char *option_help(const struct option *option);

/* What was given of options_common. */
struct common_options {
    bool version, quiet, verbose;
};

/* Adds the options to the context, parses the command line, and fills the targets and *common. With
 * --version, fills no targets. Errors are G_OPTION_ERROR and SIZE_ERROR, and name the
 * option and its value. Free the targets with options_clear, after errors too. */
bool options_parse(GOptionContext *context, const struct option_group *groups, size_t group_count,
                   int argc, char **argv, struct common_options *common, GError **error);

/* Checks, before the work, every file that the options say to write: whether it can be written, and
 * whether it is also read or written by another option. Replaces "-" by the path of a duplicate of
 * standard output, which from then on goes to standard error, so that messages do not get between.
 * The error names the option; a file that cannot be written is a marked error (base/failure.h).
 */
bool options_check_outputs(const struct option_group *groups, size_t group_count, GError **error);

/* Checks an output beside those that the options name in the same way. `output` is a row with a
 * name for messages and the path, which is not standard output. */
bool options_check_output(const struct option *output, const struct option_group *groups,
                          size_t group_count, GError **error);

/* Returns whether the option names a file or folder that the program writes. */
bool option_writes(const struct option *option);

/* Returns whether files and the exit status say everything that the options ask for, so that
 * nothing is missing if standard output is closed. Call it after options_check_outputs. */
bool options_need_no_output(const struct option_group *groups, size_t group_count);

/* Frees the texts and arguments that the options' targets hold. */
void options_clear(const struct option_group *groups, size_t group_count);

/* Parses the value of --top: "all" becomes UINT32_MAX, NULL `usual`. */
bool options_parse_top(const char *text, uint32_t usual, uint32_t *top, GError **error);

/* Sets a G_OPTION_ERROR with the message and a hint at --help; returns false. */
G_GNUC_PRINTF(2, 3)
bool options_refuse(GError **error, const char *format, ...);

#endif
