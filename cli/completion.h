/* What may follow on a command line. The shells' scripts (cli/completion/) call a program with
 * COMPLETION_ARGUMENT and the words after its name, the last of which is incomplete, and offer what
 * it prints. So completion knows every option of the program that is called. */
#ifndef PSTAR_CLI_COMPLETION_H
#define PSTAR_CLI_COMPLETION_H

#include "cli/program.h"

#define COMPLETION_ARGUMENT "--complete"

/* Prints what the last of the words may become. Each line is a candidate, a tab and what it means,
 * or says that the shell should offer :files, :folders or :commands. */
void completion_print(const struct program *program, int word_count, char **words);

/* Prints one candidate if the word begins it. `meaning` may be NULL. */
void completion_offer(const char *word, const char *candidate, const char *meaning);

#endif
