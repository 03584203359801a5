#include "fovea/text/units.h"

#include <filesystem>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/byte_pairs.h"
#include "fovea/text/byte_pairs_json.h"
#include "fovea/text/json_values.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/unit_decoder.h"
#include "fovea/text/unit_split.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

constexpr std::string_view kBytesName = "bytes", kBytesFile = "units.txt", kVocabFile = "units.spm";
constexpr const char *kTokenizer = "tokenizer.json", *kTokenModel = "tokenizer.model",
                     *kTokenConfig = "tokenizer_config.json", *kAddedTokens = "added_tokens.json";
constexpr int64_t kNumBytes = 256;

// The tokens that a folder adds to its tokeniser: a list in tokenizer_config.json, or the file of older versions.
std::vector<std::string> added_tokens_of(const std::filesystem::path& folder, const std::string& config) {
  const std::string config_path = folder / kTokenConfig, list_path = folder / kAddedTokens;
  const std::string list_name = "added_tokens_decoder";
  std::vector<std::string> tokens;
  const Json settings = parse_json_object(config, config_path);
  if (find_json(settings, list_name) != nullptr) {
    for (const auto& [number, token] : json_object(settings, list_name, config_path).items())
      if (token.is_object())
        tokens.push_back(json_text(token, "content", cat(config_path, ": ", list_name, ": ", number)).value_or(""));
  } else if (std::filesystem::exists(list_path)) {
    const Json list = parse_json_object(read_text_file(list_path), list_path);
    for (const auto& [token, number] : list.items()) tokens.push_back(token);
  }
  return tokens;
}

// A SentencePiece model finds no added tokens in text.
void warn_of_added_tokens(const std::filesystem::path& folder, const std::map<std::string, std::string>& files) {
  std::vector<std::string> added = added_tokens_of(folder, files.at(kTokenConfig));
  const Vocab vocab = Vocab::from_bytes(files.at(kTokenModel), folder / kTokenModel);
  std::erase_if(added, [&](const std::string& token) { return token.empty() || vocab.find(token); });
  if (added.empty()) return;
  log::warn(cat("'", folder.string(), "': ", kTokenModel, " lacks ", added.size(),
                " of the folder's added tokens, such as '", one_line(added.front()),
                "'; a text that has them is split into other pieces there, unlike in transformers"));
}

}  // namespace

struct Units::Parts {
  std::optional<Vocab> vocab;
  std::optional<BytePairs> pairs;
  std::map<std::string, std::string> files;  // of tokens
  int64_t begin = 0, eos = 0;

  bool is_of_folder() const { return !files.empty(); }
  int64_t size() const { return pairs ? pairs->size() : vocab->size(); }
};

Units Units::bytes() { return Units(nullptr); }

Units Units::of_vocab(Vocab vocab) {
  auto parts = std::make_shared<Parts>();
  parts->begin = parts->eos = vocab.eos();
  parts->vocab.emplace(std::move(vocab));
  return Units(std::move(parts));
}

Units Units::load(const std::string& value) {
  if (value == kBytesName) return bytes();
  const std::filesystem::path path = value;
  if (std::filesystem::is_directory(path)) return from_files(token_files(value), value);
  if (path.filename() == kTokenizer || path.filename() == kTokenModel)
    throw Error(cat("'", value, "' is a file of a folder of Hugging Face's; expected the folder, which also has ",
                    kTokenConfig));
  return of_vocab(Vocab::load(value));
}

Units Units::from_file(const std::string& name, const std::string& contents) {
  if (name == kVocabFile) return of_vocab(Vocab::from_bytes(contents, name));
  if (name != kBytesFile)
    throw Error(cat("units of text: got the file '", name, "'; expected ", kVocabFile, " or ", kBytesFile));
  if (trim(contents) != kBytesName)
    throw Error(cat("units of text: '", name, "' is damaged; expected the word '", kBytesName, "' in it"));
  return bytes();
}

Units Units::from_files(const std::map<std::string, std::string>& files, const std::string& origin) {
  const auto config = files.find(kTokenConfig);
  if (files.size() == 1 && config == files.end()) return from_file(files.begin()->first, files.begin()->second);
  const auto tokenizer = files.find(kTokenizer), model = files.find(kTokenModel);
  const bool fits = files.size() == 2 && config != files.end() && (tokenizer != files.end() || model != files.end());
  if (!fits)
    throw Error(cat(origin, ": got ", files.size(), " files of units; expected ", kBytesFile, ", ", kVocabFile, " or ",
                    kTokenConfig, " with ", kTokenizer, " or ", kTokenModel));
  const std::string config_path = cat(origin, "/", kTokenConfig);
  auto parts = std::make_shared<Parts>();
  parts->files = files;
  if (tokenizer != files.end()) {
    const std::string path = cat(origin, "/", kTokenizer);
    parts->pairs.emplace(parse_byte_pairs_json(tokenizer->second, path), path);
  } else {
    parts->vocab.emplace(Vocab::from_bytes(model->second, cat(origin, "/", kTokenModel)));
  }
  const auto number = [&](const char* name) -> std::optional<int64_t> {
    const std::optional<std::string> token = token_of_config(config->second, name, config_path);
    if (!token) return std::nullopt;
    const int64_t id = parts->pairs ? parts->pairs->find(*token) : parts->vocab->find(*token).value_or(-1);
    if (id < 0) throw Error(cat(config_path, ": ", name, ": got '", *token, "'; expected a token of the tokeniser"));
    return id;
  };
  const std::optional<int64_t> eos = number("eos_token");
  if (!eos) throw Error(cat(config_path, ": eos_token is missing; expected the token that ends a text"));
  parts->begin = parts->eos = *eos;
  const bool adds_begin = parts->pairs ? add_bos_of_config(config->second, config_path).value_or(false)
                                       : add_bos_of_config(config->second, config_path).value_or(true);
  if (parts->pairs && !parts->pairs->model().begin_content.empty()) {
    parts->begin = parts->pairs->find(parts->pairs->model().begin_content);
  } else if (adds_begin) {
    const std::optional<int64_t> begin = number("bos_token");
    if (!begin) throw Error(cat(config_path, ": bos_token is missing; expected the token that begins a text"));
    parts->begin = *begin;
  }
  return Units(std::move(parts));
}

std::map<std::string, std::string> token_files(const std::string& folder) {
  const std::filesystem::path path = folder;
  std::map<std::string, std::string> files;
  // A SentencePiece model comes first, because the tokenizer.json beside it was made from it.
  for (const char* name : {kTokenModel, kTokenizer}) {
    if (!std::filesystem::exists(path / name)) continue;
    files[name] = read_file(path / name);
    break;
  }
  if (files.empty()) throw Error(cat("'", folder, "' has no ", kTokenizer, " and no ", kTokenModel, "; expected one"));
  if (!std::filesystem::exists(path / kTokenConfig))
    throw Error(cat("'", folder, "' has no ", kTokenConfig, "; expected it beside ", files.begin()->first));
  files[kTokenConfig] = read_file(path / kTokenConfig);
  if (files.contains(kTokenModel)) warn_of_added_tokens(path, files);
  return files;
}

bool Units::has_lines() const { return parts_ != nullptr && !parts_->is_of_folder(); }
bool Units::is_of_folder() const { return parts_ != nullptr && parts_->is_of_folder(); }
const Vocab* Units::vocab() const { return parts_ != nullptr && parts_->vocab ? &*parts_->vocab : nullptr; }

std::string_view Units::unit_name() const {
  if (is_bytes()) return "byte";
  if (is_of_folder()) return "token";
  if (vocab()->type() == VocabType::kWord) return "word";
  return vocab()->type() == VocabType::kChar ? "char" : "piece";
}

int64_t Units::size() const { return rows_ > 0 ? rows_ : is_bytes() ? kNumBytes + 1 : parts_->size(); }
int64_t Units::begin() const { return is_bytes() ? kNumBytes : parts_->begin; }
int64_t Units::eos() const { return is_bytes() ? kNumBytes : parts_->eos; }
std::optional<int64_t> Units::unk() const { return vocab() ? std::optional(vocab()->unk()) : std::nullopt; }
std::string Units::file_name() const { return files().begin()->first; }
std::string Units::contents() const { return files().begin()->second; }

std::map<std::string, std::string> Units::files() const {
  if (is_bytes()) return {{std::string(kBytesFile), cat(kBytesName, "\n")}};
  if (is_of_folder()) return parts_->files;
  return {{std::string(kVocabFile), vocab()->bytes()}};
}

Units Units::with_rows(int64_t rows) const {
  Units more = *this;
  more.rows_ = rows;
  return more;
}

void Units::encode(std::string_view text, std::vector<int32_t>& ids, Begin begin) const {
  if (is_bytes()) {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return;
  }
  if (parts_->pairs) return parts_->pairs->encode(text, begin == Begin::kLine, ids);
  // The vocabulary puts a blank before a text, which stands for the one at which the text was cut.
  if (begin == Begin::kInside && vocab()->splits_at_blanks() && text.starts_with(' ')) text.remove_prefix(1);
  if (is_of_folder()) return vocab()->encode(text, ids);
  each_line(text, [&](std::string_view line, bool has_end) {
    vocab()->encode(line, ids);
    if (has_end) ids.push_back(static_cast<int32_t>(vocab()->eos()));
  });
}

size_t Units::cut(std::string_view text, size_t most) const {
  if (!is_bytes() && parts_->pairs) return parts_->pairs->cut(text, most);
  std::string_view part = text.substr(0, most);
  const size_t line_end = is_of_folder() ? std::string_view::npos : part.rfind('\n');
  if (line_end != std::string_view::npos) return line_end + 1;
  if (is_bytes()) return part.size() - cut_character(part);
  if (vocab()->splits_anywhere() && has_lines()) {
    while (part.ends_with('\r')) part.remove_suffix(1);  // it may be half of a line end
    return part.size() - cut_character(part);
  }
  return vocab()->splits_at_blanks() ? cut_at_blank(text, most) : 0;
}

// The cut is before the blank of a word: the last of several blanks, and none at the end of a line.
size_t Units::cut_at_blank(std::string_view text, size_t most) const {
  constexpr std::string_view kNoWord = " \r\n";
  for (size_t blank = text.rfind(' ', most); blank != std::string_view::npos && blank > 0;
       blank = text.rfind(' ', blank - 1)) {
    if (blank + 1 == text.size() || kNoWord.find(text[blank + 1]) != std::string_view::npos) continue;
    const bool is_alone = text[blank - 1] != ' ' && !text.substr(0, blank).ends_with(kBlankSign) &&
                          !text.substr(blank + 1).starts_with(kBlankSign);
    if (is_alone || !vocab()->has_blank_runs()) return blank;
  }
  return 0;
}

std::string Units::decode(std::span<const int64_t> ids) const {
  UnitDecoder decoder(*this);
  std::string text;
  for (const int64_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

std::string Units::surface(int64_t id) const {
  if (id == eos()) return has_lines() ? "\n" : "";
  if (is_bytes()) return {static_cast<char>(id)};
  if (id == begin() || id >= parts_->size()) return "";
  return parts_->pairs ? parts_->pairs->surface(id) : vocab()->surface(id);
}

bool Units::is_partial(int64_t id) const {
  if (id == eos()) return false;
  return is_bytes() || id >= parts_->size() || (parts_->pairs ? true : vocab()->is_byte(id));
}

}  // namespace fovea::text
