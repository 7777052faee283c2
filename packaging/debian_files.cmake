# Finishes the files of the Debian packages before they are packed: CPack runs this.
file(GLOB packages ${CPACK_TEMPORARY_DIRECTORY}/*/usr)
foreach(package ${packages})
  file(GLOB pages ${package}/share/man/man1/*.1)
  if(pages)
    execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
  endif()
  file(GLOB libraries ${package}/lib/pstar/*.a)
  if(libraries) # what other versions of the compiler cannot read goes too
    execute_process(COMMAND strip --strip-debug --enable-deterministic-archives
      --remove-section=.gnu.lto_* --remove-section=.gnu.debuglto_* -N __gnu_lto_slim -N __gnu_lto_v1 ${libraries}
      COMMAND_ERROR_IS_FATAL ANY)
  endif()
  if(EXISTS ${package}/share/zsh/site-functions) # Debian's zsh looks there in /usr/local only
    file(RENAME ${package}/share/zsh/site-functions ${package}/share/zsh/vendor-completions)
  endif()
  # Every package has its copyright beside its name.
  get_filename_component(component ${package} DIRECTORY)
  get_filename_component(component ${component} NAME)
  string(TOUPPER ${component} COMPONENT)
  set(name ${CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright ${package}/share/doc/${name}/copyright COPYONLY)
endforeach()
