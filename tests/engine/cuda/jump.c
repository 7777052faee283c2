#include "jump.h"

__attribute__((no_sanitize("address"))) void jump_to(jump_place place)
{
    __builtin_longjmp(place, 1);
}
