/* plan.json: what its reader and its writer share. Described in docs/formats.md. */
#ifndef PSTAR_CHUNKS_PLAN_FORMAT_H
#define PSTAR_CHUNKS_PLAN_FORMAT_H

#define PLAN_FORMAT 1 /* value of the key "pstar_plan" */

#endif
