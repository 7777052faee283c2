/* The tables of a trace file, as SQL; docs/formats.md describes them. */
#ifndef PSTAR_TRACES_SCHEMA_H
#define PSTAR_TRACES_SCHEMA_H

/* In SQLite's header at offset 68: "pstr". */
#define SCHEMA_APPLICATION_ID 0x70737472

/* What a training iteration is. An id counts from 0 without gaps; an operator's is its moment. */
#define SCHEMA_META "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value) WITHOUT ROWID;"
#define SCHEMA_ITERATION                                                                        \
    "CREATE TABLE tensors ("                                                                    \
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, elements INTEGER NOT NULL);"                  \
    "CREATE TABLE operators ("                                                                  \
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, phase TEXT NOT NULL, place TEXT NOT NULL,"    \
    " layer INTEGER, micro_batch INTEGER NOT NULL, flops INTEGER NOT NULL, bytes INTEGER NOT "  \
    "NULL,"                                                                                     \
    " h2d_bytes INTEGER NOT NULL, d2h_bytes INTEGER NOT NULL, duration_ns INTEGER);"            \
    "CREATE TABLE accesses ("                                                                   \
    " id INTEGER PRIMARY KEY, operator INTEGER NOT NULL REFERENCES operators,"                  \
    " tensor INTEGER NOT NULL REFERENCES tensors, list TEXT NOT NULL, mode TEXT NOT NULL);"     \
    "CREATE TABLE buffers ("                                                                    \
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, bytes INTEGER NOT NULL,"                      \
    " first INTEGER NOT NULL REFERENCES operators, last INTEGER NOT NULL REFERENCES operators," \
    " saved INTEGER NOT NULL, recompute_flops INTEGER NOT NULL);"                               \
    "CREATE TABLE moments ("                                                                    \
    " id INTEGER PRIMARY KEY REFERENCES operators, non_model_bytes INTEGER NOT NULL);"

/* What was recorded while it ran. Names and columns are those of Nsight Systems' export, but for
 * `samples` and parentRangeId, which are ours. */
#define SCHEMA_PROCESSES "PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)"
#define SCHEMA_CUDA_DEVICES                                                            \
    "TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT, " \
    "numMultiprocessors INTEGER)"
#define SCHEMA_SESSION \
    "TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)"
#define SCHEMA_EVENT_TYPES                                                                        \
    "CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);" \
    "INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (33, 'NvtxCategory', 'NVTX Category'),"              \
    " (34, 'NvtxMark', 'NVTX Mark'), (59, 'NvtxPushPopRange', 'NVTX Push/Pop Range'),"            \
    " (60, 'NvtxStartEndRange', 'NVTX Start/End Range'),"                                         \
    " (75, 'NvtxDomainCreate', 'NVTX Domain Create');"
#define SCHEMA_RECORDS                                                                      \
    SCHEMA_EVENT_TYPES                                                                      \
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"        \
    "CREATE TABLE NVTX_EVENTS ("                                                            \
    " start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,"    \
    " category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER," \
    " textId INTEGER REFERENCES StringIds(id), domainId INTEGER, uint64Value INTEGER,"      \
    " int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER,"       \
    " floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT,"                 \
    " parentRangeId INTEGER);"                                                              \
    "CREATE TABLE samples (time INTEGER NOT NULL, counter TEXT NOT NULL, value INTEGER NOT NULL);"

#endif
