/* libnvidia-ml.so.1 for the fake device. */
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **handle);
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *percent);
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *bytes);
int nvmlDeviceGetFieldValues(void *handle, int count, void *fields);

static int device;

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **handle)
{
    *handle = &device;
    return strcmp(bus, "0000:65:00.0") == 0 ? 0 : 6; /* not found */
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *percent)
{
    percent[0] = 42;
    percent[1] = 17;
    return handle == &device ? 0 : 2;
}

int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *bytes)
{
    bytes[0] = 8ULL << 30;
    bytes[1] = 7ULL << 30;
    bytes[2] = 1ULL << 30;
    return handle == &device ? 0 : 2;
}

/* Sent bytes have 4 bytes, received ones 8. Other fields are unknown. */
int nvmlDeviceGetFieldValues(void *handle, int count, void *fields)
{
    struct field {
        unsigned id, scope;
        long long time, latency;
        unsigned type;
        int result;
        unsigned long long value;
    } *field = fields;
    for (int i = 0; i < count; i++) {
        field[i].type = field[i].id == 197 ? 1 : 3;
        field[i].result = field[i].id == 197 || field[i].id == 198 ? 0 : 3;
        field[i].value = field[i].id == 197 ? 0xffffffff00001000 : 1ULL << 40;
    }
    return handle == &device ? 0 : 2;
}
