/* The keys "node" and "network" of a platform's file, and "nvme" (disk.c). For platforms/ alone. */
#ifndef PSTAR_PLATFORMS_NODE_H
#define PSTAR_PLATFORMS_NODE_H

#include "platforms/platform.h"

#include <jansson.h>

/* Read the key of `root`, if it is there. Errors are PLATFORM_ERROR_INVALID. What was read is freed
 * with node_clear, level_clear and disk_clear, after errors too. */
bool disk_read(const json_t *root, const char *path, struct platform_disk *disk, GError **error);
bool node_read(const json_t *root, const char *path, struct platform_node *node, GError **error);
bool network_read(const json_t *root, const char *path, struct platform_level *network,
                  GError **error);

/* Return a new object, as the file has it. */
json_t *node_to_json(const struct platform_node *node);
json_t *disk_to_json(const struct platform_disk *disk);
json_t *level_to_json(const struct platform_level *level);

void disk_clear(struct platform_disk *disk);
void level_clear(struct platform_level *level);
void node_clear(struct platform_node *node);

#endif
