# Debian packages: `cpack --config build/CPackConfig.cmake` in an empty folder writes them there. pstar has
# the programs and their data, libpstar-dev the libraries and pstar.h, and pstar-cuda, if it is built, the
# CUDA device. What the programs need is found by dpkg-shlibdeps. CUDA's libraries come from elsewhere.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The authors of pstar <pstar@packages.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_COMPONENTS_ALL programs development)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME pstar)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "gnuplot-nox, fonts-dejavu-core, python3")
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
"pstar says how many bytes a training step of a large model moves between
host and device, how long it takes, and how far from the optimum a schedule
is, with a proof. It trains with the best schedule, or writes its settings
for DeepSpeed and FSDP.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpstar-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libglib2.0-dev, libjansson-dev, libsqlite3-dev, libgsl-dev, libglpk-dev, zlib1g-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"This package has the libraries and the header pstar.h, with which programs
read traces of training steps, replay them, plan and execute plans, and
with which eviction policies are written.")

if(TARGET pstar_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME pstar-cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "pstar (= ${PROJECT_VERSION})")
  set(CPACK_COMPONENT_CUDA_DESCRIPTION
"With this package pstar-run trains with --device cuda. It needs the
libraries of the CUDA toolkit with which pstar was built. Debian's packages
do not have them.")
endif()
if(TARGET pstar_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME pstar-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "pstar (= ${PROJECT_VERSION})")
  set(CPACK_COMPONENT_MPI_DESCRIPTION
"With this package several processes of pstar-run train one model under
mpirun or srun. It needs the MPI with which pstar was built.")
endif()
include(CPack)
