set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden) # or calls within a library go as if they could be replaced
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
option(PSTAR_TESTS "Build the tests" ON)
option(PSTAR_SANITIZE "Build with address and undefined-behaviour sanitizers" OFF)

# No -ffast-math and no contraction: the same source line must give the same bits in every build,
# on the host and on the device.
add_compile_options(
  $<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra> $<$<COMPILE_LANGUAGE:C>:-Werror>
  $<$<COMPILE_LANGUAGE:C>:-Wshadow> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wpointer-arith>
  $<$<COMPILE_LANGUAGE:C>:-Wvla> $<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
add_compile_definitions(_GNU_SOURCE)

# GLib is used as it was in the oldest release that will do: nothing younger, and what later ones
# deprecate is no warning.
add_compile_definitions(GLIB_VERSION_MIN_REQUIRED=GLIB_VERSION_2_72 GLIB_VERSION_MAX_ALLOWED=GLIB_VERSION_2_72)

if(PSTAR_SANITIZE)
  # nvcc's host code is not: it knows none of these.
  add_compile_options(
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=address,undefined>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # GCC 13.2's fake stack aligns to 32 bytes what AVX-512 needs at 64.
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:--param=asan-use-after-return=0>)
  endif()
  add_link_options(-fsanitize=address,undefined)
endif()

# Installed programs find libraries that lie beside them (tools/bundle), and those find each other:
# what the old tag says holds for the libraries' own needs, what the new one says does not.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)
