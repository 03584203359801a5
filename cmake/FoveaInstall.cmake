# cmake --install: a relocatable tree with the program (bin/fovea and its library), the operator library and a CMake
# package. The package's one target, fovea::fovea, is the shared library (operators, specs, kernels) with its headers;
# the package finds libtorch again.
if(NOT FOVEA_TORCH OR FOVEA_LIBRARY_ONLY OR FOVEA_PACKAGE)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fovea)

install(TARGETS fovea RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS fovea_ops fovea_program LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET fovea_mpi)
  install(TARGETS fovea_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set_target_properties(fovea_mpi PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
# libtorch stays where it was found. INSTALL_RPATH_USE_LINK_PATH would leave out a libtorch inside the clone's .venv.
get_filename_component(torch_prefix ${Torch_DIR}/../../.. ABSOLUTE)
set_target_properties(fovea PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set_target_properties(fovea_program PROPERTIES INSTALL_RPATH "$ORIGIN;${torch_prefix}/lib")
foreach(folder base spec kernels ops)
  install(DIRECTORY src/fovea/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fovea
          FILES_MATCHING PATTERN "*.h" PATTERN "*-inl.h" EXCLUDE PATTERN testing EXCLUDE PATTERN "*_test.h" EXCLUDE
          PATTERN "test_*.h" EXCLUDE)
endforeach()
configure_package_config_file(cmake/fovea-config.cmake.in ${PROJECT_BINARY_DIR}/fovea-config.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fovea-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fovea-config.cmake ${PROJECT_BINARY_DIR}/fovea-config-version.cmake
              cmake/FoveaLibtorch.cmake DESTINATION ${package_dir})
