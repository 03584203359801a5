#include "fovea/text/corpus_split.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

enum Part : size_t { kTrain, kValid, kTest };

// The place of each distinct source in the draw.
std::vector<std::pair<std::string, std::string>> draw(const std::vector<Pair>& pairs, int64_t seed) {
  std::vector<std::pair<std::string, std::string>> ranks;
  for (const Pair& pair : pairs) {
    std::string key = folded(pair.source);
    ranks.emplace_back(checksum(cat(seed, '\n', key)), std::move(key));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

Split split_corpus(std::vector<Pair> pairs, const CorpusOptions& options) {
  const auto ranks = draw(pairs, options.seed);
  const int64_t wanted = options.valid + options.test;
  if (wanted > 0 && wanted >= std::ssize(ranks))
    throw Error(cat("--valid ", options.valid, " --test ", options.test, ": only ", ranks.size(),
                    " different sources are left after cleaning; expected more than ", wanted,
                    "; ask for fewer sentences or give more text"));
  std::unordered_map<std::string, Part> parts;
  for (int64_t i = 0; i < wanted; ++i)
    parts.emplace(ranks[static_cast<size_t>(i)].second, i < options.test ? kTest : kValid);
  Split split;
  std::unordered_map<std::string, bool> taken;
  for (Pair& pair : pairs) {
    const std::string key = folded(pair.source);
    const auto found = parts.find(key);
    if (found == parts.end()) {
      split[kTrain].push_back(std::move(pair));
    } else if (taken.try_emplace(key, true).second) {
      split[found->second].push_back(std::move(pair));
    }
  }
  return split;
}

}  // namespace fovea::text
