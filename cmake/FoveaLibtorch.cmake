# libtorch from its folders alone, for the build and for the installed package: the TorchConfig.cmake of a CUDA build,
# which is what pip's own index has, refuses to load without the CUDA toolkit, and neither compiling nor running needs it.

# Looks for Torch_DIR, the folder of TorchConfig.cmake, unless it is given: in CMAKE_PREFIX_PATH, then in python's torch.
# Leaves Torch_DIR-NOTFOUND where there is none.
function(fovea_find_libtorch python)
  if(NOT Torch_DIR)
    execute_process(COMMAND ${python} -c "import torch; print(torch.utils.cmake_prefix_path)"
                    OUTPUT_VARIABLE of_python ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    find_path(Torch_DIR TorchConfig.cmake HINTS ${CMAKE_PREFIX_PATH} ${of_python} PATH_SUFFIXES share/cmake/Torch Torch
              NO_DEFAULT_PATH DOC "folder of libtorch's TorchConfig.cmake")
  endif()
endfunction()

# The target `name` for the libtorch of Torch_DIR.
function(fovea_add_libtorch name)
  get_filename_component(prefix "${Torch_DIR}/../../.." ABSOLUTE)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  # As libtorch's own package defines them: some of its headers lay out structures by them.
  target_compile_definitions(${name} INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
  # SYSTEM: not ours to keep free of warnings.
  target_include_directories(${name} SYSTEM INTERFACE ${prefix}/include ${prefix}/include/torch/csrc/api/include)
  # libtorch.so has no symbols of its own: it brings the CPU's and CUDA's libraries, which register themselves.
  target_link_libraries(${name} INTERFACE
    -Wl,--push-state,--no-as-needed ${prefix}/lib/libtorch.so ${prefix}/lib/libtorch_cpu.so ${prefix}/lib/libc10.so
    -Wl,--pop-state)
endfunction()
