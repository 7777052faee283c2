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
option(PSTAR_SANITIZE "Build with sanitizers" OFF)
set(PSTAR_SANITIZERS "address,undefined" CACHE STRING "Which sanitizers: address,undefined or thread")
option(PSTAR_FUZZ "Build the fuzzers of tests/fuzz, with clang's libFuzzer" OFF)

# No -ffast-math and no contraction: a source line must give the same bits in every build, on the host
# and on the device.
add_compile_options(
  $<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra> $<$<COMPILE_LANGUAGE:C>:-Werror>
  $<$<COMPILE_LANGUAGE:C>:-Wshadow> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wpointer-arith>
  $<$<COMPILE_LANGUAGE:C>:-Wvla> $<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
add_compile_definitions(_GNU_SOURCE)

# Only functions of the oldest supported GLib are used. Later deprecations give no warnings.
add_compile_definitions(GLIB_VERSION_MIN_REQUIRED=GLIB_VERSION_2_72 GLIB_VERSION_MAX_ALLOWED=GLIB_VERSION_2_72)

if(PSTAR_SANITIZE)
  # Not for nvcc, which does not know these options.
  add_compile_options(
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${PSTAR_SANITIZERS}>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND PSTAR_SANITIZERS MATCHES "address")
    # GCC 13.2's fake stack aligns to 32 bytes, but AVX-512 needs 64.
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:--param=asan-use-after-return=0>)
  endif()
  add_link_options(-fsanitize=${PSTAR_SANITIZERS})
endif()

# libFuzzer's coverage of everything that a fuzzer links. tests/fuzz/CMakeLists.txt links libFuzzer itself.
if(PSTAR_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
  # With coverage clang does not vectorise loops, and would say so.
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Wno-pass-failed>)
endif()

# Installed programs find the libraries beside them (tools/bundle), and these find each other. That needs
# the old tag RPATH: RUNPATH does not apply to the dependencies of libraries.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)
