# One header, and two packages. pstar-core reads, lays out, checks and executes; pstar adds the
# simulator and the planner, which link GSL and GLPK (GPL), so that a program that links CUDA can do
# without them.
set(PSTAR_CORE_LIBRARIES api_core strategies chunks policies models platforms traces base) # users first
set(PSTAR_GPL_LIBRARIES api planner sim)

set(PSTAR_CORE_LIBS)
set(PSTAR_LIBS)
foreach(folder ${PSTAR_GPL_LIBRARIES} ${PSTAR_CORE_LIBRARIES})
  install(TARGETS pstar_${folder} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/pstar COMPONENT development)
  # What pstar_whole adds for our own programs would make every link of a user's program optimise anew.
  if(CMAKE_OBJCOPY)
    set(archive \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pstar/libpstar_${folder}.a)
    install(CODE "execute_process(COMMAND ${CMAKE_OBJCOPY} -R .gnu.lto_* -R .gnu.debuglto_* \"${archive}\" COMMAND_ERROR_IS_FATAL ANY)"
      COMPONENT development)
  endif()
  if(folder IN_LIST PSTAR_GPL_LIBRARIES)
    string(APPEND PSTAR_LIBS " -lpstar_${folder}")
  else()
    string(APPEND PSTAR_CORE_LIBS " -lpstar_${folder}")
  endif()
endforeach()
install(FILES include/pstar.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

# Paths are relative to the file, so that `cmake --install --prefix` and moved folders work.
file(RELATIVE_PATH PSTAR_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(package pstar pstar-core)
  configure_file(cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)
endforeach()

# A script, which needs Python where it is used. Its page is written by hand.
configure_file(tools/tokenize ${PROJECT_BINARY_DIR}/pstar-tokenize @ONLY)
install(PROGRAMS ${PROJECT_BINARY_DIR}/pstar-tokenize DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES tools/tokenize.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME pstar-tokenize.1)
set_property(GLOBAL APPEND PROPERTY PSTAR_PROGRAMS pstar-tokenize)

# Completion. bash and fish load the file that has the name of the command.
get_property(programs GLOBAL PROPERTY PSTAR_PROGRAMS)
list(JOIN programs " " PSTAR_PROGRAMS)
foreach(shell bash zsh fish)
  configure_file(cli/completion/pstar.${shell}.in ${PROJECT_BINARY_DIR}/completion/pstar.${shell} @ONLY)
endforeach()
foreach(program ${programs})
  install(FILES ${PROJECT_BINARY_DIR}/completion/pstar.bash RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${PROJECT_BINARY_DIR}/completion/pstar.fish RENAME ${program}.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/completion/pstar.zsh RENAME _pstar
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

install(FILES README.md LICENSE TYPE DOC)
install(DIRECTORY docs examples TYPE DOC FILES_MATCHING PATTERN "*.c" PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
