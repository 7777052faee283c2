#include "kernel_target.h"

#include "counted.h"
#include "jump.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace
{

constexpr size_t stack_bytes = 256 * 1024, lanes = 32, exchange_bytes = 64;
constexpr size_t shared_limit = 227 * 1024, threads_limit = 1024, grid_y_limit = 65535;

/* Fibers that meet: all arrive before one goes on. */
struct meeting {
    unsigned members = 0, arrived = 0;
    uint64_t generation = 0;
};

struct warp {
    meeting join;
    unsigned char exchanged[2][lanes * exchange_bytes];
};

/* `from` is nullptr to clear. */
struct copy {
    void *to;
    const void *from;
    size_t bytes;
    unsigned group;
};

/* One thread of a block; its stack serves block after block. The first switch to it is ucontext's;
 * later switches are jumps, which make no system call. */
struct fiber {
    ucontext_t start;
    jump_place place;
    std::unique_ptr<unsigned char[]> stack{new unsigned char[stack_bytes]};
    void *sanitizer_stack = nullptr;
    bool started = false, done = false;
    std::vector<copy> copies; /* that are under way */
    unsigned groups = 0;
};

struct block {
    std::vector<std::unique_ptr<fiber>> fibers;
    std::vector<warp> warps;
    meeting barrier;
    std::unique_ptr<unsigned char[]> shared;
    const std::function<void()> *thread = nullptr;
    jump_place scheduler;
    void *sanitizer_stack = nullptr;
    const void *stack = nullptr; /* the scheduler's */
    size_t stack_size = 0;
    unsigned running = 0;
    bool progress = false;
};

block current;
std::minstd_rand orders(1);

bool only_counts;
uint64_t launches;

/* The sanitizer must hear of every switch, before it and after it. */
#ifdef __SANITIZE_ADDRESS__
void before_switch(void **keep, const void *stack, size_t bytes)
{
    __sanitizer_start_switch_fiber(keep, stack, bytes);
}
void after_switch(void *kept, const void **from, size_t *bytes)
{
    __sanitizer_finish_switch_fiber(kept, from, bytes);
}
#else
void before_switch(void **, const void *, size_t)
{
}
void after_switch(void *, const void **, size_t *)
{
}
#endif

void leave_to_scheduler(fiber &from)
{
    before_switch(&from.sanitizer_stack, current.stack, current.stack_size);
    if (__builtin_setjmp(from.place) == 0)
        jump_to(current.scheduler);
    after_switch(from.sanitizer_stack, nullptr, nullptr);
}

void fiber_main()
{
    after_switch(nullptr, &current.stack, &current.stack_size);
    for (;;) {
        fiber &self = *current.fibers[current.running];
        (*current.thread)();
        if (!self.copies.empty()) {
            fprintf(stderr, "a thread ends before its copies\n");
            abort();
        }
        self.groups = 0;
        self.done = true;
        current.progress = true;
        leave_to_scheduler(self);
    }
}

void enter(fiber &to)
{
    if (to.started)
        jump_to(to.place);
    to.started = true;
    getcontext(&to.start);
    to.start.uc_stack.ss_sp = to.stack.get();
    to.start.uc_stack.ss_size = stack_bytes;
    makecontext(&to.start, fiber_main, 0);
    setcontext(&to.start);
}

void resume(unsigned index)
{
    fiber &to = *current.fibers[index];
    current.running = index;
    threadIdx = dim3(index, 0, 0);
    before_switch(&current.sanitizer_stack, to.stack.get(), stack_bytes);
    if (__builtin_setjmp(current.scheduler) == 0)
        enter(to);
    after_switch(current.sanitizer_stack, nullptr, nullptr);
}

void meet(meeting &where)
{
    uint64_t generation = where.generation;
    current.progress = true;
    if (++where.arrived == where.members) {
        where.arrived = 0;
        where.generation++;
        return;
    }
    while (where.generation == generation)
        leave_to_scheduler(*current.fibers[current.running]);
}

void prepare_block(unsigned threads, size_t shared_bytes)
{
    while (current.fibers.size() < threads)
        current.fibers.push_back(std::make_unique<fiber>());
    for (unsigned i = 0; i < threads; i++)
        current.fibers[i]->done = false;
    current.barrier = meeting{threads};
    current.warps.assign((threads + lanes - 1) / lanes, warp());
    for (size_t w = 0; w < current.warps.size(); w++)
        current.warps[w].join.members = (unsigned)std::min<size_t>(lanes, threads - w * lanes);
    current.shared.reset(shared_bytes ? new unsigned char[shared_bytes] : nullptr);
    if (shared_bytes)
        memset(current.shared.get(), 0xff, shared_bytes);
}

/* Lets each thread of a warp go on once. Returns the number of threads that have not ended. */
size_t visit(const std::vector<unsigned> &threads)
{
    size_t left = 0;
    for (unsigned index : threads) {
        if (current.fibers[index]->done)
            continue;
        resume(index);
        left += !current.fibers[index]->done;
    }
    return left;
}

std::vector<std::vector<unsigned>> warps_of(unsigned threads)
{
    std::vector<std::vector<unsigned>> warps((threads + lanes - 1) / lanes);
    for (unsigned index = 0; index < threads; index++)
        warps[index / lanes].push_back(index);
    for (std::vector<unsigned> &warp : warps)
        std::shuffle(warp.begin(), warp.end(), orders);
    std::shuffle(warps.begin(), warps.end(), orders);
    return warps;
}

/* Runs the warps by turns, or each as far as it can go before the others move, by chance. */
void run_block(unsigned threads)
{
    const std::vector<std::vector<unsigned>> warps = warps_of(threads);
    bool far = orders() % 2;
    for (size_t left = threads; left > 0;) {
        bool any = false;
        left = 0;
        for (const std::vector<unsigned> &warp : warps) {
            size_t of_warp = 0;
            do {
                current.progress = false;
                of_warp = visit(warp);
                any |= current.progress;
            } while (far && current.progress && of_warp > 0);
            left += of_warp;
        }
        if (!any && left > 0) {
            fprintf(stderr, "block (%u, %u): %zu threads wait for others that never come\n",
                    blockIdx.x, blockIdx.y, left);
            abort();
        }
    }
}

void make(const copy &c)
{
    if (c.from)
        memcpy(c.to, c.from, c.bytes);
    else
        memset(c.to, 0, c.bytes);
}

void start(void *shared, const void *from, bool there, size_t bytes)
{
    fiber &self = *current.fibers[current.running];
    copy c = {shared, there ? from : nullptr, bytes, self.groups};
    if ((uintptr_t)shared % bytes != 0 || (uintptr_t)from % bytes != 0)
        abort();
    if (orders() % 2)
        make(c);
    else
        self.copies.push_back(c);
}

} // namespace

void copy_start(void *shared, const void *from, bool there)
{
    start(shared, from, there, 16);
}

void copy_start_word(void *shared, const void *from, bool there)
{
    start(shared, from, there, 4);
}

void copy_group()
{
    current.fibers[current.running]->groups++;
}

void emulation_copy_wait(unsigned left)
{
    fiber &self = *current.fibers[current.running];
    std::vector<copy> later;
    for (const copy &c : self.copies)
        if (c.group + left < self.groups)
            make(c);
        else
            later.push_back(c);
    self.copies = later;
}

unsigned char *shared_memory()
{
    return current.shared.get();
}

void __syncthreads()
{
    meet(current.barrier);
}

void __syncwarp(uint32_t)
{
    meet(current.warps[current.running / lanes].join);
}

void __threadfence()
{
}

const void *emulation_exchange(const void *mine, size_t bytes)
{
    warp &w = current.warps[current.running / lanes];
    unsigned char *exchanged = w.exchanged[w.join.generation % 2];
    if (bytes > exchange_bytes)
        abort();
    memcpy(exchanged + current.running % lanes * bytes, mine, bytes);
    meet(w.join);
    return exchanged;
}

void emulation_run(dim3 blocks, unsigned threads, size_t shared_bytes,
                   const std::function<void()> &thread)
{
    if (threads > threads_limit || shared_bytes > shared_limit || blocks.y > grid_y_limit ||
        blocks.x == 0 || blocks.y == 0 || threads == 0) {
        fprintf(stderr, "no GPU runs %u x %u blocks of %u threads with %zu bytes\n", blocks.x,
                blocks.y, threads, shared_bytes);
        abort();
    }
    launches++;
    if (only_counts)
        return;
    std::vector<unsigned> places(blocks.x * blocks.y);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), orders);
    current.thread = &thread;
    blockDim = dim3(threads);
    gridDim = blocks;
    for (unsigned place : places) {
        blockIdx = dim3(place % blocks.x, place / blocks.x);
        prepare_block(threads, shared_bytes);
        run_block(threads);
    }
}

void emulation_clear(void *memory, size_t bytes)
{
    if (!only_counts)
        memset(memory, 0, bytes);
}

void counted_begin(void)
{
    only_counts = true;
    launches = 0;
}

bool counted_only(void)
{
    return only_counts;
}

uint64_t counted_launches(void)
{
    return launches;
}
