# pstar.pc offers what describes and decides; pstar-sim.pc adds what links GSL (GPL), so that a
# program that only reads traces and plans stays free of it.
set(PSTAR_FREE_LIBRARIES strategies chunks policies models platforms traces) # users before used
set(PSTAR_GSL_LIBRARIES planner sim)

set(PSTAR_LIBS)
set(PSTAR_SIM_LIBS)
foreach(folder ${PSTAR_FREE_LIBRARIES} ${PSTAR_GSL_LIBRARIES})
  if(TARGET pstar_${folder})
    install(TARGETS pstar_${folder} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/pstar)
    install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pstar
      FILES_MATCHING PATTERN "*.h")
    if(folder IN_LIST PSTAR_GSL_LIBRARIES)
      string(APPEND PSTAR_SIM_LIBS " -lpstar_${folder}")
    else()
      string(APPEND PSTAR_LIBS " -lpstar_${folder}")
    endif()
  endif()
endforeach()

# Found from where the file lies, so that `cmake --install --prefix` and moved folders work.
file(RELATIVE_PATH PSTAR_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(package pstar pstar-sim)
  configure_file(cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

install(FILES README.md LICENSE TYPE DOC)
install(DIRECTORY docs examples TYPE DOC FILES_MATCHING PATTERN "*.c" PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
