#include "fovea/train/setup.h"

#include <algorithm>
#include <thread>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea::train {

int encoding_threads(const TrainConfig& config) {
  return config.cpu_threads > 0 ? static_cast<int>(config.cpu_threads)
                                : static_cast<int>(std::thread::hardware_concurrency());
}

TrainingData load_training_data(const TrainConfig& config) {
  for (const std::string& file : config.train_sets) require_file(file, "--train-sets");
  TrainingData data = {text::Vocab::load(config.vocabs[0]), text::Vocab::load(config.vocabs[1]), {}, {}, {}};
  const data::CorpusOptions options = {config.max_length, config.max_length_crop, encoding_threads(config)};
  data.train =
      data::load_corpus(config.train_sets[0], config.train_sets[1], data.source_vocab, data.target_vocab, options);
  data.batches = {config.mini_batch_words, config.mini_batch, config.maxi_batch, static_cast<uint64_t>(config.seed)};
  data.fingerprint = checksum(cat(data::fingerprint(data.train), " ", config.mini_batch_words, " ", config.mini_batch,
                                  " ", config.maxi_batch, " ", config.optimizer_delay, " ", config.seed));
  return data;
}

void check_positions(const ModelConfig& model, const data::ParallelCorpus& corpus, std::string_view option) {
  if (model.transformer_positions != "learned") return;
  int64_t longest = 0;
  for (int64_t i = 0; i < corpus.size(); ++i) {
    longest = std::max({longest, corpus.source_length(i), corpus.target_length(i)});
  }
  if (longest <= model.max_positions) return;
  throw Error(cat(option, ": the longest sentence has ", longest, " tokens with </s>, --max-positions are ",
                  model.max_positions, "; raise them or leave longer sentences out",
                  option == "--train-sets" ? cat(" (--max-length ", model.max_positions - 1, ")") : ""));
}

ModelConfig with_vocabularies(ModelConfig model, const TrainingData& data) {
  const std::vector<int64_t> sizes = {data.source_vocab.size(), data.target_vocab.size()};
  for (size_t i = 0; i < std::min(sizes.size(), model.dim_vocabs.size()); ++i) {
    const int64_t wanted = model.dim_vocabs[i], size = sizes[i];
    if (wanted != 0 && wanted != size) {
      throw Error(cat("--dim-vocabs: got ", wanted, ", but the vocabulary of --vocabs has ", size,
                      " pieces; leave the option out, its size is the vocabulary's"));
    }
  }
  model.dim_vocabs = sizes;
  const bool shared = model.tied_embeddings_all || model.tied_embeddings_src;
  if (shared && data.source_vocab.bytes() != data.target_vocab.bytes())
    throw Error(cat("--tied-embeddings-", model.tied_embeddings_all ? "all" : "src",
                    ": got two different --vocabs; give the same file twice or leave the option out"));
  return model;
}

}  // namespace fovea::train
