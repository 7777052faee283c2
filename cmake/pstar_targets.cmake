# pstar_library(FOLDER SOURCES... [LINK targets...]): the static library of one folder, pstar_FOLDER.
# Includes are written from the root: "chunks/plan.h".
function(pstar_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(pstar_${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(pstar_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(pstar_${name} PUBLIC PkgConfig::GLIB ${ARG_LINK} PRIVATE m)
endfunction()

# pstar_program(NAME MAIN.c LINK targets...): an installed program in the root of the build folder, with the
# manual page that it prints about itself.
function(pstar_program name main)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${main})
  target_compile_definitions(${name} PRIVATE PSTAR_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PRIVATE ${ARG_LINK} m)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_property(GLOBAL APPEND PROPERTY PSTAR_PROGRAMS ${name})

  set(page ${PROJECT_BINARY_DIR}/man/${name}.1)
  add_custom_command(OUTPUT ${page} DEPENDS ${name} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
    COMMAND ${name} --man-page > ${page})
  add_custom_target(${name}-page ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()

# pstar_whole(PROGRAM FOLDERS...): the program and the libraries of these folders are optimised together,
# if the compiler can. Other programs that link the libraries use their ordinary code.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  add_link_options($<$<NOT:$<BOOL:$<TARGET_PROPERTY:PSTAR_WHOLE>>>:-fno-lto>)
endif()
function(pstar_whole program)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU" OR PSTAR_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    return()
  endif()
  foreach(folder ${ARGN})
    target_compile_options(pstar_${folder} PRIVATE -flto=auto -ffat-lto-objects)
  endforeach()
  target_compile_options(${program} PRIVATE -flto=auto)
  target_link_options(${program} PRIVATE -flto=auto)
  set_target_properties(${program} PROPERTIES PSTAR_WHOLE ON)
endfunction()

# pstar_test(NAME SOURCES... LINK targets...): a program that returns 0, 1, or 77 if it cannot run. CTest
# knows it under the same name.
function(pstar_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(test_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_compile_definitions(test_${name} PRIVATE
    TEST_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}" PROGRAM_DIR="${PROJECT_BINARY_DIR}"
    PROJECT_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(test_${name} PRIVATE ${ARG_LINK} PkgConfig::GLIB m)
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endfunction()

# pstar_launches(TESTS...): tests that start mpirun. Open MPI removes the folder in which launchers keep their
# sessions when the last one ends, and a launcher that begins just then fails. So every test has such a
# folder for itself, and the tests may run at once. Ranks wait for each other, so that on busy processors such
# tests take ten times as long as alone.
function(pstar_launches)
  foreach(test ${ARGN})
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
      OMPI_MCA_orte_tmpdir_base=${CMAKE_CURRENT_BINARY_DIR}/mpirun/${test})
    set_tests_properties(${test} PROPERTIES TIMEOUT 1800)
  endforeach()
endfunction()

# pstar_long_tests(SECONDS TESTS...): tests that take about so long. CTest begins with the longest, so that none
# of them runs alone at the end.
function(pstar_long_tests seconds)
  foreach(test ${ARGN})
    if(TEST ${test})
      set_tests_properties(${test} PROPERTIES COST ${seconds})
    endif()
  endforeach()
endfunction()

# pstar_long_if_sanitized(TESTS...): tests of what the programs say, which would take most of the sanitizers' time.
# The code below has tests of its own, which are sanitized in ./check.
function(pstar_long_if_sanitized)
  foreach(test ${ARGN})
    if(PSTAR_SANITIZE AND TEST ${test})
      set_property(TEST ${test} APPEND PROPERTY LABELS long)
    endif()
  endforeach()
endfunction()

# pstar_long_unless_sanitized(TESTS...): tests of processes that end, of texts and of emulated kernels, where one
# build of ./check finds what the other one does.
function(pstar_long_unless_sanitized)
  foreach(test ${ARGN})
    if(NOT PSTAR_SANITIZE AND TEST ${test})
      set_property(TEST ${test} APPEND PROPERTY LABELS long)
    endif()
  endforeach()
endfunction()

# pstar_drawn_tests(TESTS...): tests of tests/drawn.h, which draw a few cases. TEST_slow, which takes all, is one
# of the long tests.
function(pstar_drawn_tests)
  foreach(test ${ARGN})
    if(TEST ${test})
      add_test(NAME ${test}_slow COMMAND test_${test} -m slow)
      get_test_property(${test} ENVIRONMENT environment)
      get_test_property(${test} LABELS labels)
      set_tests_properties(${test}_slow PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3600 LABELS long)
      if(labels)
        set_property(TEST ${test}_slow APPEND PROPERTY LABELS ${labels})
      endif()
      if(environment)
        set_tests_properties(${test}_slow PROPERTIES ENVIRONMENT "${environment}")
      endif()
    endif()
  endforeach()
endfunction()

# pstar_embed(FOLDER FILES...): embeds text files into the library of the folder as C strings. The file
# page.css becomes `extern const char page_css[]`.
function(pstar_embed name)
  foreach(file ${ARGN})
    string(MAKE_C_IDENTIFIER "${file}" symbol)
    set(out "${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c")
    add_custom_command(OUTPUT "${out}"
      COMMAND ${CMAKE_COMMAND} -D "FILE=${CMAKE_CURRENT_SOURCE_DIR}/${file}" -D SYMBOL=${symbol}
              -D "OUT=${out}" -P "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
      DEPENDS "${file}" "${PROJECT_SOURCE_DIR}/cmake/embed.cmake" VERBATIM)
    target_sources(pstar_${name} PRIVATE "${out}")
  endforeach()
endfunction()
