/* The tables of a report; all results are the caller's, to table_free; NULL where the files hold
 * nothing of the kind. */
#ifndef PSTAR_REPORT_TABLES_H
#define PSTAR_REPORT_TABLES_H

#include "report/contents.h"

/* What ran: a row a property, a column a trace. */
struct table *table_configuration(const struct inputs *inputs);

/* Operators and times by phase of one trace. */
struct table *table_phases(const struct input_trace *trace);

/* Time and busy shares by phase of one step. */
struct table *table_busy(const struct strips *strips);

/* The first two steps that traces have recorded, side by side: what got faster, what moved more. */
struct table *table_compare(const struct inputs *inputs);

/* Operators of the two whose time differs most. */
struct table *table_compare_operators(const struct inputs *inputs);

/* Bytes over the link by phase, of chunks, under a plan. */
struct table *table_phase_traffic(const struct replayed *replayed);

/* Peaks by memory of every plan and run. */
struct table *table_peaks(const struct contents *contents);

/* Traffic an iteration of every plan and run. */
struct table *table_traffic(const struct inputs *inputs);

/* For each budget and policy the chunk size of least traffic. */
struct table *table_best(const struct sweep_file *sweep);

/* All figures of one pair. */
struct table *table_pair(const struct pair *pair);

#endif
