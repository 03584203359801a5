#pragma once
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <string>

#include "fovea/base/file.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/models/tagging/model.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/spec/testing/classic_layers.h"
#include "fovea/text/encoder_vocab.h"
#include "fovea/text/vocab.h"

namespace fovea::tagging {

// Writes a checkpoint of a tagger that gives each of these words its label wherever it stands, and all others O. The
// vocabulary lies beside the folder.
inline void save_test_tagger(const std::string& folder, const std::map<std::string, std::string>& labels_of_words) {
  std::string words;
  Labels known = {"O"};
  for (const auto& [word, label] : labels_of_words) {
    words += word + "\n";
    known.push_back(label);
  }
  write_file(folder + ".txt", words);
  text::train_vocab({.inputs = {folder + ".txt"}, .output = folder + ".spm", .type = "word"});
  const auto vocab = text::EncoderVocab::load(folder + ".spm");
  const LabelSet labels = LabelSet::of({&known, 1});
  TaggingConfig config;
  set_classic_layers(config, "pre");
  config.label_dialect = "iob2";
  config.enc_depth = 1;
  config.transformer_heads = 1;
  config.dim_emb = config.transformer_dim_ffn = 2 * ((labels.size() + 1) / 2);  // a number for each label
  config.dim_vocabs = {vocab.size()};
  Tagger model(config, labels.size(), 1);
  const torch::NoGradGuard no_grad;
  // Beside numbers as large as these, what the layers add is nothing.
  at::Tensor embeddings = nn::parameters_of(*model).at("encoder.embeddings.weight");
  const auto place = [&](const std::string& label) {
    return std::ranges::find(labels.names(), label) - labels.names().begin();
  };
  embeddings.zero_();
  embeddings.select(1, place("O")).fill_(1000);
  for (const auto& [word, label] : labels_of_words) {
    at::Tensor row = embeddings.select(0, vocab.encode_word(word).front());
    row.zero_();
    row.select(0, place(label)).fill_(1000);
  }
  model->output_weight.zero_();
  model->output_weight.diagonal().fill_(1);
  std::map<std::string, std::string> files = vocab.files();
  files[kLabelsFile] = labels.contents();
  nn::save_checkpoint(folder, {.identity = nn::identity_of(kTask, config, std::move(files)),
                               .model = nn::parameters_of(*model),
                               .optimizer = {},
                               .progress = {},
                               .folder = {}});
}

}  // namespace fovea::tagging
