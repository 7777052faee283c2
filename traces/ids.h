/* Numbers of chunks, moments and tensors, and the two values that stand for "there is none".
 *
 * Every folder may include this header: it holds no code and includes nothing of the project. */
#ifndef PSTAR_TRACES_IDS_H
#define PSTAR_TRACES_IDS_H

#include <stdint.h>

typedef uint32_t chunk_id;  /* index into a layout's chunks */
typedef uint32_t moment_id; /* index into a trace's operators: the moment when one starts */
typedef uint32_t tensor_id; /* index into a trace's tensors */

#define NO_INDEX   UINT32_MAX /* stands for no chunk, no moment, no tensor, no index of any kind */
#define NO_ADDRESS UINT64_MAX /* stands for a place in memory where nothing lies */

#endif
