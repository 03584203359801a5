#pragma once
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

// A device for tests. Its memory is that of the CPU under addresses that no host code can read, and its operators are
// those of the CPU. Like on a GPU, operators refuse a mixture of devices, and reading a result makes the host wait;
// unlike there, a test can forbid both waits and copies. FOVEA_TEST_DEVICE names the device type whose place it takes:
// PrivateUse1, which PyTorch keeps for devices from outside, or CUDA, in a libtorch without it. One file of a program
// includes this header, and registers the device's hooks (test_private_device.h does for PrivateUse1).
#ifndef FOVEA_TEST_DEVICE
#define FOVEA_TEST_DEVICE PrivateUse1
#endif
namespace fovea::ops::test_device {

inline constexpr c10::DeviceType kType = c10::DeviceType::FOVEA_TEST_DEVICE;
inline const c10::Device kDevice(kType, 0);

// While one lives, whatever makes the host wait for the device, or copies between them, is an Error.
class NoWaits {
 public:
  NoWaits() { ++count(); }
  ~NoWaits() { --count(); }
  NoWaits(const NoWaits&) = delete;
  NoWaits& operator=(const NoWaits&) = delete;
  static std::atomic<int>& count() {
    static std::atomic<int> alive = 0;
    return alive;
  }
};

// The names of the operators that ran on the device, for tables of them.
struct Ran {
  std::mutex mutex;
  std::set<std::string> names;
};
inline Ran& ran() {
  static Ran names;
  return names;
}

// How often the host waited, by the name of the operator.
struct WaitCounts {
  std::mutex mutex;
  std::map<std::string, int64_t, std::less<>> by_name;
};
inline WaitCounts& wait_counts() {
  static WaitCounts counts;
  return counts;
}

inline void note_wait(std::string_view name) {
  {
    const std::lock_guard lock(wait_counts().mutex);
    ++wait_counts().by_name[std::string(name)];
  }
  if (NoWaits::count() > 0) throw Error(cat("test device: ", name, " waits for the device"));
}

// Addresses of the device are those of the host with a bit that makes the processor refuse them.
inline constexpr uintptr_t kMark = uintptr_t{1} << 62;
inline void* marked(void* p) {
  return p == nullptr ? p : reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) | kMark);
}
inline void* unmarked(void* p) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) & ~kMark); }

// The greatest tensor that the device has memory for, in bytes.
inline std::atomic<size_t>& most_bytes() {
  static std::atomic<size_t> most = std::numeric_limits<size_t>::max();
  return most;
}
inline void require_memory(size_t bytes) {
  TORCH_CHECK_WITH(OutOfMemoryError, bytes <= most_bytes(), "test device out of memory: tried to allocate ", bytes);
}

// A type that the device has no matrix products for, by PyTorch's name; "" if it has all.
inline std::string& type_without_products() {
  static std::string type;
  return type;
}
inline void require_products(std::string_view name, const std::vector<at::Tensor>& of) {
  if (type_without_products().empty() || name.find("mm") == std::string_view::npos) return;
  for (const at::Tensor& x : of)
    TORCH_CHECK_NOT_IMPLEMENTED(toString(x.scalar_type()) != type_without_products(), '"', name,
                                "\" not implemented for '", toString(x.scalar_type()), "'");
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    require_memory(bytes);
    void* data = c10::GetCPUAllocator()->raw_allocate(bytes);
    return {marked(data), data, &free_memory, kDevice};
  }
  static void free_memory(void* data) { c10::GetCPUAllocator()->raw_deallocate(data); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::copy_n(static_cast<const char*>(unmarked(const_cast<void*>(from))), bytes, static_cast<char*>(unmarked(to)));
  }
};

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};

inline bool is_ours(const at::Tensor& x) { return x.defined() && x.device().type() == kDevice.type(); }

// The tensor's memory as the CPU sees it.
inline at::Tensor on_cpu(const at::Tensor& x) {
  if (!is_ours(x)) return x;
  auto* storage = x.storage().unsafeGetStorageImpl();
  char* data = static_cast<char*>(unmarked(storage->_mutable_data_ptr_no_checks().get()));
  return at::for_blob(data + x.storage_offset() * static_cast<int64_t>(x.element_size()), x.sizes())
      .strides(x.strides())
      .deleter([x](void*) {})
      .options(x.options().device(at::kCPU).requires_grad(false))
      .make_tensor();
}

// The way back for what an operator of the CPU returned.
inline at::Tensor on_device(const at::Tensor& x) {
  require_memory(x.nbytes());
  return at::for_blob(marked(x.mutable_data_ptr()), x.sizes())
      .strides(x.strides())
      .deleter([x](void*) {})
      .options(x.options().device(kDevice).requires_grad(false))
      .target_device(kDevice)
      .make_tensor();
}

// One call of an operator of the CPU on tensors of the device.
class FallbackCall {
 public:
  explicit FallbackCall(const c10::OperatorHandle& op) : op_(op), name_(op.schema().name()) {
    static constexpr std::string_view kWaiting[] = {"aten::nonzero",    "aten::masked_select", "aten::equal",
                                                    "aten::is_nonzero", "aten::_unique2",      "aten::unique_dim",
                                                    "aten::bincount",   "aten::item"};
    if (std::ranges::find(kWaiting, name_) != std::end(kWaiting)) note_wait(name_);
    const std::lock_guard lock(ran().mutex);
    ran().names.insert(name_);
  }
  void run(torch::jit::Stack* stack) {
    const size_t count = op_.schema().arguments().size();
    for (size_t i = 0; i < count; ++i) {
      c10::IValue& argument = torch::jit::peek(*stack, i, count);
      argument = to_cpu(argument);
    }
    if (saw_host_ && saw_device_) throw Error(cat("test device: ", name_, " got tensors of the CPU and of the device"));
    require_products(name_, ours_);
    op_.callBoxed(stack);
    for (size_t i = 0; i < ours_.size(); ++i) {
      if (ours_[i].sizes() != alike_[i].sizes()) take_memory(ours_[i], on_device(alike_[i]));
    }
    const size_t results = op_.schema().returns().size();
    for (size_t i = 0; i < results; ++i) {
      c10::IValue& result = torch::jit::peek(*stack, i, results);
      result = to_device(result);
    }
  }

 private:
  at::Tensor seen(const at::Tensor& x) {
    if (!x.defined()) return x;
    if (!is_ours(x)) {
      saw_host_ = saw_host_ || x.dim() > 0;  // operators take numbers from the CPU
      return x;
    }
    saw_device_ = true;
    // An operator may resize an output that is empty.
    ours_.push_back(x),
        alike_.push_back(x.numel() == 0 ? at::empty(x.sizes(), x.options().device(at::kCPU)) : on_cpu(x));
    return alike_.back();
  }
  c10::IValue to_cpu(const c10::IValue& value) {
    if (value.isTensor()) return seen(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& x : value.toTensorVector()) list.push_back(seen(x));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& x : value.toOptionalTensorVector())
        list.push_back(x ? std::optional(seen(*x)) : std::nullopt);
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == kDevice.type()) return saw_device_ = true, c10::Device(at::kCPU);
    return value;
  }
  static void take_memory(const at::Tensor& x, const at::Tensor& from) {
    x.unsafeGetTensorImpl()->set_storage_keep_dtype(from.storage());
    x.unsafeGetTensorImpl()->set_sizes_and_strides(from.sizes(), from.strides());
  }
  // An argument that is returned is the argument itself again.
  at::Tensor given_back(const at::Tensor& x) const {
    if (!x.defined()) return x;
    for (size_t i = 0; i < alike_.size(); ++i) {
      if (alike_[i].is_same(x)) return ours_[i];
    }
    return saw_device_ ? on_device(x) : x;
  }
  c10::IValue to_device(const c10::IValue& value) const {
    if (value.isTensor()) return given_back(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& x : value.toTensorVector()) list.push_back(given_back(x));
    return list;
  }

  const c10::OperatorHandle& op_;
  std::string name_;
  std::vector<at::Tensor> ours_, alike_;
  bool saw_host_ = false, saw_device_ = false;
};

inline void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { FallbackCall(op).run(stack); }

inline Allocator& allocator() {
  static Allocator one;
  return one;
}

inline at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                        std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator(), c10::DispatchKeySet(c10::DispatchKey::FOVEA_TEST_DEVICE),
                                   type.value_or(at::kFloat), format);
}
inline at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> type,
                                std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(
      size, stride, &allocator(), c10::DispatchKeySet(c10::DispatchKey::FOVEA_TEST_DEVICE), type.value_or(at::kFloat));
}
inline at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (from.device() != to.device()) note_wait("a copy between devices");
  on_cpu(to).copy_(on_cpu(from));
  return to;
}
inline at::Scalar local_scalar(const at::Tensor& x) {
  note_wait("item()");
  return on_cpu(x).item();
}

// CUDA is a device that PyTorch's own copy_() knows, so _copy_from() alone would not be asked.
inline at::Tensor& copy_into(at::Tensor& to, const at::Tensor& from, bool) {
  if (from.device() != to.device()) note_wait("a copy between devices");
  on_cpu(to).copy_(on_cpu(from));
  return to;
}

TORCH_LIBRARY_IMPL(_, FOVEA_TEST_DEVICE, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>()); }
TORCH_LIBRARY_IMPL(aten, FOVEA_TEST_DEVICE, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("copy_", TORCH_FN(copy_into));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar));
}
inline const c10::impl::DeviceGuardImplRegistrar kGuard(kType, new Guard());
inline const bool kHasAllocator = (c10::SetAllocator(kType, &allocator()), true);

}  // namespace fovea::ops::test_device
