#include "fovea/decode/source_clauses.h"

#include <memory>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/text/clauses.h"

namespace fovea::decode {
namespace {

struct SplitText {
  text::Vocab vocab;
  text::ClauseDictionary dictionary;
};

nn::Clauses split_source(const SplitText& text, const at::Tensor& tokens, const at::Tensor& offsets) {
  const at::Tensor ids = tokens.contiguous();
  const auto* id = ids.const_data_ptr<int64_t>();
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  std::vector<uint8_t> levels;
  for (int64_t b = 0; b + 1 < offsets.numel(); ++b) {
    const std::vector<uint8_t> own = text::clause_levels(
        text.vocab, text.dictionary, {id + bounds[b], static_cast<size_t>(bounds[b + 1] - bounds[b])});
    levels.insert(levels.end(), own.begin(), own.end());
  }
  return nn::clauses_of_levels(levels, {bounds, static_cast<size_t>(offsets.numel())});
}

}  // namespace

nn::ClauseSplitter clause_splitter(const text::Vocab& vocab, const text::ClauseDictionary& dictionary) {
  const auto text = std::make_shared<const SplitText>(SplitText{vocab, dictionary});
  return [text](const at::Tensor& tokens, const at::Tensor& offsets) { return split_source(*text, tokens, offsets); };
}

std::string new_clause_dictionary(const std::string& path, bool is_needed) {
  if (is_needed)
    return path.empty() ? text::ClauseDictionary::english().bytes() : text::ClauseDictionary::load(path).bytes();
  if (!path.empty())
    throw UsageError(
        "--clause-dictionary: the model has no clauses; give --attention-encoder some, such as mix(full,clause(1))");
  return "";
}

text::ClauseDictionary clause_dictionary_of(const nn::Identity& identity) {
  const auto found = identity.files.find(kClausesFile);
  if (found == identity.files.end()) return text::ClauseDictionary::english();
  return text::ClauseDictionary::parse(found->second, kClausesFile);
}

}  // namespace fovea::decode
