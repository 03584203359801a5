#include "fovea/text/tokenizer_json.h"

#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/added_tokens_json.h"
#include "fovea/text/json_values.h"

namespace fovea::text {
namespace {

// The text of `name` in an object that may be missing.
std::string type_of_part(const Json& root, const std::string& part, const std::string& origin) {
  const Json* const object = find_json(root, part);
  if (object == nullptr) return "none";
  return json_text(json_object(root, part, origin), "type", cat(origin, ": ", part)).value_or("none");
}

void require_type(const Json& root, const std::string& part, const std::string& expected, const std::string& origin) {
  const std::string type = type_of_part(root, part, origin);
  if (type != expected)
    throw Error(
        cat(origin, ": ", part, ": got the type '", type, "'; expected ", expected, ", as BERT's tokenisers have"));
}

// The pieces as lines of a vocab.txt, in the order of their numbers.
std::string lines_of_vocabulary(const Json& vocabulary, const std::string& place) {
  const auto most = static_cast<int64_t>(vocabulary.size()) + kMostUnusedNumbers;
  std::vector<std::string> pieces;
  std::vector<bool> is_used;
  for (const auto& [piece, number] : vocabulary.items()) {
    const auto id = static_cast<size_t>(whole_json(number, {0, most}, cat(place, ": the piece '", piece, "'")));
    if (piece.find_first_of("\r\n") != std::string::npos)
      throw Error(cat(place, ": the piece of the number ", id, " has a line end; expected pieces of words"));
    if (id >= pieces.size()) pieces.resize(id + 1), is_used.resize(id + 1);
    if (is_used[id])
      throw Error(cat(place, ": the pieces '", pieces[id], "' and '", piece, "' both have the number ", id));
    pieces[id] = piece, is_used[id] = true;
  }
  return pieces.empty() ? "" : cat(join(pieces, "\n"), "\n");
}

WordPieceOptions options_of_normalizer(const Json& root, const std::string& origin) {
  require_type(root, "normalizer", "BertNormalizer", origin);
  require_type(root, "pre_tokenizer", "BertPreTokenizer", origin);
  const Json& normalizer = json_object(root, "normalizer", origin);
  const std::string place = cat(origin, ": normalizer");
  WordPieceOptions options;
  options.lowercase = json_truth(normalizer, "lowercase", place).value_or(true);
  options.strip_accents = json_truth(normalizer, "strip_accents", place).value_or(options.lowercase);
  options.split_chinese = json_truth(normalizer, "handle_chinese_chars", place).value_or(true);
  options.drop_controls = json_truth(normalizer, "clean_text", place).value_or(true);
  return options;
}

// The tokens that the post-processor puts around a text.
void read_ends(const Json& root, WordPieceRules& rules, const std::string& origin) {
  if (find_json(root, "post_processor") == nullptr) return;
  const Json& object = json_object(root, "post_processor", origin);
  const std::string place = cat(origin, ": post_processor"), type = type_of_part(root, "post_processor", origin);
  const auto refuse = [&] {
    throw Error(cat(place, ": got other tokens around a text; expected one before it and one behind it"));
  };
  const auto special = [&](const Json& part) {
    const bool fits = part.is_object() && part.contains("SpecialToken") && part["SpecialToken"].is_object() &&
                      part["SpecialToken"].contains("id") && part["SpecialToken"]["id"].is_string();
    if (!fits) refuse();
    return part["SpecialToken"]["id"].get<std::string>();
  };
  if (type == "BertProcessing") {
    for (const auto& [name, token] : {std::pair("cls", &rules.begin), std::pair("sep", &rules.end)}) {
      const Json* const pair = find_json(object, name);
      if (pair == nullptr || !pair->is_array() || pair->empty() || !(*pair)[0].is_string()) refuse();
      *token = (*pair)[0].get<std::string>();
    }
  } else if (type == "TemplateProcessing") {
    const Json* const single = find_json(object, "single");
    if (single == nullptr || !single->is_array() || single->size() != 3) refuse();
    if (!(*single)[1].is_object() || !(*single)[1].contains("Sequence")) refuse();
    rules.begin = special((*single)[0]), rules.end = special((*single)[2]);
  } else {
    throw Error(cat(place, ": got the type '", type, "'; expected TemplateProcessing or BertProcessing"));
  }
}

WordPieceRules rules_of(const Json& root, const Json& model, const std::string& origin) {
  const std::string place = cat(origin, ": model");
  WordPieceRules rules;
  rules.unknown = json_text(model, "unk_token", place).value_or(rules.unknown);
  rules.continued = json_text(model, "continuing_subword_prefix", place).value_or(rules.continued);
  if (find_json(model, "max_input_chars_per_word") != nullptr)
    rules.most_characters = json_number(model, "max_input_chars_per_word", {0, 1'000'000'000}, place);
  read_ends(root, rules, origin);
  return rules;
}

std::vector<AddedToken> tokens_of_list(const Json& list, const std::string& place) {
  if (!list.is_array()) throw Error(cat(place, ": got ", shown_json(list), "; expected a list"));
  std::vector<AddedToken> tokens;
  for (const Json& object : list) {
    const std::string own = cat(place, " ", tokens.size() + 1);
    if (!object.is_object()) throw Error(cat(own, ": got ", shown_json(object), "; expected an object"));
    tokens.push_back(added_token_of(object, json_number(object, "id", kTokenNumbers, own), own));
  }
  return tokens;
}

}  // namespace

AddedToken added_token_of(const Json& object, int64_t id, const std::string& place) {
  const std::optional<std::string> content = json_text(object, "content", place);
  if (!content || content->empty()) throw Error(cat(place, ": content is missing; expected the token's text"));
  AddedToken token{.content = *content, .id = id};
  const auto truth = [&](const char* name) { return json_truth(object, name, place).value_or(false); };
  token.single_word = truth("single_word");
  token.lstrip = truth("lstrip");
  token.rstrip = truth("rstrip");
  token.normalized = truth("normalized");
  token.special = truth("special");
  return token;
}

WordPieceModel parse_tokenizer_json(const std::string& text, const std::string& origin) {
  const Json root = parse_json_object(text, origin);
  const Json& model = json_object(root, "model", origin);
  // Old files do not name the type; only WordPiece has a prefix of continued words and a longest word.
  const bool is_word_piece = model.contains("continuing_subword_prefix") && model.contains("max_input_chars_per_word");
  if (model.contains("type") || !is_word_piece) require_type(root, "model", "WordPiece", origin);
  WordPieceModel result;
  result.pieces = lines_of_vocabulary(json_object(model, "vocab", cat(origin, ": model")), cat(origin, ": vocab"));
  result.options = options_of_normalizer(root, origin);
  result.rules = rules_of(root, model, origin);
  if (const Json* const added = find_json(root, "added_tokens"))
    result.added = tokens_of_list(*added, cat(origin, ": added_tokens"));
  return result;
}

std::vector<AddedToken> parse_added_tokens(const std::string& text, const std::string& origin) {
  const Json list = Json::parse(text, nullptr, false);
  if (list.is_discarded()) throw Error(cat(origin, ": is not JSON"));
  return tokens_of_list(list, origin);
}

std::string print_added_tokens(std::span<const AddedToken> tokens) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const AddedToken& token : tokens)
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  return list.dump(1) + "\n";
}

}  // namespace fovea::text
