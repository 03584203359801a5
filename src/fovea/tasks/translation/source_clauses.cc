#include "fovea/tasks/translation/source_clauses.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/text/clauses.h"

namespace fovea::translation {
namespace {

struct SourceText {
  text::Vocab vocab;
  text::ClauseDictionary dictionary;
};

nn::Clauses split_source(const SourceText& text, const at::Tensor& tokens, const at::Tensor& offsets) {
  const at::Tensor ids = tokens.contiguous();
  const auto* id = ids.const_data_ptr<int64_t>();
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  std::vector<std::vector<int64_t>> starts(text::kClauseLevels);
  for (int64_t b = 0; b + 1 < offsets.numel(); ++b) {
    const int64_t length = bounds[b + 1] - bounds[b];
    const std::vector<uint8_t> levels =
        text::clause_levels(text.vocab, text.dictionary, {id + bounds[b], static_cast<size_t>(length)});
    for (int64_t i = 0; i < length; ++i) {
      const int64_t level = levels[static_cast<size_t>(i)];
      for (int64_t l = std::max<int64_t>(level, 1); level > 0 && l <= text::kClauseLevels; ++l)
        starts[static_cast<size_t>(l - 1)].push_back(bounds[b] + i);
    }
  }
  nn::Clauses clauses;
  for (std::vector<int64_t>& level : starts) {
    level.push_back(bounds[offsets.numel() - 1]);
    clauses.offsets.push_back(nn::index_tensor(std::move(level)));
  }
  return clauses;
}

}  // namespace

nn::ClauseSplitter clause_splitter(const std::string& vocab, const std::string& dictionary) {
  const auto text = std::make_shared<const SourceText>(
      SourceText{text::Vocab::from_bytes(vocab, "source"), text::ClauseDictionary::parse(dictionary, kClausesFile)});
  return [text](const at::Tensor& tokens, const at::Tensor& offsets) { return split_source(*text, tokens, offsets); };
}

std::string clause_dictionary(const ModelConfig& model, const std::string& path) {
  if (!uses_clauses(model)) {
    if (!path.empty())
      throw UsageError(
          "--clause-dictionary: the model has no clauses; give --attention-encoder one, such as mix(full,clause(1))");
    return "";
  }
  return path.empty() ? text::ClauseDictionary::english().bytes() : text::ClauseDictionary::load(path).bytes();
}

}  // namespace fovea::translation
