#include "base/size.h"
#include "traces/activity/guess.h"
#include "traces/summary.h"

enum { MOST_PRINTED = 9, PRINTED_FIRST = 4, PRINTED_LAST = 3 }; /* number of phases */

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

static const char *const phase_names[] = {
    [TRACE_FORWARD] = "forward", [TRACE_BACKWARD] = "backward", [TRACE_UPDATE_PHASE] = "update"};

static const struct guessed_phase *phase_at(const struct guessed_iteration *guessed, guint place)
{
    return &g_array_index(guessed->phases, struct guessed_phase, place);
}

static void print_phase(const struct guessed_phase *phase, FILE *out)
{
    g_autofree char *time = summary_format_time(phase->ns);
    fprintf(out, "  %-16s %12s   of %u kernels%s%s\n", phase_names[phase->phase], time,
            phase->kernels, phase->first > 0 ? ", begins " : "",
            phase->first > 0 ? by_text(phase->by) : "");
}

/* If there are many micro-batches, those in the middle share a line. */
static void print_phases(const struct guessed_iteration *guessed, FILE *out)
{
    guint count = guessed->phases->len, left_out = 0;
    uint32_t kernels = 0;
    uint64_t ns = 0;
    if (guessed->micro_batches > 1)
        fprintf(out, "  %-16s %12u   forward and backward before the update\n", "micro-batches",
                guessed->micro_batches);
    for (guint i = 0; i < count; i++) {
        const struct guessed_phase *phase = phase_at(guessed, i);
        if (count <= MOST_PRINTED || i < PRINTED_FIRST || i + PRINTED_LAST >= count) {
            print_phase(phase, out);
            continue;
        }
        left_out++;
        kernels += phase->kernels;
        ns += phase->ns;
        if (i + PRINTED_LAST + 1 == count) {
            g_autofree char *time = summary_format_time(ns);
            fprintf(out, "  %-16s %12s   of %u kernels: %u more of these\n", "...", time, kernels,
                    left_out);
        }
    }
    g_autofree char *doubt = guess_doubt(guessed);
    if (doubt)
        fprintf(out, "  %-16s %12s   %s\n", "in doubt", "", doubt);
}

char *guess_doubt(const struct guessed_iteration *guessed)
{
    GString *doubt = g_string_new(NULL);
    if (guessed->turns > guessed->micro_batches)
        g_string_append_printf(doubt,
                               "the kernels between forward and backward come %u times: there may "
                               "be micro-batches whose kernels differ",
                               guessed->turns);
    if (guessed->rises > 0 && guessed->rises != guessed->micro_batches)
        g_string_append_printf(doubt,
                               "%snon-model data rises and falls %u times: micro-batches may do "
                               "that, or layers that are computed again",
                               doubt->len > 0 ? "; " : "", guessed->rises);
    return g_string_free(doubt, doubt->len == 0);
}

void guess_print(const struct guessed_iteration *guessed, FILE *out)
{
    g_autofree char *lasting = size_format(guessed->lasting_bytes);
    g_autofree char *passing = size_format(guessed->passing_peak_bytes);
    g_autofree char *fresh = size_format(guessed->new_bytes);
    fprintf(out, "%-18s %12u   kernels, not annotated: as their names and lives tell\n",
            "iteration", guessed->kernels);
    print_phases(guessed, out);
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

static json_t *phases_json(const struct guessed_iteration *guessed)
{
    static const char *const names[] = {[GUESSED_NOT] = "none",
                                        [GUESSED_NAMES] = "names",
                                        [GUESSED_MEMORY] = "memory",
                                        [GUESSED_BOTH] = "both"};
    json_t *phases = json_array();
    for (guint i = 0; i < guessed->phases->len; i++) {
        const struct guessed_phase *phase = phase_at(guessed, i);
        json_array_append_new(
            phases, json_pack("{s:s, s:I, s:I, s:f, s:s}", "phase", phase_names[phase->phase],
                              "first_kernel", (json_int_t)phase->first, "kernels",
                              (json_int_t)phase->kernels, "seconds", (double)phase->ns / 1e9,
                              "begins_by", names[phase->by]));
    }
    return phases;
}

json_t *guess_json(const struct guessed_iteration *guessed)
{
    if (!guessed)
        return json_null();
    g_autofree char *doubt = guess_doubt(guessed);
    return json_pack("{s:I, s:I, s:f, s:I, s:o, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "device",
                     (json_int_t)guessed->device, "kernels", (json_int_t)guessed->kernels, "alike",
                     guessed->alike, "micro_batches", (json_int_t)guessed->micro_batches, "phases",
                     phases_json(guessed), "doubt", doubt, "model_allocations",
                     (json_int_t)guessed->lasting_count, "model_bytes",
                     (json_int_t)guessed->lasting_bytes, "non_model_allocations",
                     (json_int_t)guessed->passing_count, "non_model_peak_bytes",
                     (json_int_t)guessed->passing_peak_bytes, "non_model_peak_kernel",
                     (json_int_t)guessed->passing_peak_kernel, "new_allocations",
                     (json_int_t)guessed->new_count, "new_bytes", (json_int_t)guessed->new_bytes);
}
