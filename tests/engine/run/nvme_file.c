#include "nvme_file.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

int nvme_file_open(GPid process, const char *folder)
{
    g_autofree char *descriptors = g_strdup_printf("/proc/%d/fd", (int)process);
    g_autofree char *begin = g_strconcat(folder, "/#", NULL);
    g_autoptr(GDir) opened = g_dir_open(descriptors, 0, NULL);
    const char *name;
    int file = -1;
    while (opened && file < 0 && (name = g_dir_read_name(opened))) {
        g_autofree char *path = g_build_filename(descriptors, name, NULL);
        g_autofree char *target = g_file_read_link(path, NULL);
        if (target && g_str_has_prefix(target, begin))
            file = g_open(path, O_RDWR, 0);
    }
    return file;
}

bool nvme_file_damage(int file)
{
    char noise[1 << 14];
    memset(noise, 0x5a, sizeof noise);
    return pwrite(file, noise, sizeof noise, 0) == sizeof noise;
}
