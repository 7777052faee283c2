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
    OPTION_HOST_EMBEDDING,
    OPTION_HOST_MEMORY,
    OPTION_HOST_UPDATE,
    OPTION_JSON,
    OPTION_LAYOUT,
    OPTION_LINK,
    OPTION_LOOK_AHEAD,
    OPTION_MICRO_BATCHES,
    OPTION_MODEL,
    OPTION_OFFLOAD_ACTIVATIONS,
    OPTION_OUTPUT,
    OPTION_PLATFORM,
    OPTION_POLICY,
    OPTION_PRECISION,
    OPTION_RECOMPUTE,
    OPTION_SEED,
    OPTION_SEQUENCE,
    OPTION_THREADS,
    OPTION_TIMELINE,
    SHARED_OPTIONS
};

struct option {
    enum shared_option shared; /* the row of the shared table that this one completes */
    const char *name;          /* a shared option has its table's */
    char letter;               /* 'o' for -o; 0: none */
    const char *help;          /* of a shared option: follows the table's; may be NULL */
    const char *value;         /* what --help writes for the value; NULL: the table's */

    /* Where the value goes. Exactly one is set, and decides how the text is parsed. What it points
     * to keeps its value where the option is not given. */
    char **text;
    char **file;       /* a path, in the encoding of file names */
    char ***arguments; /* what is no option: ends with NULL; its row needs no name */
    bool *flag;
    uint64_t *size; /* bytes: "64MiB" */
    uint64_t *count;
    uint32_t *count32;
    double *real;
    uint8_t *choice; /* the place of the text among the words of `value`: "fp32|bf16" */

    double least, most; /* of a count: inclusive; most 0: as many as the target holds */
    double below;       /* of a real, which is at least `least`; 0: any finite number */
};

struct option_group {
    const char *name, *title, *help; /* GOption's; all NULL: the program's main options */
    const struct option *options;
    size_t count;
};

/* Adds the options to the context, parses the command line, and fills the targets. With --version,
 * sets *version and fills nothing else. Errors are G_OPTION_ERROR and SIZE_ERROR, and name the
 * option and its value. Free the targets with options_clear, after errors too. */
bool options_parse(GOptionContext *context, const struct option_group *groups, size_t group_count,
                   int argc, char **argv, bool *version, GError **error);

/* Frees the texts and arguments that the options' targets hold. */
void options_clear(const struct option_group *groups, size_t group_count);

/* Sets a G_OPTION_ERROR with the message and a hint at --help; returns false. */
G_GNUC_PRINTF(2, 3)
bool options_refuse(GError **error, const char *format, ...);

#endif
