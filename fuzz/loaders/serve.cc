#include <algorithm>
#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/serve/markup.h"
#include "fovea/serve/markup_tokens.h"
#include "fovea/serve/request_fields.h"
#include "fovea/serve/split_text.h"
#include "loaders/loaders.h"

// Requests to the server.
namespace fovea::fuzz {
namespace {

std::vector<std::string> tags_of(std::string_view markup, serve::MarkupKind kind) {
  std::vector<std::string> tags;
  serve::MarkupTokens tokens(markup, kind);
  while (const auto token = tokens.next())
    if (token->kind != serve::MarkupToken::Kind::kText) tags.emplace_back(token->bytes);
  std::ranges::sort(tags);
  return tags;
}

}  // namespace

void load_request(std::string_view bytes) {
  if (bytes.empty()) return;
  serve::Request request;
  const bool is_form = bytes[0] % 2 != 0;
  request.headers.emplace_back("Content-Type", is_form ? "application/x-www-form-urlencoded" : "application/json");
  const std::string_view rest = bytes.substr(1);
  const size_t query_size = std::min(rest.find('\0'), rest.size());
  request.query = rest.substr(0, query_size);
  request.body = rest.substr(std::min(query_size + 1, rest.size()));
  const serve::Fields fields(request);
  for (const char* const name : {"q", "text", "n"}) {
    try {
      for (const std::string& text : fields.texts(name)) require(is_valid_utf8(text), "a field is not UTF-8");
      (void)fields.whole(name, 0, 9);
    } catch (const serve::HttpError& error) {
      require(error.status() == 400, "a wrong field has another status than 400");
    }
  }
}

// The server refuses longer sentences before they are translated, so marks are placed in short ones alone.
constexpr size_t kLongestSentence = 4096;

void load_markup(std::string_view bytes) {
  static text::SentenceSplitter splitter("en");
  if (!is_valid_utf8(bytes)) return;  // requests with other bytes are refused before
  for (const serve::MarkupKind kind : {serve::MarkupKind::kHtml, serve::MarkupKind::kXml}) {
    std::string output;
    bool is_refused = false;
    for (const serve::MarkupPart& part : serve::parse_markup(bytes, kind, &splitter)) {
      is_refused = is_refused || part.text.size() > kLongestSentence;
      if (is_refused) break;
      const std::string translation = part.text.substr(0, part.text.size() / 2) + " w.";
      analysis::Links links;
      for (int64_t i = 0; i < 5; ++i) links.push_back({i * 3 % 5, i});
      output += part.text.empty() ? part.bytes : serve::translated_markup(part, translation, links);
    }
    if (!is_refused && is_valid_utf8(output))
      require(tags_of(output, kind) == tags_of(bytes, kind), "the tags are others");
  }
}

void load_paragraphs(std::string_view bytes) {
  static text::SentenceSplitter splitter("en");
  if (!is_valid_utf8(bytes)) return;
  for (const auto where : {serve::Splitting::kLines, serve::Splitting::kBoth}) {
    const serve::SplitText split = serve::split_text(bytes, where, splitter);
    require(serve::join_text(split, split.sentences) == bytes, "sentences and gaps are not the text");
  }
}

}  // namespace fovea::fuzz
