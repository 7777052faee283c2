/* A library that tests preload into a program, so that calls of the system go wrong there.
 * PSTAR_FAULT (base/fault.h) says which:
 *
 *   heap:N    the N-th allocation of heap memory gets none, once the program can report that. Those
 *             of oneDNN do not count, which crashes where it gets no memory for code, nor those of
 *             OpenMP's library, which then ends the program itself
 *   write:N   the N-th call that needs room in a file system finds it full: writes to files,
 *             changes of their lengths, syncs, new files and folders, renames, links
 *
 * With + after N, all later ones fail, too, as on a disk that stays full. Calls are counted in each
 * process by itself.
 *
 * Writes are caught in the kernel (seccomp), so that those within C's, SQLite's, GLib's and zlib's
 * libraries are seen as well. The kernel sends SIGSYS instead of carrying out the call. The handler
 * fails it or makes it again with a mark in the sixth argument, which none of these calls has. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

struct rule {
    uint64_t first; /* 0: none */
    bool later;
    _Atomic uint64_t seen;
};

static struct rule heap, writes;

static bool strikes(struct rule *rule)
{
    if (!rule->first)
        return false;
    uint64_t event = atomic_fetch_add(&rule->seen, 1) + 1;
    return event == rule->first || (rule->later && event > rule->first);
}

static void read_rule(const char *text, const char *name, struct rule *rule)
{
    const char *at = text ? strstr(text, name) : NULL;
    if (!at || (at > text && at[-1] != ','))
        return;
    char *end;
    rule->first = strtoull(at + strlen(name), &end, 10);
    rule->later = *end == '+';
}

/* ---- heap ---- */

#ifndef NO_HEAP
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static bool begun; /* the program is ready to report that it gets no memory */

/* Where the code of oneDNN and of OpenMP's library lies, and that of C++'s library, which allocates
 * for the first. */
static struct {
    uintptr_t begin, end;
} exempt[3];
static size_t exempt_count;

static int note_exempt(struct dl_phdr_info *library, size_t bytes, void *data)
{
    (void)bytes, (void)data;
    bool counts = !strstr(library->dlpi_name, "libdnnl") &&
                  !strstr(library->dlpi_name, "libstdc++") &&
                  !strstr(library->dlpi_name, "libgomp");
    if (counts || exempt_count == sizeof exempt / sizeof *exempt)
        return 0;
    uintptr_t end = library->dlpi_addr;
    for (size_t i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        uintptr_t part_end = library->dlpi_addr + part->p_vaddr + part->p_memsz;
        if (part->p_type == PT_LOAD && part_end > end)
            end = part_end;
    }
    exempt[exempt_count].begin = library->dlpi_addr;
    exempt[exempt_count++].end = end;
    return 0;
}

static bool is_exempt(const void *caller)
{
    bool found = false;
    for (size_t i = 0; i < exempt_count; i++)
        found |= (uintptr_t)caller >= exempt[i].begin && (uintptr_t)caller < exempt[i].end;
    return found;
}

/* Programs call this soon after they have begun. What they allocate before is not counted. */
char *setlocale(int category, const char *locale)
{
    char *(*real)(int, const char *);
    void *found = dlsym(RTLD_NEXT, "setlocale");
    memcpy(&real, &found, sizeof real);
    char *set = real(category, locale);
    if (!begun)
        dl_iterate_phdr(note_exempt, NULL);
    begun = true;
    return set;
}

static bool is_refused(const void *caller)
{
    bool refused = begun && !is_exempt(caller) && strikes(&heap);
    if (refused)
        errno = ENOMEM;
    return refused;
}

void *malloc(size_t bytes)
{
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes)
{
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    *memory = is_refused(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}
#endif

/* ---- writes ---- */

#define MARK UINT64_C(0x70737461725f6661)

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

struct call {
    long number, argument[5];
};

static struct call call_of(const ucontext_t *context, int number)
{
#if defined(__x86_64__)
    const greg_t *g = context->uc_mcontext.gregs;
    return (struct call){number, {g[REG_RDI], g[REG_RSI], g[REG_RDX], g[REG_R10], g[REG_R8]}};
#else
    const unsigned long long *x = context->uc_mcontext.regs;
    return (struct call){number, {(long)x[0], (long)x[1], (long)x[2], (long)x[3], (long)x[4]}};
#endif
}

static void give(ucontext_t *context, long result)
{
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RAX] = result;
#else
    context->uc_mcontext.regs[0] = (unsigned long long)result;
#endif
}

/* Files in memory have no name, and take no room in a file system. */
static bool is_file(int descriptor)
{
    struct stat file;
    return fstat(descriptor, &file) == 0 && (S_ISREG(file.st_mode) || S_ISDIR(file.st_mode)) &&
           file.st_nlink > 0;
}

static bool needs_room(const struct call *call)
{
    switch (call->number) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_ftruncate:
    case SYS_fallocate:
    case SYS_fsync:
    case SYS_fdatasync:
        return is_file((int)call->argument[0]);
    case SYS_openat: {
        const char *path = (const char *)call->argument[1];
        return strncmp(path, "/dev/", 5) != 0 &&
               faccessat((int)call->argument[0], path, F_OK, 0) != 0;
    }
    default:
        return true;
    }
}

static void catch_call(int number, siginfo_t *info, void *data)
{
    ucontext_t *context = data;
    struct call call = call_of(context, info->si_syscall);
    int before = errno;
    long result;
    (void)number;
    if (needs_room(&call) && strikes(&writes)) {
        result = -ENOSPC;
    } else {
        const long *a = call.argument;
        result = syscall(call.number, a[0], a[1], a[2], a[3], a[4], MARK);
        if (result == -1)
            result = -errno;
    }
    give(context, result);
    errno = before;
}

#define LOAD(field)     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define TRAP            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)
#define ALLOW           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define SKIP_UNLESS(v)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), 0, 1)
#define TRAP_CALL(name) SKIP_UNLESS(SYS_##name), TRAP

static bool install_filter(void)
{
    struct sock_filter filter[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        ALLOW,
        /* Marked calls are the handler's own. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)MARK, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5]) + 4),
        SKIP_UNLESS((uint32_t)(MARK >> 32)),
        ALLOW,
        LOAD(nr),
        TRAP_CALL(write),
        TRAP_CALL(pwrite64),
        TRAP_CALL(writev),
        TRAP_CALL(pwritev),
        TRAP_CALL(ftruncate),
        TRAP_CALL(fallocate),
        TRAP_CALL(fsync),
        TRAP_CALL(fdatasync),
        TRAP_CALL(mkdirat),
        TRAP_CALL(renameat2),
        TRAP_CALL(linkat),
#ifdef SYS_rename
        TRAP_CALL(rename),
        TRAP_CALL(mkdir),
        TRAP_CALL(link),
#endif
        TRAP_CALL(renameat),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
        ALLOW,
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1),
        TRAP,
        ALLOW,
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct sigaction action = {.sa_sigaction = catch_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#else

static bool install_filter(void)
{
    return false;
}

#endif

/* A program in which writes cannot be caught ends with the status that CTest calls "skipped". */
__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("PSTAR_FAULT");
    read_rule(text, "write:", &writes);
    if (writes.first && !install_filter())
        _exit(77);
    read_rule(text, "heap:", &heap);
}
