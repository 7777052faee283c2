#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_is_smart(FILE *stream)
{
    const char *kind = getenv("TERM");
    return kind && *kind && strcmp(kind, "dumb") != 0 && isatty(fileno(stream));
}

static bool takes_colours(FILE *stream)
{
    const char *refused = getenv("NO_COLOR");
    return (!refused || !*refused) && terminal_is_smart(stream);
}

const char *terminal_begin(FILE *stream, enum terminal_style style)
{
    static const char *const sequences[] = {[TERMINAL_ERROR] = "\033[1;31m",
                                            [TERMINAL_WARNING] = "\033[1;33m",
                                            [TERMINAL_NOTE] = "\033[1m",
                                            [TERMINAL_BEST] = "\033[1;32m"};
    return takes_colours(stream) ? sequences[style] : "";
}

const char *terminal_end(FILE *stream)
{
    return takes_colours(stream) ? "\033[0m" : "";
}
