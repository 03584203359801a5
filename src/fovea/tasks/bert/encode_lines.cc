#include "fovea/tasks/bert/encode_lines.h"

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/models/batches.h"

namespace fovea::bert {

int64_t layer_of(const TextEncoder& encoder, int64_t layer, const std::string& option) {
  if (layer > encoder.depth())
    throw Error(cat(option, ": got ", layer, ", but the encoder has ", encoder.depth(), " layers"));
  return layer < 0 ? encoder.depth() : layer;
}

void each_vector(const TextEncoder& encoder, const std::vector<std::vector<int64_t>>& sequences, int64_t layer,
                 const std::function<void(size_t sequence, const at::Tensor& vectors)>& see) {
  for (const std::vector<int64_t>& batch :
       models::length_batches(sequences, {.max_words = 4096, .max_sentences = 256})) {
    throw_if_interrupted("encoding");
    std::vector<const models::Sentence*> some;
    for (const int64_t i : batch) some.push_back(&sequences[static_cast<size_t>(i)]);
    const at::Tensor vectors = encoder.layers(some, layer).back().to(at::kCPU, at::kFloat);
    int64_t begin = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto size = std::ssize(*some[i]);
      see(static_cast<size_t>(batch[i]), vectors.narrow(0, begin, size).clone());
      begin += size;
    }
  }
}

}  // namespace fovea::bert
