#include "fovea/stable/memory.h"

#include <dlfcn.h>

#include <algorithm>

#include "fovea/base/workspace.h"
#include "fovea/stable/copies.h"

namespace fovea::stable {
namespace {

constexpr int64_t kLeastBytes = int64_t{1} << 20;  // the heap keeps smaller ones itself

// torch_from_blob() of torch's stable interface, 2.11 and later. It is looked up when the library runs: linked, it
// would keep the library out of torch 2.10.
using FromBlob = AOTITorchError (*)(void* data, int64_t dims, const int64_t* sizes, const int64_t* strides,
                                    int64_t storage_offset, int32_t dtype, int32_t device_type, int32_t device_index,
                                    AtenTensorHandle* result, int32_t layout, const uint8_t* opaque_metadata,
                                    int64_t opaque_metadata_size, void (*deleter)(void* data, void* context),
                                    void* context);

FromBlob from_blob() {
  static const auto kFound = reinterpret_cast<FromBlob>(dlsym(RTLD_DEFAULT, "torch_from_blob"));
  return kFound;
}

int64_t bytes_of(const std::vector<int64_t>& sizes, int32_t type) {
  int64_t bytes = static_cast<int64_t>(aoti_torch_dtype_element_size(type));
  for (const int64_t size : sizes) bytes *= size;
  return bytes;
}

void kernel_room(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor like = in.tensor();
  const std::vector<int64_t> sizes = in.integers(), strides = in.integers();
  int32_t type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(like.get(), &type));
  stack[0] = result(empty(sizes, strides, type));
}

}  // namespace

Tensor empty(const std::vector<int64_t>& sizes, int32_t type) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return empty(sizes, strides, type);
}

Tensor empty(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int32_t type) {
  const auto dims = static_cast<int64_t>(sizes.size());
  const int64_t bytes = bytes_of(sizes, type);
  const int32_t cpu = aoti_torch_device_type_cpu();
  AtenTensorHandle handle = nullptr;
  if (bytes >= kLeastBytes && from_blob() != nullptr) {
    void* data = take_workspace(static_cast<size_t>(bytes));
    const auto give_back = [](void* memory, void*) { return_workspace(memory); };
    const AOTITorchError failed = from_blob()(data, dims, sizes.data(), strides.data(), 0, type, cpu, -1, &handle,
                                              aoti_torch_layout_strided(), nullptr, 0, give_back, nullptr);
    if (failed == AOTI_TORCH_SUCCESS) return Tensor(handle);
    return_workspace(data);
  }
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(dims, sizes.data(), strides.data(), type, cpu, 0, &handle));
  return Tensor(handle);
}

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def("kernel_room(Tensor like, int[] sizes, int[] strides) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CompositeExplicitAutograd, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_room", &kernel_room);
}

}  // namespace fovea::stable
