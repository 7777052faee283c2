/* pstar: find out how a model larger than the device's memory will train, and train with the plan.
 *
 * A trace says what one training iteration does. A layout packs its tensors into chunks. A plan
 * says for every moment of the iteration which chunks are copied where. This header reads or
 * synthesises traces, lays tensors out, makes plans (from an eviction policy, from another system's
 * strategy, or by search), replays them under a virtual clock, checks them, and executes them
 * through callbacks.
 *
 *     cc program.c $(pkg-config --cflags --libs pstar)       everything; links GSL and GLPK (GPL)
 *     cc program.c $(pkg-config --cflags --libs pstar-core)  without what is marked [pstar]
 *
 * Conventions. Bytes are bytes, times are seconds, rates are bytes a second. Strings are UTF-8 and
 * end with 0. A function that returns a pointer to an opaque struct gives it to the caller, who
 * frees it with the _free function of that struct; all _free functions accept NULL. A const pointer
 * that is returned belongs to the argument it came from and lives as long. A function that can fail
 * takes a last argument `error`, which may be NULL, and returns NULL or false when it fails. An
 * index out of range, or NULL where it is not allowed, ends the process with a message. Different
 * objects may be used by different threads at once; one object may be read by several threads. */
#ifndef PSTAR_H
#define PSTAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PSTAR_NO_INDEX   UINT32_MAX /* stands for no chunk, no moment, no tensor */
#define PSTAR_NO_ADDRESS UINT64_MAX /* stands for a place in memory where nothing lies */
#define PSTAR_UNLIMITED  UINT64_MAX /* a budget without a limit */

/* Returns the version of the library, such as "0.1.0". */
const char *pstar_version(void);

/* ---- errors ---- */

/* The kinds of errors. The values are the exit statuses of pstar's programs. */
enum pstar_error_kind {
    PSTAR_ERROR_FAILED = 1,      /* a file could not be written, or a policy broke its contract */
    PSTAR_ERROR_INPUT = 2,       /* a file or an argument is missing, damaged or contradictory */
    PSTAR_ERROR_DOES_NOT_FIT = 3 /* a memory is too small; the message says which, and what fits */
};

/* Lies in the caller's memory and owns nothing. It is unchanged by a call that succeeds. */
struct pstar_error {
    enum pstar_error_kind kind;
    char message[1024]; /* what, where, and what to do; cut if longer */
};

/* ---- sizes as people write them ---- */

/* Reads "64MiB", "1.5GB" or "4096" (bytes). Fails with PSTAR_ERROR_INPUT. */
bool pstar_size_parse(const char *text, uint64_t *bytes, struct pstar_error *error);

/* Writes bytes as "1.46 GiB" into `text`, which has room for `size` bytes, and returns `text`. */
char *pstar_size_format(uint64_t bytes, char *text, size_t size);

/* ---- platforms: what a machine has, and how fast it is ---- */

struct pstar_platform;

/* Reads a platform file (*.json). Fails with PSTAR_ERROR_INPUT. */
struct pstar_platform *pstar_platform_read(const char *path, struct pstar_error *error);
void pstar_platform_free(struct pstar_platform *platform);

/* Return the bytes of memory that the device and the host have. */
uint64_t pstar_platform_device_capacity(const struct pstar_platform *platform);
uint64_t pstar_platform_host_capacity(const struct pstar_platform *platform);

/* ---- traces: what one iteration does ---- */

struct pstar_trace;

/* Reads and checks a trace file (*.pstar). Fails with PSTAR_ERROR_INPUT; the message names the
 * file, the table and the row. */
struct pstar_trace *pstar_trace_read(const char *path, struct pstar_error *error);

/* The training job that pstar_trace_synthesise describes. A member that is 0 or NULL has the value
 * in parentheses. */
struct pstar_job {
    const char *model;            /* path of a Hugging Face config.json of the GPT-2 family */
    uint32_t batch;               /* sequences in a micro-batch */
    uint32_t sequence;            /* tokens in a sequence */
    uint32_t micro_batches;       /* in a step (1) */
    const char *precision;        /* "fp32" or "bf16" ("bf16") */
    uint32_t bytes_per_parameter; /* of model data: 16 in fp32; 14 or 12 in bf16, or 18 or 16 with
                                     several micro-batches (the most) */
    const char *recompute;        /* layers whose activations are computed again: "all", "none", or
                                     a list such as "0,3,8-11" ("none") */
    const char *offload;          /* layers whose activations may leave the device ("none") */
    bool host_embedding;          /* whether the embedding runs on the host */
    bool host_update;             /* whether the optimizer runs on the host */
    bool clip;                    /* whether gradients are clipped by their norm: with 12 bytes a
                                     parameter, backward then runs twice */
    uint64_t state_block; /* elements of the blocks into which the optimizer's states of large
                             tensors are cut, a multiple of 1,024 (0: none) */
};

/* Makes the trace of a model that never ran, by counting its operations and bytes. Durations are
 * estimated for `platform`; if it is NULL, they are unknown, and times contain only copies. Fails
 * with PSTAR_ERROR_INPUT. */
struct pstar_trace *pstar_trace_synthesise(const struct pstar_job *job,
                                           const struct pstar_platform *platform,
                                           struct pstar_error *error);

/* Writes the trace file: `path` is either the old file or the whole new one. Fails with
 * PSTAR_ERROR_FAILED. */
bool pstar_trace_write(struct pstar_trace *trace, const char *path, struct pstar_error *error);
void pstar_trace_free(struct pstar_trace *trace);

/* Returns the number of moments: moment m is the start of operator m, counted from 0. */
uint32_t pstar_trace_moments(const struct pstar_trace *trace);
/* Returns the number of tensors, and the name of one, as in the model's file. */
uint32_t pstar_trace_tensors(const struct pstar_trace *trace);
const char *pstar_trace_tensor_name(const struct pstar_trace *trace, uint32_t tensor);

/* Returns the bytes of model data in all lists, without the padding of chunks. */
uint64_t pstar_trace_model_bytes(const struct pstar_trace *trace);
/* Returns the most bytes that activations and workspaces need at one moment, by address. */
uint64_t pstar_trace_non_model_bytes(const struct pstar_trace *trace);

struct pstar_operator {
    const char *name;      /* "forward h.0.attn.c_attn" */
    bool on_host;          /* runs on the host, on the host's copies of chunks */
    double seconds;        /* measured or estimated; 0 if unknown */
    uint32_t access_count; /* see pstar_trace_access */
};

/* Describes the operator that starts at a moment. */
struct pstar_operator pstar_trace_operator(const struct pstar_trace *trace, uint32_t moment);

struct pstar_access {
    const char *list; /* "param", "grad", "master", "exp_avg", "exp_avg_sq" or "activation" */
    uint32_t tensor;  /* index; of "activation", of a buffer */
    bool reads, writes;
    uint32_t block; /* of a tensor whose optimizer states are cut: which block, from 0; else 0 */
};

/* Describes one of the operator's accesses to model data; `index` is below its access_count. */
struct pstar_access pstar_trace_access(const struct pstar_trace *trace, uint32_t moment,
                                       uint32_t index);

/* ---- layouts: which chunk holds each tensor ---- */

struct pstar_layout;

/* Packs the trace's tensors, in the model's order, into chunks of at most `chunk_bytes`; a larger
 * tensor gets a chunk of its own. The size must be a multiple of 256. Fails with
 * PSTAR_ERROR_INPUT. */
struct pstar_layout *pstar_layout_pack(const struct pstar_trace *trace, uint64_t chunk_bytes,
                                       struct pstar_error *error);
void pstar_layout_free(struct pstar_layout *layout);

struct pstar_chunk {
    const char *list;    /* see struct pstar_access */
    uint64_t slot_bytes; /* what the chunk occupies on the device */
    uint64_t copy_bytes; /* what a copy of it moves, and what it occupies on the host */
};

/* Returns the number of chunks, and describes one. */
uint32_t pstar_layout_chunks(const struct pstar_layout *layout);
struct pstar_chunk pstar_layout_chunk(const struct pstar_layout *layout, uint32_t chunk);

/* Sets the chunk that holds a tensor, or a block of it, in a list, and its offset there in bytes.
 * Block 0 is the whole tensor where it is not cut. Returns false if the list does not exist. Of
 * "activation", `tensor` is a buffer, and the result is false also if no chunk holds it. */
bool pstar_layout_find(const struct pstar_layout *layout, const char *list, uint32_t tensor,
                       uint32_t block, uint32_t *chunk, uint64_t *offset);

/* Returns the least device memory in bytes with which every operator finds its chunks and its
 * activations at once. `layout` was packed for `trace`. */
uint64_t pstar_layout_least_arena_bytes(const struct pstar_layout *layout,
                                        const struct pstar_trace *trace);

/* ---- policies: which chunk leaves next ---- */

/* A policy sees numbers of chunks and positions only, never bytes moved, addresses or time. It is
 * told of every admission, use and departure, in order, and asked for a victim when the device is
 * full.
 *
 * A shared object (a plug-in) exports a policy and the version of this interface, as two symbols:
 *     const uint32_t pstar_policy_abi = PSTAR_POLICY_ABI;
 *     const struct pstar_policy_ops pstar_policy = {...};
 * A plug-in needs this header only, and links nothing of pstar. */
#define PSTAR_POLICY_ABI 3u

enum {
    PSTAR_AHEAD_READ = 1,  /* the next use needs the bytes that the last one left: a chunk that does
                              not stay until then costs a fetch */
    PSTAR_AHEAD_WRITE = 2, /* the next use writes the chunk: bytes that were not written back until
                              then never are */
    PSTAR_AHEAD_HOST = 4,  /* an operator on the host uses the chunk before; for it, a dirty chunk
                              is written back in any case */
};

/* The state that a policy sees. pstar keeps it up to date while the policy is open. */
struct pstar_policy_view {
    uint32_t chunk_count;
    uint32_t moment_count;       /* moments in an iteration */
    const uint64_t *chunk_bytes; /* [chunk_count] slots */
    const uint8_t *pinned;       /* [chunk_count] nonzero if the chunk must not leave now */
    const uint8_t *dirty;        /* [chunk_count] nonzero if leaving costs a write-back */
    const uint32_t *next_use;    /* [chunk_count] moment of the chunk's next use on the device,
                                    counted from the start of the current iteration: at least the
                                    current moment. A use in the next iteration is moment_count or
                                    more. PSTAR_NO_INDEX means never. */
    const uint8_t *ahead;        /* [chunk_count] PSTAR_AHEAD_..., of the time between the chunk's
                                    last use on the device and its next; 0 before the first */
    const uint32_t *moment;      /* the current moment; moment_count after the last operator */
    const uint32_t *iteration;   /* the current iteration, from 0, which is the warm-up */
    const uint64_t *capacity;    /* [moment_count + 1] bytes that chunks may take at each moment */
    const uint32_t *incoming;    /* the chunk that `victim` makes room for; PSTAR_NO_INDEX if the
                                    room is for non-model data */
    const double *values;        /* of the policy's parameters, in their order; NULL if the policy
                                    has none, or if all have their usual values */
};

/* A number that users may give with a policy: --policy s3fifo:small=0.2. */
struct pstar_policy_parameter {
    const char *name;    /* "small"; NULL after the last parameter */
    const char *summary; /* a few words for --help */
    double usual, least, most;
    bool whole; /* only whole numbers are values */
};

struct pstar_policy_ops {
    const char *name;    /* as in --policy */
    const char *summary; /* one line for --help */

    /* Returns the policy's state, which the policy owns until close. `view` outlives it. Never
     * fails. */
    void *(*open)(const struct pstar_policy_view *view);
    void (*close)(void *state);

    /* The chunk has become resident. */
    void (*admit)(void *state, uint32_t chunk);
    /* The operator of the current moment has used the chunk; the one that admitted it counts too.
     * next_use and ahead already say what follows. Every iteration touches the same chunks in the
     * same order at the same moments. May be NULL. */
    void (*touch)(void *state, uint32_t chunk);
    /* The chunk has left, whether or not this policy chose it. */
    void (*remove)(void *state, uint32_t chunk);
    /* Returns the resident chunk to leave next, which is not pinned, or PSTAR_NO_INDEX if all are
     * pinned. The policy does not remove it yet: `remove` follows. */
    uint32_t (*victim)(void *state);

    const struct pstar_policy_parameter *parameters; /* ends with one without a name; may be NULL */
    const double *values;                            /* pstar's own: NULL in a plug-in's symbol */
};

/* Returns the policy with this name, or opens the plug-in at this path if `name` has a slash or
 * ends in ".so". Values of parameters may follow, as in "s3fifo:small=0.2:ghosts=0.5". The result
 * lives as long as the process. Fails with PSTAR_ERROR_INPUT. */
const struct pstar_policy_ops *pstar_policy_find(const char *name, struct pstar_error *error);

/* Returns the built-in policies in the order of tables, from 0; NULL after the last. */
const struct pstar_policy_ops *pstar_policy_at(uint32_t index);

/* ---- plans: what moves, and when ---- */

struct pstar_plan;

/* The memory that a plan may take. */
struct pstar_budgets {
    uint64_t device; /* bytes, with what the driver and its libraries hold */
    uint64_t host;   /* bytes, or PSTAR_UNLIMITED */
};

/* Makes a plan by running an eviction policy over the trace, with chunks fetched up to `look_ahead`
 * moments before their use (0 means on demand). Its times are 0 until a replay predicts them. Fails
 * with PSTAR_ERROR_DOES_NOT_FIT, or PSTAR_ERROR_FAILED if the policy breaks its contract. */
struct pstar_plan *pstar_plan_from_policy(const struct pstar_trace *trace,
                                          const struct pstar_layout *layout,
                                          const struct pstar_policy_ops *policy,
                                          const struct pstar_budgets *budgets, uint32_t look_ahead,
                                          struct pstar_error *error);

/* Makes the plan of another system's strategy: "resident", "zero-offload", "zero3-offload",
 * "twinflow:0.5", "fsdp-offload" and others, as pstar-sim --strategy takes them. Strategies choose
 * where the optimizer runs: *planned receives the trace that the plan is for, which the caller
 * frees. `platform` times optimizer steps that change sides, and may be NULL. Fails with
 * PSTAR_ERROR_INPUT or PSTAR_ERROR_DOES_NOT_FIT. */
struct pstar_plan *pstar_plan_from_strategy(const struct pstar_trace *trace,
                                            const struct pstar_layout *layout, const char *strategy,
                                            const struct pstar_budgets *budgets,
                                            const struct pstar_platform *platform,
                                            struct pstar_trace **planned,
                                            struct pstar_error *error);

enum pstar_objective {
    PSTAR_LEAST_TIME,    /* of an iteration */
    PSTAR_LEAST_TRAFFIC, /* bytes over the link in an iteration */
    PSTAR_LEAST_MEMORY   /* on the device */
};

/* The options of pstar_plan_search. All zeros are good values, except for the budgets. */
struct pstar_search {
    struct pstar_budgets budgets;
    enum pstar_objective objective;
    const char *link;  /* "h2d=12GB/s,d2h=12GB/s": replaces the platform's link; may be NULL */
    bool as_traced;    /* keep what is recomputed, offloaded and run on the host as in the trace;
                          the optimizer's place is chosen in any case */
    double time_limit; /* seconds, after which the best plan so far is the result; 0 means none */
    uint32_t seed;    /* the same seed gives the same plan, unless the time limit ends the search */
    uint32_t threads; /* 0 means one for each processor */
};

/* [pstar] Searches for the best plan: sizes and order of chunks, the optimizer's place, layers to
 * recompute or offload, and the schedule. *planned receives the trace that the plan is for, which
 * the caller frees. If `trace` was read from a file or written to one, the plan has a certificate
 * that proves how far it is from the optimum at most. `platform` may be NULL, which means 8 GB/s
 * over the link. Fails with PSTAR_ERROR_DOES_NOT_FIT or PSTAR_ERROR_INPUT. */
struct pstar_plan *pstar_plan_search(const struct pstar_trace *trace,
                                     const struct pstar_platform *platform,
                                     const struct pstar_search *search,
                                     struct pstar_trace **planned, struct pstar_error *error);

/* Reads a plan file and checks what can be checked without a trace. Fails with
 * PSTAR_ERROR_INPUT. */
struct pstar_plan *pstar_plan_read(const char *path, struct pstar_error *error);

/* Writes the plan file: `path` is either the old file or the whole new one. Fails with
 * PSTAR_ERROR_FAILED. */
bool pstar_plan_write(const struct pstar_plan *plan, const char *path, struct pstar_error *error);
void pstar_plan_free(struct pstar_plan *plan);

/* Checks that the plan is for this trace and that its schedule is possible: no chunk is used where
 * it is not, no address is taken twice, no bytes are lost, no budget is exceeded, and the end is
 * like the start. Fails with PSTAR_ERROR_INPUT. */
bool pstar_plan_check(const struct pstar_plan *plan, const struct pstar_trace *trace,
                      struct pstar_error *error);

/* Makes the trace that the plan is for from the recorded one, by running the optimizer where the
 * plan has it and, if the trace knows how operators use what is saved for backward, by holding in
 * chunks what the plan lets leave the device. Layers that the plan recomputes, or offloads
 * otherwise, must be those of the trace: pstar_plan_check, which the caller makes with the result,
 * refuses others. The caller frees the result. Fails with PSTAR_ERROR_INPUT if the updates of this
 * trace cannot be placed so. */
struct pstar_trace *pstar_plan_trace(const struct pstar_plan *plan,
                                     const struct pstar_trace *recorded, struct pstar_error *error);

/* [pstar] Replays the plan, which has passed pstar_plan_check, under a virtual clock, and stores
 * the times that it predicts, stall_seconds and iteration_seconds, in the plan's figures.
 * `platform` may be NULL, and so may `link`, which replaces the platform's link. Fails with
 * PSTAR_ERROR_INPUT if `link` does not read, or if the replay moves other bytes than the plan says.
 */
bool pstar_plan_replay(struct pstar_plan *plan, const struct pstar_trace *trace,
                       const struct pstar_platform *platform, const char *link,
                       struct pstar_error *error);

/* [pstar] Verifies a plan file against the trace file that it was made from: that it is possible,
 * that it moves what it predicts and, if it has a certificate, that every byte of both files, the
 * predicted times and the bounds are as they were. Times come from the certificate or, without one,
 * from `platform`, which may be NULL. Fails with PSTAR_ERROR_INPUT, naming what differs. */
bool pstar_plan_verify(const char *plan_path, const char *trace_path,
                       const struct pstar_platform *platform, struct pstar_error *error);

/* Returns the layout that the plan is for. */
const struct pstar_layout *pstar_plan_layout(const struct pstar_plan *plan);
/* Return the memory that executing the plan takes, in bytes. Chunks lie at the bottom of the arena,
 * non-model data at its top. */
uint64_t pstar_plan_arena_bytes(const struct pstar_plan *plan);
uint64_t pstar_plan_host_pool_bytes(const struct pstar_plan *plan);
/* Returns the chunk's place in the host pool in bytes, or PSTAR_NO_ADDRESS if it is at home in
 * NVMe, or is never copied: it lives on the device for good or, if it has no initial address
 * either, while anything in it is alive. */
uint64_t pstar_plan_host_address(const struct pstar_plan *plan, uint32_t chunk);
/* Returns the chunk's place in the arena when an iteration starts, or PSTAR_NO_ADDRESS if it is not
 * there. */
uint64_t pstar_plan_initial_address(const struct pstar_plan *plan, uint32_t chunk);

struct pstar_action {
    const char *kind; /* "fetch", "allocate", "write-back", "drop", "flush", "move" or "wait"; of
                         chunks at home in NVMe also "load", "reserve", "store" and "release" */
    uint32_t chunk;   /* PSTAR_NO_INDEX of a "wait" */
    uint64_t address; /* in the arena, afterwards; PSTAR_NO_ADDRESS if the chunk leaves */
};

/* Returns the number of actions before the operator of a moment, or, for the moment after the last,
 * of those that end the iteration; and describes one of them. */
uint32_t pstar_plan_actions(const struct pstar_plan *plan, uint32_t moment);
struct pstar_action pstar_plan_action(const struct pstar_plan *plan, uint32_t moment,
                                      uint32_t index);

/* ---- figures: what a plan moves, takes and costs ---- */

struct pstar_figure {
    const char *name;  /* "h2d_bytes", as in pstar's files */
    const char *label; /* "H2D", for tables */
    const char *unit;  /* "bytes", "count" or "seconds" */
    bool peak;         /* the most at one moment of the iteration, not its sum */
};

/* Describes all figures in the order of tables, from 0; returns false after the last. */
bool pstar_figure_at(uint32_t index, struct pstar_figure *figure);

/* Sets *value to a figure of one iteration of the plan in the steady state, exact below 2^53.
 * Returns false if there is no figure of this name. */
bool pstar_plan_figure(const struct pstar_plan *plan, const char *name, double *value);

/* ---- execution: a plan carried out through callbacks ---- */

/* Work goes into queues. Each queue completes its work in order. */
enum pstar_queue {
    PSTAR_COMPUTE, /* operators on the device, and moves within it */
    PSTAR_H2D,     /* copies from host to device */
    PSTAR_D2H,     /* copies from device to host */
    PSTAR_HOST,    /* operators on the host */
    PSTAR_QUEUES
};

/* Stands for the completion of a piece of work in its queue: a sequence number, or a time. Larger
 * tickets of one queue complete later; 0 needs no waiting. */
typedef uint64_t pstar_ticket;

/* Work that must be complete before: one ticket for each queue. */
struct pstar_after {
    pstar_ticket queue[PSTAR_QUEUES];
};

struct pstar_copy {
    uint32_t chunk;
    uint64_t device_address; /* bytes from the start of the arena */
    uint64_t host_address;   /* bytes from the start of the host pool */
    uint64_t copy_bytes;     /* what is copied */
    uint64_t slot_bytes;     /* what the chunk occupies on the device */
};

/* The caller's memories, copies and operators. Chunks are copied as a whole, also where a plan
 * copies them in parts. No function may be NULL. Each returns at once with the ticket of the work
 * that it began in its queue; work that is done at once may return 0. */
struct pstar_mover {
    /* Copies from host to device: from now on the chunk occupies the device address. */
    pstar_ticket (*fetch)(void *self, const struct pstar_copy *copy,
                          const struct pstar_after *after);
    /* Copies from device to host. If `leaves`, the chunk no longer occupies the device. */
    pstar_ticket (*write_back)(void *self, const struct pstar_copy *copy, bool leaves,
                               const struct pstar_after *after);
    /* Occupies the device address without a copy. */
    void (*allocate)(void *self, const struct pstar_copy *copy);
    /* Leaves the device without a copy. */
    void (*drop)(void *self, uint32_t chunk);
    /* Copies within the device, in the compute queue, from the address `from` to the one in `to`;
     * the two ranges may overlap. */
    pstar_ticket (*move)(void *self, const struct pstar_copy *to, uint64_t from,
                         const struct pstar_after *after);
    /* Runs the operator of a moment, in the compute queue or in the host's. An operator on the host
     * includes the copies of its activations. If it receives some from the device, *received
     * becomes the ticket of their copy, after which their room on the device is free. */
    pstar_ticket (*run)(void *self, uint32_t moment, const struct pstar_after *after,
                        pstar_ticket *received);
};

struct pstar_execution;

/* Checks the plan against the trace, as pstar_plan_check does, and prepares to execute it. All
 * arguments outlive the result; `self` is handed to the mover's functions. Fails with
 * PSTAR_ERROR_INPUT, also for the trace of one of several ranks. */
struct pstar_execution *pstar_execution_new(const struct pstar_plan *plan,
                                            const struct pstar_trace *trace,
                                            const struct pstar_mover *mover, void *self,
                                            struct pstar_error *error);
void pstar_execution_free(struct pstar_execution *execution);

/* Fetches the initial residency. Call it once, before the first step. Chunks that live on the
 * device for good are taken as already written there. */
void pstar_execution_load(struct pstar_execution *execution);

/* Performs the actions before a moment, then its operator. Moments follow each other from 0; the
 * last one also performs the actions that end the iteration, and 0 follows it. */
void pstar_execution_step(struct pstar_execution *execution, uint32_t moment);

/* Between two iterations: writes back every dirty chunk that has a place on the host. */
void pstar_execution_flush(struct pstar_execution *execution);

/* Returns where the chunk lies in the arena now, or PSTAR_NO_ADDRESS. */
uint64_t pstar_execution_address(const struct pstar_execution *execution, uint32_t chunk);

#ifdef __cplusplus
}
#endif

#endif
