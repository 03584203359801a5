#include "fovea/text/units.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/text/added_tokens.h"
#include "fovea/text/added_tokens_json.h"
#include "fovea/text/byte_pairs.h"
#include "fovea/text/byte_pairs_json.h"
#include "fovea/text/json_values.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/unit_decoder.h"
#include "fovea/text/unit_split.h"
#include "fovea/text/utf8.h"
#include "fovea/text/wordpiece.h"

namespace fovea::text {
namespace {

constexpr std::string_view kBytesName = "bytes", kBytesFile = "units.txt", kVocabFile = "units.spm";
constexpr const char *kTokenizer = "tokenizer.json", *kTokenModel = "tokenizer.model",
                     *kTokenConfig = "tokenizer_config.json", *kAddedTokens = "added_tokens.json",
                     *kGeneration = "generation_config.json", *kModelConfig = "config.json",
                     *kEndNumbers = "eos_token_id", *kChatTemplate = "chat_template.jinja";
// The files of a folder that a checkpoint keeps as they are.
constexpr std::array<std::string_view, 7> kTokenFiles = {
    kTokenizer, kTokenModel, kTokenConfig, kAddedTokens, kGeneration, "special_tokens_map.json", kChatTemplate};
constexpr int64_t kNumBytes = 256;

// The tokens that a folder adds to its SentencePiece model: a list in tokenizer_config.json, or the file of older
// versions, and the ends of texts.
std::vector<AddedToken> added_tokens_of(const std::map<std::string, std::string>& files, const std::string& origin) {
  const std::string config_path = cat(origin, "/", kTokenConfig), list_path = cat(origin, "/", kAddedTokens);
  const std::string list_name = "added_tokens_decoder";
  std::vector<AddedToken> tokens;
  const Json settings = parse_json_object(files.at(kTokenConfig), config_path);
  if (find_json(settings, list_name) != nullptr) {
    for (const auto& [number, token] : json_object(settings, list_name, config_path).items()) {
      const std::string place = cat(config_path, ": ", list_name, ": ", number);
      const auto id = number_in<int64_t>(number, kTokenNumbers.least, kTokenNumbers.most);
      if (!id || !token.is_object()) throw Error(cat(place, ": expected the number of a token and its object"));
      tokens.push_back(added_token_of(token, *id, place));
    }
  } else if (const auto list_file = files.find(kAddedTokens); list_file != files.end()) {
    const Json list = parse_json_object(list_file->second, list_path);
    for (const auto& [token, number] : list.items())
      tokens.push_back({.content = token, .id = whole_json(number, kTokenNumbers, cat(list_path, ": '", token, "'"))});
  }
  return tokens;
}

// A tokenizer.json without BPE was made from the SentencePiece model beside it.
bool counts_tokenizer_json(const std::map<std::string, std::string>& files, const std::string& origin) {
  const auto tokenizer = files.find(kTokenizer);
  if (tokenizer == files.end()) return false;
  return !files.contains(kTokenModel) || is_byte_pairs_json(tokenizer->second, cat(origin, "/", kTokenizer));
}

// The numbers of a field that has one, a list of them, or none.
std::vector<int64_t> numbers_of(const Json& object, const std::string& name, const std::string& origin) {
  const Json* const found = find_json(object, name);
  if (found == nullptr) return {};
  const std::string place = cat(origin, ": ", name);
  std::vector<int64_t> numbers;
  for (const Json& number : found->is_array() ? *found : Json::array({*found}))
    numbers.push_back(whole_json(number, kTokenNumbers, place));
  return numbers;
}

}  // namespace

struct Units::Parts {
  std::optional<Vocab> vocab;
  std::optional<BytePairs> pairs;
  std::map<std::string, std::string> files;  // of tokens
  int64_t begin = 0, eos = 0;
  std::vector<int64_t> ends;
  // Beside a SentencePiece model:
  std::map<int64_t, std::string> added;
  TokenFinder finder;
  bool has_blank_behind_tokens = true;  // the text behind an added token begins with a blank, as a line does

  bool is_of_folder() const { return !files.empty(); }
  int64_t size() const {
    if (pairs) return pairs->size();
    return std::max(vocab->size(), added.empty() ? 0 : added.rbegin()->first + 1);
  }
  std::optional<int64_t> find(const std::string& token) const;
  void read_added(const std::string& origin);
  void read_ends(const std::string& origin);
  void encode(std::string_view text, std::vector<int32_t>& ids) const;
};

std::optional<int64_t> Units::Parts::find(const std::string& token) const {
  if (pairs) {
    const int64_t id = pairs->find(token);
    return id < 0 ? std::nullopt : std::optional(id);
  }
  const auto own = std::ranges::find(added, token, [](const auto& pair) { return pair.second; });
  return own != added.end() ? std::optional(own->first) : vocab->find(token);
}

void Units::Parts::read_added(const std::string& origin) {
  const std::string config_path = cat(origin, "/", kTokenConfig);
  for (const AddedToken& token : added_tokens_of(files, origin)) {
    if (token.id > vocab->size() + kMostUnusedNumbers)
      throw Error(cat(origin, ": the added token '", one_line(token.content), "' has the number ", token.id,
                      "; expected one near those of ", kTokenModel, ", ", vocab->size()));
    added.emplace(token.id, token.content);
    finder.add(token.content, token);
  }
  const Json settings = parse_json_object(files.at(kTokenConfig), config_path);
  has_blank_behind_tokens = json_truth(settings, "legacy", config_path).value_or(true);
}

void Units::Parts::read_ends(const std::string& origin) {
  ends = {eos};
  const auto file = files.find(kGeneration);
  if (file == files.end()) return;
  const std::string path = cat(origin, "/", kGeneration);
  for (const int64_t end : numbers_of(parse_json_object(file->second, path), kEndNumbers, path)) {
    if (end >= size() + kMostUnusedNumbers)
      throw Error(cat(path, ": ", kEndNumbers, ": got ", end, "; expected a token of the tokeniser, below ", size()));
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
  }
}

// The text between added tokens. The SentencePiece model puts a blank before each text; where it belongs to the
// beginning alone, a text is read behind the unknown token, which is taken off again, as transformers does.
void Units::Parts::encode(std::string_view text, std::vector<int32_t>& ids) const {
  const std::string unknown = vocab->piece(vocab->unk());
  for (const TokenOrText& part : finder.split(text)) {
    if (part.token) {
      ids.push_back(static_cast<int32_t>(*part.token));
    } else if (has_blank_behind_tokens || part.text.data() == text.data()) {
      vocab->encode(part.text, ids);
    } else {
      const size_t others = vocab->encode(unknown).size();
      const std::vector<int64_t> own = vocab->encode(cat(unknown, part.text));
      ids.insert(ids.end(), own.begin() + static_cast<std::ptrdiff_t>(std::min(others, own.size())), own.end());
    }
  }
}

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
  const auto is_known = [](const auto& file) {
    return std::ranges::find(kTokenFiles, file.first) != kTokenFiles.end();
  };
  const bool has_tokens = files.contains(kTokenizer) || files.contains(kTokenModel);
  if (config == files.end() || !has_tokens || !std::ranges::all_of(files, is_known))
    throw Error(cat(origin, ": got ", files.size(), " files of units; expected ", kBytesFile, ", ", kVocabFile, " or ",
                    kTokenConfig, " with ", kTokenizer, " or ", kTokenModel));
  const std::string config_path = cat(origin, "/", kTokenConfig);
  auto parts = std::make_shared<Parts>();
  parts->files = files;
  if (counts_tokenizer_json(files, origin)) {
    const std::string path = cat(origin, "/", kTokenizer);
    parts->pairs.emplace(parse_byte_pairs_json(files.at(kTokenizer), path), path);
  } else {
    parts->vocab.emplace(Vocab::from_bytes(files.at(kTokenModel), cat(origin, "/", kTokenModel)));
    parts->read_added(origin);
  }
  const auto number = [&](const char* name) -> std::optional<int64_t> {
    const std::optional<std::string> token = token_of_config(config->second, name, config_path);
    if (!token) return std::nullopt;
    const std::optional<int64_t> id = parts->find(*token);
    if (!id) throw Error(cat(config_path, ": ", name, ": got '", *token, "'; expected a token of the tokeniser"));
    return id;
  };
  const std::optional<int64_t> eos = number("eos_token");
  if (!eos) throw Error(cat(config_path, ": eos_token is missing; expected the token that ends a text"));
  parts->begin = parts->eos = *eos;
  const bool adds_begin = add_bos_of_config(config->second, config_path).value_or(!parts->pairs);
  if (parts->pairs && !parts->pairs->model().begin_content.empty()) {
    parts->begin = parts->pairs->find(parts->pairs->model().begin_content);
  } else if (adds_begin) {
    const std::optional<int64_t> begin = number("bos_token");
    if (!begin) throw Error(cat(config_path, ": bos_token is missing; expected the token that begins a text"));
    parts->begin = *begin;
  }
  parts->read_ends(origin);
  return Units(std::move(parts));
}

std::map<std::string, std::string> token_files(const std::string& folder) {
  const std::filesystem::path path = folder;
  std::map<std::string, std::string> files;
  for (const std::string_view name : kTokenFiles)
    if (std::filesystem::exists(path / name)) files[std::string(name)] = read_file(path / name);
  if (!files.contains(kTokenizer) && !files.contains(kTokenModel))
    throw Error(cat("'", folder, "' has no ", kTokenizer, " and no ", kTokenModel, "; expected one"));
  if (!files.contains(kTokenConfig))
    throw Error(cat("'", folder, "' has no ", kTokenConfig, "; expected it beside ",
                    files.contains(kTokenizer) ? kTokenizer : kTokenModel));
  const std::string config = path / kModelConfig;
  if (!files.contains(kGeneration) && std::filesystem::exists(config)) {
    const std::vector<int64_t> ends =
        numbers_of(parse_json_object(read_text_file(config), config), kEndNumbers, config);
    if (!ends.empty()) files[kGeneration] = nlohmann::ordered_json{{kEndNumbers, ends}}.dump(2) + "\n";
  }
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
std::vector<int64_t> Units::ends() const { return is_of_folder() ? parts_->ends : std::vector{eos()}; }
std::optional<int64_t> Units::find(const std::string& token) const {
  return is_of_folder() ? parts_->find(token) : std::nullopt;
}
std::optional<Units::ChatForm> Units::chat_form() const {
  if (!is_of_folder()) return std::nullopt;
  const std::map<std::string, std::string>& files = parts_->files;
  const std::string& config = files.at(kTokenConfig);
  ChatForm form;
  if (const auto own = files.find(kChatTemplate); own != files.end()) {
    form.text = own->second, form.file = kChatTemplate;
  } else {
    const Json settings = parse_json_object(config, kTokenConfig);
    const Json* found = find_json(settings, "chat_template");
    // A list of templates by their names.
    if (found != nullptr && found->is_array()) {
      const auto usual = std::ranges::find_if(
          *found, [](const Json& one) { return one.is_object() && one.value("name", Json()) == "default"; });
      found = usual == found->end() ? nullptr : find_json(*usual, "template");
    }
    if (found == nullptr || !found->is_string()) return std::nullopt;
    form.text = found->get<std::string>(), form.file = kTokenConfig;
  }
  form.begin = token_of_config(config, "bos_token", kTokenConfig).value_or("");
  form.end = token_of_config(config, "eos_token", kTokenConfig).value_or("");
  return form;
}
bool Units::drops_first_blank() const { return !is_bytes() && parts_->pairs && parts_->pairs->model().drops_blank; }
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
  if (is_of_folder()) return parts_->encode(text, ids);
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
  const bool has_blanks = std::ranges::any_of(parts_->added, [](const auto& token) {  // its id and its text
    return token.second.find(' ') != std::string::npos;
  });
  return vocab()->splits_at_blanks() && !has_blanks ? cut_at_blank(text, most) : 0;
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
  if (parts_->pairs) return parts_->pairs->surface(id);
  const auto added = parts_->added.find(id);
  return added != parts_->added.end() ? added->second : id < vocab()->size() ? vocab()->surface(id) : "";
}

bool Units::is_partial(int64_t id) const {
  if (id == eos()) return false;
  return is_bytes() || id >= parts_->size() || (parts_->pairs ? true : id < vocab()->size() && vocab()->is_byte(id));
}

}  // namespace fovea::text
