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

# Not torch/torch.h: every file that loads a precompiled header instantiates the templates that its inline functions use,
# six CPU-seconds with these two, nine with the whole of libtorch's C++ front end.
set(torch_headers <torch/nn/module.h> <torch/csrc/autograd/custom_function.h>)
fovea_precompiled(fovea_torch_pch LINK fovea_torch HEADERS ${torch_headers})
if(FOVEA_TESTS)
  fovea_precompiled(fovea_torch_test_pch LINK fovea_torch GTest::gtest GTest::gmock
                    HEADERS ${torch_headers} <gtest/gtest.h> <gmock/gmock.h>)
endif()
