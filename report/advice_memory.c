#include "report/advice.h"
#include "report/commands.h"
#include "report/text.h"
#include "traces/size.h"

/* A share of the peak below which it makes no difference. */
#define WORTH 0.1

/* The most bytes of forward and backward, and of the update; with a plan also its chunks. */
struct room {
    uint64_t before, update, activations;
    uint32_t peak; /* moment */
    bool updates;  /* there is an update */
};

static struct room room_of(const struct trace *trace, const struct memory *memory)
{
    struct room room = {0};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint64_t bytes = memory ? memory_total(&memory->moments[m]) : trace->non_model_bytes[m];
        if (trace->operators[m].phase == TRACE_UPDATE_PHASE) {
            room.updates = true;
            room.update = MAX(room.update, bytes);
        } else if (bytes > room.before) {
            room.before = bytes;
            room.peak = m;
            room.activations = trace->non_model_bytes[m];
        }
    }
    return room;
}

static void add_freed(struct contents *contents, const struct room *room, bool planned)
{
    if (!room->updates || room->before < room->update ||
        (double)(room->before - room->update) < WORTH * (double)room->before)
        return;
    g_autofree char *trace = command_trace(contents->inputs);
    g_autofree char *memory = command_memory(contents->inputs);
    g_autofree char *platform = command_platform(contents->inputs);
    g_autofree char *freed = size_format(room->before - room->update);
    g_autofree char *before = size_format(room->before), *update = size_format(room->update);
    advice_append(
        contents, 0, planned ? "memory" : "non-model",
        g_strdup_printf("%s that backward frees lie empty in the update", freed),
        g_strdup_printf("Before it up to %s are in use%s, in the update up to %s. Optimizer states "
                        "that come to the device behind backward, or stay there, need no copy in "
                        "the update.",
                        before, planned ? "" : " by activations and workspaces", update),
        g_strdup_printf("pstar-sim %s --device-memory %s --platform %s "
                        "--strategy interleave,twinflow,gemini-static",
                        trace, memory, platform));
}

static void add_peak(struct contents *contents, const struct trace *trace, const struct room *room)
{
    if ((double)room->activations < 0.3 * (double)room->before)
        return;
    g_autofree char *activations = size_format(room->activations);
    g_autofree char *peak = size_format(room->before);
    g_autofree char *share = text_number("%.0f",
                                         100 * (double)room->activations / (double)room->before);
    advice_append(
        contents, 0, "memory",
        g_strdup_printf("%s sets the peak of device memory", trace->operators[room->peak].name),
        g_strdup_printf("Of %s then, %s (%s %%) are activations and workspaces. Computing "
                        "some layers' activations twice leaves that room to chunks.",
                        peak, activations, share),
        g_strdup("pstar-run --model CONFIG --data FILE --recompute all --dry-run"));
}

void advice_add_memory(struct contents *contents)
{
    const struct inputs *inputs = contents->inputs;
    const struct replayed *replayed = contents->replays->len
                                          ? &g_array_index(contents->replays, struct replayed, 0)
                                          : NULL;
    const struct input_trace *input = replayed              ? replayed->plan->trace
                                      : inputs->traces->len ? g_ptr_array_index(inputs->traces, 0)
                                                            : NULL;
    if (!input)
        return;
    const struct room room = room_of(input->trace, replayed ? replayed->memory : NULL);
    add_freed(contents, &room, replayed != NULL);
    if (replayed)
        add_peak(contents, input->trace, &room);
}
