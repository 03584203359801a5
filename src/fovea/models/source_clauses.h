#pragma once
#include <optional>
#include <string>

#include "fovea/nn/checkpoint.h"
#include "fovea/nn/clauses.h"
#include "fovea/text/clause_dictionary.h"
#include "fovea/text/clause_tagger.h"
#include "fovea/text/vocab.h"

// Models with clauses split their text themselves, by the dictionary of signal words and perhaps the tagger in their
// checkpoint.
namespace fovea::models {

inline constexpr const char* kClausesFile = "clauses.txt";  // in a checkpoint

// A model's means of finding the clauses of its texts.
struct ClauseSource {
  text::ClauseDictionary dictionary;
  std::optional<text::ClauseTagger> tagger = {};  // none: the dictionary, by words alone
};
ClauseSource clause_source_of(const nn::Identity& identity);

// Returns the splitter of texts in the pieces of a vocabulary. Each sentence of a text, up to its </s>, has clauses of
// its own. With a tagger it tags a sentence once, and remembers its clauses.
nn::ClauseSplitter clause_splitter(const text::Vocab& vocab, const ClauseSource& source);

// The dictionary of a model in training: the bytes of `path`. If `path` is empty, that of the model in the folder
// `trained`, from which the training resumes or starts, or the English one; "" if the model does not need any. Throws a
// UsageError for a path that the model does not need.
std::string new_clause_dictionary(const std::string& path, bool is_needed, const std::string& trained);

// The dictionary of a trained model; English if it has none, which is so if its trained mechanisms have no clauses.
text::ClauseDictionary clause_dictionary_of(const nn::Identity& identity);

}  // namespace fovea::models
