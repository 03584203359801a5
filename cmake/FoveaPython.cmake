# FOVEA_PYTHON, for libtorch's place and for the tests: that of the clone's virtual environment if there is one. Looked up
# each time: the environment may be made after a first build.
unset(FOVEA_PYTHON CACHE)
find_program(FOVEA_PYTHON NAMES python3 HINTS ${PROJECT_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH NO_CACHE)
if(NOT FOVEA_PYTHON)
  find_program(FOVEA_PYTHON NAMES python3 REQUIRED NO_CACHE)
endif()
