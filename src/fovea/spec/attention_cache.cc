#include "fovea/spec/attention_cache.h"

#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

namespace fovea {
namespace {

constexpr size_t kMostSpecs = 1024;  // that are kept: a service may be sent any

// Looks up a text without a copy of it.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

}  // namespace

AttentionSpec parse_attention_once(std::string_view text) {
  static std::mutex mutex;
  static std::unordered_map<std::string, AttentionSpec, TextHash, std::equal_to<>> cache;
  const std::scoped_lock lock(mutex);
  if (const auto found = cache.find(text); found != cache.end()) return found->second;
  if (cache.size() >= kMostSpecs) cache.clear();
  return cache.emplace(text, parse_attention(text)).first->second;
}

}  // namespace fovea
