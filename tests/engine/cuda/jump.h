/* Jumps to places that __builtin_setjmp remembered. At a jump of the C library the address
 * sanitizer makes a system call and clears what it knows of the stack; it does not see these. */
#ifndef PSTAR_TESTS_ENGINE_CUDA_JUMP_H
#define PSTAR_TESTS_ENGINE_CUDA_JUMP_H

typedef void *jump_place[5];

#ifdef __cplusplus
extern "C" {
#endif

/* Does not return. Compilers must not know that, nor which registers keep their values. */
void jump_to(jump_place place);

#ifdef __cplusplus
}
#endif

#endif
