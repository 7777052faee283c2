/* Starts pstar-run in several processes, by mpirun. */
#ifndef PSTAR_TESTS_ENGINE_RUN_LAUNCH_H
#define PSTAR_TESTS_ENGINE_RUN_LAUNCH_H

#include "run_folder.h"

#include <stdint.h>

/* The same tests are built a second time, for the device that needs no GPU (../cuda_device). */
#ifndef TEST_DEVICE
#define TEST_DEVICE "cpu"
#endif

/* Draws one of the texts. */
const char *launch_pick(const char *const *texts, int count);
#define PICK(...)                                   \
    launch_pick((const char *const[]){__VA_ARGS__}, \
                (int)G_N_ELEMENTS(((const char *const[]){__VA_ARGS__})))

/* Draws a cut of so many layers: the option --stages or --stage-layers. Free with g_free. */
char *launch_draw_layers(uint32_t layers, uint32_t stages);

/* Makes config.json a mixture of experts, mixtral or qwen3_moe, with so many layers and with more
 * keys, which begin with a comma if there are any. */
void launch_draw_experts(const struct run_folder *folder, int layers, const char *more);

/* Writes a mask of text.txt (engine/train/token_mask.h) by which drawn tokens count in the loss, or
 * removes it. */
void launch_draw_mask(const struct run_folder *folder);

/* Returns whether there is mpirun, and the build has MPI; lets root run it, as in containers. */
bool launch_is_possible(void);
/* Does the same, and skips the program's tests if there is none. */
bool launch_prepare(void);

/* Returns the command line of pstar-run with options (run_folder_command) in so many processes.
 * Free with g_strfreev. */
char **launch_command(uint32_t processes, const char *options);
/* Runs it, as run_folder_run. */
int launch_run(const struct run_folder *folder, uint32_t processes, const char *options, char **out,
               char **err);
/* Fails the test if that does not end well. */
void launch_must_run(const struct run_folder *folder, uint32_t processes, const char *options);
/* Fails the test unless the command ends with the status and one message, which has `why` in it. */
void launch_refuse(const struct run_folder *folder, char **command, int status, const char *why);

/* Returns what a run with --json prints; free with json_decref. */
json_t *launch_json(const struct run_folder *folder, uint32_t processes, const char *options);
/* Returns what a dry run says; free with json_decref. */
json_t *launch_look(const struct run_folder *folder, uint32_t processes, const char *options);

/* Returns how many messages of pstar-run the text has. */
uint32_t launch_count_messages(const char *text);

#endif
