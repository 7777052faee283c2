#include "traces/guess.h"
#include "traces/size.h"
#include "traces/summary.h"

static const char *by_text(uint32_t by)
{
    static const char *const texts[] = {
        [GUESSED_NOT] = "not guessed",
        [GUESSED_NAMES] = "by kernels' names alone",
        [GUESSED_MEMORY] = "by what is freed alone",
        [GUESSED_BOTH] = "by kernels' names and by what is freed, which agree",
    };
    return texts[by];
}

static void print_phase(const char *name, const struct guessed_phase *phase, FILE *out)
{
    g_autofree char *time = summary_format_time(phase->ns);
    fprintf(out, "  %-16s %12s   of %u kernels%s%s\n", name, time, phase->kernels,
            phase->first > 0 ? ", begins " : "", phase->first > 0 ? by_text(phase->by) : "");
}

void guess_print(const struct guessed_iteration *guessed, FILE *out)
{
    g_autofree char *lasting = size_format(guessed->lasting_bytes);
    g_autofree char *passing = size_format(guessed->passing_peak_bytes);
    g_autofree char *fresh = size_format(guessed->new_bytes);
    fprintf(out, "%-18s %12u   kernels, not annotated: as their names and lives tell\n",
            "iteration", guessed->kernels);
    print_phase("forward", &guessed->forward, out);
    if (guessed->backward.kernels > 0)
        print_phase("backward", &guessed->backward, out);
    if (guessed->update.kernels > 0)
        print_phase("update", &guessed->update, out);
    fprintf(out, "  %-16s %12s   in %u allocations that live through it\n", "model data", lasting,
            guessed->lasting_count);
    if (guessed->passing_count > 0)
        fprintf(out, "  %-16s %12s   peak, at kernel %u; %u allocations come and go\n",
                "non-model data", passing, guessed->passing_peak_kernel, guessed->passing_count);
    else
        fprintf(out,
                "  %-16s %12s   no allocation comes and goes: an allocator of the program's "
                "own may hide them\n",
                "non-model data", "unknown");
    if (guessed->new_count > 0)
        fprintf(out, "  %-16s %12s   in %u allocations that come and stay\n", "new", fresh,
                guessed->new_count);
}

static json_t *phase_json(const struct guessed_phase *phase)
{
    static const char *const names[] = {[GUESSED_NOT] = "none",
                                        [GUESSED_NAMES] = "names",
                                        [GUESSED_MEMORY] = "memory",
                                        [GUESSED_BOTH] = "both"};
    return json_pack("{s:I, s:I, s:f, s:s}", "first_kernel", (json_int_t)phase->first, "kernels",
                     (json_int_t)phase->kernels, "seconds", (double)phase->ns / 1e9, "begins_by",
                     names[phase->by]);
}

json_t *guess_json(const struct guessed_iteration *guessed)
{
    if (guessed == NULL)
        return json_null();
    return json_pack("{s:I, s:I, s:f, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "device",
                     (json_int_t)guessed->device, "kernels", (json_int_t)guessed->kernels, "alike",
                     guessed->alike, "forward", phase_json(&guessed->forward), "backward",
                     phase_json(&guessed->backward), "update", phase_json(&guessed->update),
                     "model_allocations", (json_int_t)guessed->lasting_count, "model_bytes",
                     (json_int_t)guessed->lasting_bytes, "non_model_allocations",
                     (json_int_t)guessed->passing_count, "non_model_peak_bytes",
                     (json_int_t)guessed->passing_peak_bytes, "non_model_peak_kernel",
                     (json_int_t)guessed->passing_peak_kernel, "new_allocations",
                     (json_int_t)guessed->new_count, "new_bytes", (json_int_t)guessed->new_bytes);
}
