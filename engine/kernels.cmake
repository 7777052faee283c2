# The loops of cpu/simd/ are compiled once for each vector extension, and chosen when they run. The two
# flags change no result: they allow square roots and comparisons in vector registers.
set(simd_sources adamw attention elements rows table)
list(TRANSFORM simd_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/cpu/simd/)
list(TRANSFORM simd_sources APPEND .c)

function(add_simd name)
  add_library(simd_${name} OBJECT ${simd_sources})
  target_include_directories(simd_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(simd_${name} PRIVATE PkgConfig::GLIB)
  target_compile_definitions(simd_${name} PRIVATE SIMD_NAME=${name})
  target_compile_options(simd_${name} PRIVATE -O3 -fno-math-errno -fno-trapping-math ${ARGN})
endfunction()

add_simd(generic)
set(simd_objects $<TARGET_OBJECTS:simd_generic>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # Every such processor has NEON; the tests compare it with scalar code.
  target_compile_options(simd_generic PRIVATE -march=armv8-a+nosimd)
  add_simd(neon)
  list(APPEND simd_objects $<TARGET_OBJECTS:simd_neon>)
  set(simd_definition PSTAR_ARM_SIMD)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_simd(avx2 -march=x86-64-v3)
  add_simd(avx512 -march=x86-64-v4 -mprefer-vector-width=512)
  list(APPEND simd_objects $<TARGET_OBJECTS:simd_avx2> $<TARGET_OBJECTS:simd_avx512>)
  set(simd_definition PSTAR_X86_SIMD)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # AdamW waits for memory, and the processor's own fetching leaves some of the rate unused
    # (bench_optimizer), so every array is fetched about 100 elements ahead.
    set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/cpu/simd/adamw.c PROPERTIES COMPILE_OPTIONS
      "-fprefetch-loop-arrays;--param=simultaneous-prefetches=100;--param=prefetch-latency=400")
  endif()
endif()

pstar_library(engine_kernels
  random.c rotary.c
  cpu/context.c cpu/experts.c cpu/kernels.c cpu/matmul.c
  ${simd_objects}
  LINK pstar_engine_host pstar_traces DNNL::dnnl OpenMP::OpenMP_C)
target_compile_definitions(pstar_engine_kernels PRIVATE ${simd_definition})

foreach(name kernels optimizer)
  add_executable(bench_${name} ${PROJECT_SOURCE_DIR}/bench/${name}.c)
  target_link_libraries(bench_${name} PRIVATE pstar_engine_kernels OpenMP::OpenMP_C m)
endforeach()
