#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// The formats that `fovea corpus` reads: one table has their names, the files' endings, the parts of an input and its
// reader.
namespace fovea::text {

struct Bitext;
struct CorpusOptions;

// Captions of a user interface have marks of access keys, which are not text.
enum class Kind { kProse, kInterface };

enum class InputShape { kFile, kTwoFiles };

struct CorpusInput {
  const struct CorpusFormat* format = nullptr;
  std::string path, second;  // second: of two files
};

struct CorpusFormat {
  std::string_view name;                     // of --format
  std::vector<std::string_view> extensions;  // of the files' names, without the dot
  std::string_view in_words;                 // what to give, where extensions do not say
  InputShape shape;
  Kind kind;
  Bitext (*read)(const CorpusInput& input, const CorpusOptions& options);
  // Catalogues say which side is which language.
  bool is_catalogue() const { return kind == Kind::kInterface; }
};

// "auto|po|tsv|...", what --format takes.
std::string_view corpus_format_choices();

// ".po, .pot, ... or two aligned files", for messages.
std::string corpus_inputs_in_words();

// Returns the inputs that the options name. Throws if one is missing or does not have the shape of its format.
std::vector<CorpusInput> list_corpus_inputs(const CorpusOptions& options);

// "de.po.gz" -> "de.po".
std::filesystem::path without_packed_ending(std::filesystem::path path);

}  // namespace fovea::text
