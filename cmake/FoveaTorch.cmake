# libtorch: Torch_DIR if given, else the virtual environment of the clone, else the torch of python3.
if(NOT Torch_DIR)
  find_program(FOVEA_PYTHON NAMES python3 HINTS ${PROJECT_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
  find_program(FOVEA_PYTHON NAMES python3 REQUIRED)
  execute_process(COMMAND ${FOVEA_PYTHON} -c "import torch; print(torch.utils.cmake_prefix_path)"
                  OUTPUT_VARIABLE torch_prefix ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND CMAKE_PREFIX_PATH ${torch_prefix})
endif()
# The wheel's configuration warns about a static library that the project does not use.
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
find_package(Torch QUIET)
unset(CMAKE_MESSAGE_LOG_LEVEL)
if(NOT Torch_FOUND)
  message(FATAL_ERROR "libtorch not found. Run ./fovea.sh build, which installs it into .venv, or name one with -DTorch_DIR=DIR "
                      "(the folder of TorchConfig.cmake).")
endif()
add_library(fovea_torch INTERFACE)
target_link_libraries(fovea_torch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(fovea_torch INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${torch_flags}>")
# libtorch's headers are not ours to keep free of warnings.
target_include_directories(fovea_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

file(WRITE ${PROJECT_BINARY_DIR}/torch_pch.cc "")
add_library(fovea_torch_pch OBJECT ${PROJECT_BINARY_DIR}/torch_pch.cc)
target_link_libraries(fovea_torch_pch PRIVATE fovea_torch fovea_flags)
target_precompile_headers(fovea_torch_pch PRIVATE <torch/torch.h>)
