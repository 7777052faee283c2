#include "chunks/certificate.h"

#include "chunks/plan.h"

#include <math.h>
#include <string.h>

#define SEAL_KEY "\"seal\":\""

double certificate_gap(uint64_t achieved, uint64_t bound)
{
    if (achieved <= bound)
        return 0;
    return bound ? (double)(achieved - bound) / (double)bound : INFINITY;
}

void certificate_alternatives_free(struct certificate_alternative *alternatives, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        run_choices_free(alternatives[i].choices);
    g_free(alternatives);
}

const char *certificate_outcome_name(enum certificate_outcome outcome)
{
    static const char *const names[] = {[CERTIFICATE_SEARCHED] = "searched",
                                        [CERTIFICATE_BOUNDED] = "bounded",
                                        [CERTIFICATE_DOES_NOT_FIT] = "does not fit"};
    return names[outcome];
}

void certificate_free(struct certificate *certificate)
{
    if (!certificate)
        return;
    g_free(certificate->trace_sha256);
    g_free(certificate->platform);
    g_free(certificate->link);
    g_free(certificate->traffic.prices);
    g_free(certificate->time.windows);
    certificate_alternatives_free(certificate->alternatives, certificate->alternative_count);
    g_free(certificate);
}

/* The digits of the last seal in the text, which is the plan's own: it closes the file. */
static char *find_digits(char *text, size_t length)
{
    char *key = g_strrstr_len(text, (gssize)length, SEAL_KEY);
    if (!key || (size_t)(key - text) + strlen(SEAL_KEY) + CERTIFICATE_SEAL_DIGITS > length)
        return NULL;
    return key + strlen(SEAL_KEY);
}

void certificate_seal(char *text)
{
    char *digits = find_digits(text, strlen(text));
    g_assert(digits);
    g_autofree char *seal = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
    memcpy(digits, seal, CERTIFICATE_SEAL_DIGITS);
}

static bool seal_fits(char *text, size_t length)
{
    char stated[CERTIFICATE_SEAL_DIGITS], *digits = find_digits(text, length);
    if (!digits)
        return false;
    memcpy(stated, digits, CERTIFICATE_SEAL_DIGITS);
    memset(digits, '0', CERTIFICATE_SEAL_DIGITS);
    g_autofree char *seal = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text,
                                                        length);
    return memcmp(stated, seal, CERTIFICATE_SEAL_DIGITS) == 0;
}

bool certificate_check_seal(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    gsize length;

    if (!g_file_get_contents(path, &text, &length, error))
        return false;
    if (seal_fits(text, length))
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "%s: not as it was written: its seal does not fit", path);
    return false;
}

char *certificate_hash_file(const char *path, GError **error)
{
    g_autoptr(GMappedFile) file = g_mapped_file_new(path, FALSE, error);
    if (!file)
        return NULL;
    return g_compute_checksum_for_data(G_CHECKSUM_SHA256,
                                       (const guchar *)g_mapped_file_get_contents(file),
                                       g_mapped_file_get_length(file));
}
