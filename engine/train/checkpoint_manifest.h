/* The checksums of a checkpoint's files: checkpoint.json, or one such file of each process that
 * wrote a part, checkpoint-00002-of-00003.json. Each lists the files of its writer with their
 * lengths and CRC-32 (zlib's), those of weights and moments tensor by tensor, and its own. */
#ifndef PSTAR_ENGINE_TRAIN_CHECKPOINT_MANIFEST_H
#define PSTAR_ENGINE_TRAIN_CHECKPOINT_MANIFEST_H

#include "engine/weights.h"

/* Writes the manifest of one writer, the last of its files. `writer.checksums` has those of its
 * files of tensors. The first writer adds the folder's texts, which it has written. */
bool checkpoint_manifest_write(const char *folder, struct weights_writer writer, GError **error);

/* Returns whether the folder has one. Those of earlier versions have none. */
bool checkpoint_manifest_exists(const char *folder);

/* Fails (CHECKPOINT_ERROR_INVALID) if a file is not as it was written, naming it, and the tensor
 * whose bytes are others. Reads files of tensors only with `tensors`: all of their bytes, once. */
bool checkpoint_manifest_check(const char *folder, bool tensors, GError **error);

#endif
