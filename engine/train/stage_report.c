#include "engine/train/stage_report.h"

#include "base/size.h"
#include "models/pipeline.h"

#include <stdio.h>

struct stage_row *stage_report_share(const struct run_plan *run, struct ranks *stages,
                                     const struct plan_figures *figures)
{
    const struct pipeline_cut *cut = run->iteration->cut;
    struct stage_row *rows = g_new0(struct stage_row, cut->stages);
    uint32_t tightest;
    rows[cut->stage] =
        (struct stage_row){.first_layer = cut->first_layer,
                           .layer_count = cut->layer_count,
                           .parts = cut->parts,
                           .in_flight = trace_most_in_flight(run->iteration->trace),
                           .device_bytes = run->plan->arena_bytes,
                           .host_bytes = run->plan->host_pool_bytes,
                           .least_device_bytes = run_plan_least_device_bytes(run, &tightest),
                           .figures = *figures};
    ranks_begin(stages, ranks_issue(stages));
    ranks_share(stages, sizeof *rows, rows);
    ranks_end(stages);
    return rows;
}

static char *layers_of(const struct stage_row *row)
{
    uint32_t last = row->first_layer + row->layer_count - 1;
    if (row->parts > 1)
        return g_strdup_printf("%u in %u", row->layer_count, row->parts);
    return row->layer_count == 1 ? g_strdup_printf("%u", last)
                                 : g_strdup_printf("%u-%u", row->first_layer, last);
}

void stage_report_print(const struct stage_row *rows, uint32_t count)
{
    bool timed = rows[0].figures.iteration_seconds > 0, nvme = false;
    for (uint32_t s = 0; s < count; s++)
        nvme |= rows[s].figures.peak_nvme_bytes > 0;
    printf("\n%5s  %8s  %9s  %12s  %12s%s  %12s  %12s%s\n", "stage", "layers", "in flight",
           "device", "host", nvme ? "          NVMe" : "", "sent", "received",
           timed ? "        step      waited" : "");
    for (uint32_t s = 0; s < count; s++) {
        const struct stage_row *row = &rows[s];
        g_autofree char *layers = layers_of(row);
        g_autofree char *device = size_format(row->device_bytes);
        g_autofree char *host = size_format(row->host_bytes);
        g_autofree char *stored = size_format(row->figures.peak_nvme_bytes);
        g_autofree char *sent = size_format(row->figures.sent_bytes);
        g_autofree char *received = size_format(row->figures.received_bytes);
        printf("%5u  %8s  %9u  %12s  %12s", s, layers, row->in_flight, device, host);
        if (nvme)
            printf("  %12s", stored);
        printf("  %12s  %12s", sent, received);
        if (timed)
            printf("  %8.3f s  %8.3f s", row->figures.iteration_seconds,
                   row->figures.stall_seconds);
        putchar('\n');
    }
}

json_t *stage_report_json(const struct stage_row *rows, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t s = 0; s < count; s++) {
        const struct stage_row *row = &rows[s];
        json_t *json = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I}", "first_layer", (json_int_t)row->first_layer, "layers",
            (json_int_t)row->layer_count, "in_flight", (json_int_t)row->in_flight, "device_bytes",
            (json_int_t)row->device_bytes, "host_bytes", (json_int_t)row->host_bytes,
            "least_device_bytes", (json_int_t)row->least_device_bytes);
        json_object_update_new(json, figures_to_json(&row->figures));
        json_array_append_new(array, json);
    }
    return array;
}
