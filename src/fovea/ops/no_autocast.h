#pragma once
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

// In a region of autocast, where backward may be called too, ATen's products would narrow what an operator has widened.
namespace fovea::ops {

// While one exists, the types of the thread's products are those of their inputs.
class NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::autocast_dispatch_keyset};
};

}  // namespace fovea::ops
