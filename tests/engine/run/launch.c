#include "launch.h"

#include <glib/gstdio.h>
#include <string.h>

const char *launch_pick(const char *const *texts, int count)
{
    return texts[g_test_rand_int_range(0, count)];
}

char *launch_draw_layers(uint32_t layers, uint32_t stages)
{
    uint32_t left = layers - stages;
    GString *text = g_string_new("--stage-layers ");
    for (uint32_t s = 0; s < stages; s++) {
        bool last = s + 1 == stages;
        uint32_t more = last ? left : (uint32_t)g_test_rand_int_range(0, (gint32)left + 1);
        g_string_append_printf(text, "%s%u", s ? "," : "", 1 + more);
        left -= more;
    }
    if (g_test_rand_int_range(0, 2))
        g_string_printf(text, "--stages %u", stages);
    return g_string_free(text, FALSE);
}

void launch_draw_experts(const struct run_folder *folder, int layers, const char *more)
{
    const char *const experts =
        PICK("\"model_type\": \"mixtral\", \"num_local_experts\": 4, \"intermediate_size\": 48",
             "\"model_type\": \"qwen3_moe\", \"num_experts\": 6, \"moe_intermediate_size\": 24, "
             "\"intermediate_size\": 48, \"head_dim\": 8, \"norm_topk_prob\": true");
    g_autofree char *config = g_strdup_printf(
        "{%s, \"num_hidden_layers\": %d, \"hidden_size\": 32, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"num_experts_per_tok\": 2, \"vocab_size\": 256, "
        "\"max_position_embeddings\": 32, \"tie_word_embeddings\": %s%s}",
        experts, layers, PICK("true", "false"), more);
    run_folder_write(folder, "config.json", config);
}

/* Of the bits, one in two is set. */
static void write_mask(const char *path, gsize tokens)
{
    gsize bytes = (tokens + 7) / 8;
    g_autofree uint8_t *file = g_malloc0(1024 + bytes);
    uint32_t sum = UINT32_MAX;
    for (gsize i = 0; i < tokens; i++)
        file[1024 + i / 8] |= (uint8_t)(g_test_rand_int_range(0, 2) << i % 8);
    for (gsize i = 0; i < 8 * bytes; i++)
        sum = sum >> 1 ^ (((file[1024 + i / 8] >> i % 8) ^ sum) & 1 ? 0xedb88320 : 0);
    const uint32_t header[] = {20261125, 1, (uint32_t)tokens, 0, ~sum};
    memcpy(file, header, sizeof header);
    g_assert_true(g_file_set_contents(path, (const char *)file, (gssize)(1024 + bytes), NULL));
}

void launch_draw_mask(const struct run_folder *folder)
{
    g_autofree char *path = run_folder_path(folder, "text.txt.mask"), *text = NULL;
    g_autofree char *tokens = run_folder_path(folder, "text.txt");
    gsize count;
    g_unlink(path);
    if (g_test_rand_int_range(0, 2) == 0)
        return;
    g_assert_true(g_file_get_contents(tokens, &text, &count, NULL));
    write_mask(path, count);
}

/* mpirun does not run for root unless asked twice. */
bool launch_is_possible(void)
{
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    /* MPI keeps memory until the end of the program. */
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE);
    return mpirun && g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS);
}

bool launch_prepare(void)
{
    if (launch_is_possible())
        return true;
    g_print("1..0 # SKIP there is no mpirun, or the build has no MPI\n");
    return false;
}

char **launch_command(uint32_t processes, const char *options)
{
    g_autofree char *on_device = g_strconcat("--device " TEST_DEVICE " ", options, NULL);
    g_auto(GStrv) program = run_folder_command(on_device);
    g_autofree char *count = g_strdup_printf("%u", processes);
    const char *const launcher[] = {"mpirun", "-n", count, "--oversubscribe"};
    GStrvBuilder *builder = g_strv_builder_new();
    for (size_t i = 0; processes > 1 && i < G_N_ELEMENTS(launcher); i++)
        g_strv_builder_add(builder, launcher[i]);
    g_strv_builder_addv(builder, (const char **)program);
    char **command = g_strv_builder_end(builder);
    g_strv_builder_unref(builder);
    return command;
}

int launch_run(const struct run_folder *folder, uint32_t processes, const char *options, char **out,
               char **err)
{
    g_auto(GStrv) command = launch_command(processes, options);
    return run_folder_spawn(folder, command, NULL, NULL, out, err);
}

void launch_must_run(const struct run_folder *folder, uint32_t processes, const char *options)
{
    g_autofree char *err = NULL;
    int status = launch_run(folder, processes, options, NULL, &err);
    if (status != 0)
        g_error("%u processes, %s: status %d: %s", processes, options, status, err);
}

uint32_t launch_count_messages(const char *text)
{
    uint32_t count = 0;
    for (const char *at = strstr(text, "pstar-run: "); at; at = strstr(at + 1, "pstar-run: "))
        count++;
    return count;
}

void launch_refuse(const struct run_folder *folder, char **command, int status, const char *why)
{
    g_autofree char *err = NULL;
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, &err), ==, status);
    g_assert_cmpuint(launch_count_messages(err), ==, 1);
    run_folder_expect(err, why);
}

json_t *launch_json(const struct run_folder *folder, uint32_t processes, const char *options)
{
    g_autofree char *text = NULL, *all = g_strconcat(options, " --json", NULL);
    g_assert_cmpint(launch_run(folder, processes, all, &text, NULL), ==, 0);
    json_t *json = json_loads(text, 0, NULL);
    g_assert_nonnull(json);
    return json;
}

json_t *launch_look(const struct run_folder *folder, uint32_t processes, const char *options)
{
    g_autofree char *all = g_strconcat(options, " --dry-run", NULL);
    return launch_json(folder, processes, all);
}
