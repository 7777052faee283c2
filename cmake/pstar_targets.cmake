# pstar_library(FOLDER SOURCES... [LINK targets...]): the static library of one folder, pstar_FOLDER.
# Includes are written from the root: "chunks/plan.h".
function(pstar_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(pstar_${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(pstar_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(pstar_${name} PUBLIC PkgConfig::GLIB ${ARG_LINK} PRIVATE m)
endfunction()

# pstar_program(NAME MAIN.c LINK targets...): an installed program, built into the root of the build
# folder.
function(pstar_program name main)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${main})
  target_compile_definitions(${name} PRIVATE PSTAR_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PRIVATE ${ARG_LINK} m)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# pstar_test(NAME SOURCES... LINK targets...): a standalone program that returns 0, 1, or 77 where it
# cannot run; registered with CTest under the same name.
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
