#include "fovea/app/library.h"

#include <c10/util/Exception.h>

#include <new>

#include "fovea/app/program.h"
#include "fovea/base/malloc.h"
#include "fovea/base/program_name.h"
#include "fovea/base/signals.h"
#include "fovea/nn/device.h"

int fovea_program(int argc, char** argv) {
  fovea::set_program_name(argc > 0 ? argv[0] : "");
  fovea::tune_malloc();
  fovea::install_signal_handlers();
  return fovea::app::guarded([&] {
    try {
      return fovea::app::run({argv + 1, argv + argc}, fovea::nn::limit_cpu_threads);
    } catch (const c10::OutOfMemoryError&) {
      throw std::bad_alloc();
    }
  });
}
