# libtorch: Torch_DIR if given, else the virtual environment of the clone, else the torch of python3.
include(FoveaLibtorch)
if(NOT Torch_DIR)
  fovea_find_libtorch(${FOVEA_PYTHON})
endif()
if(NOT EXISTS "${Torch_DIR}/TorchConfig.cmake")
  message(FATAL_ERROR "libtorch not found. Run ./fovea.sh build, which installs it into .venv, or name one with -DTorch_DIR=DIR "
                      "(the folder of TorchConfig.cmake).")
endif()
fovea_add_libtorch(fovea_torch)

# Written once: a new one at every configuration would be compiled at every build.
if(NOT EXISTS ${PROJECT_BINARY_DIR}/torch_pch.cc)
  file(WRITE ${PROJECT_BINARY_DIR}/torch_pch.cc "")
endif()
add_library(fovea_torch_pch OBJECT ${PROJECT_BINARY_DIR}/torch_pch.cc)
target_link_libraries(fovea_torch_pch PRIVATE fovea_torch fovea_flags)
# Not torch/torch.h: every file that loads a precompiled header instantiates the templates that its inline functions use,
# six CPU-seconds with these two, nine with the whole of libtorch's C++ front end.
target_precompile_headers(fovea_torch_pch PRIVATE <torch/nn/module.h> <torch/csrc/autograd/custom_function.h>)
