/* Which allocator PyTorch takes in the command. */
#ifndef PSTAR_COLLECT_ALLOCATOR_H
#define PSTAR_COLLECT_ALLOCATOR_H

/* Asks PyTorch, by this process's environment, for the allocator that gets each tensor from the
 * driver (cudaMallocAsync), where a profiler sees it; what else the user has configured stays. Says
 * so on stderr. Not safe once there are threads. */
void allocator_show_tensors(void);

#endif
