/* What of the host's copies lives in NVMe, and when it stays in the host pool meanwhile: a
 * residency problem like that of the device, one tier below it. The uses are the copies to and from
 * the device and the operators on the host, which a plan for enough host memory fixes. */
#ifndef PSTAR_PLANNER_SCHEDULE_NVME_STAYS_H
#define PSTAR_PLANNER_SCHEDULE_NVME_STAYS_H

#include "chunks/nvme_homes.h"
#include "chunks/nvme_visits.h"

struct nvme_stays_job {
    const struct plan *plan; /* without homes in NVMe */
    const struct nvme_uses *uses;
    uint64_t host_bytes; /* of the host pool */
    double ahead_share;  /* of the room beside what an item uses, for loads that run ahead */
    uint8_t write_share; /* of BIAS_PARTS (retention.h): the weight of a byte that is written,
                            beside the rest for a byte that is read */
};

/* Chooses stays for the fewest bytes between host and NVMe, with these weights. Chunks that would
 * stay for all of the iteration live on the host. Returns NULL if the host is too small for what is
 * used at once. Free it with nvme_stays_free. */
struct nvme_stays *nvme_stays_find(const struct nvme_stays_job *job);
void nvme_stays_free(struct nvme_stays *stays);

#endif
