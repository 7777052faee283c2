# tools/dependencies installs all of these on Debian and Ubuntu.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
pkg_check_modules(GLIB REQUIRED IMPORTED_TARGET glib-2.0>=2.72)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(GSL REQUIRED IMPORTED_TARGET gsl)
find_path(GLPK_INCLUDE_DIR glpk.h REQUIRED)
find_library(GLPK_LIBRARY glpk REQUIRED)
find_package(dnnl CONFIG REQUIRED)
find_program(GNUPLOT gnuplot)

# NVTX has headers only. CUDA includes them; without CUDA, tools/dependencies unpacks them into the build
# folder, where the other presets also look.
find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
  HINTS ${CMAKE_BINARY_DIR}/nvtx/nvidia/nvtx/include ${CMAKE_SOURCE_DIR}/build/nvtx/nvidia/nvtx/include
  PATHS /usr/local/cuda/include ENV CUDA_HOME PATH_SUFFIXES include)
if(NOT NVTX_INCLUDE_DIR)
  message(FATAL_ERROR "No nvtx3/nvToolsExt.h: run tools/dependencies build ${CMAKE_BINARY_DIR}")
endif()
add_library(nvtx INTERFACE)
target_include_directories(nvtx SYSTEM INTERFACE ${NVTX_INCLUDE_DIR})
target_link_libraries(nvtx INTERFACE ${CMAKE_DL_LIBS})
