#include "fovea/base/strings.h"
#include "fovea/serve/html_form.h"
#include "fovea/serve/markup.h"
#include "fovea/serve/request_fields.h"
#include "fovea/serve/split_text.h"
#include "growth.h"

// Requests to the server.
namespace fovea::growth {
namespace {

text::SentenceSplitter& english() {
  static text::SentenceSplitter splitter("en");
  return splitter;
}

// Parses markup and writes it with other words in each sentence, which are all linked to each other's neighbours.
void translate_markup(const std::string& markup, serve::MarkupKind kind) {
  for (const serve::MarkupPart& part : serve::parse_markup(markup, kind, &english())) {
    if (part.text.empty()) continue;
    const std::string translation = part.text.substr(0, 500) + " w.";
    analysis::Links links;
    for (int64_t i = 0; i < 100; ++i) links.push_back({i, i});
    (void)serve::translated_markup(part, translation, links);
  }
}

void read_fields(const std::string& body, std::string_view type) {
  serve::Request request;
  request.headers.emplace_back("Content-Type", type);
  request.body = body;
  const serve::Fields fields(request);
  if (fields.has("text")) (void)fields.texts("text");
}

}  // namespace

std::vector<Case> markup_cases() {
  std::vector<Case> cases;
  for (const char* const unit : {"x<b>x</b>",
                                 "<b>",
                                 "</b>",
                                 "<b>x",
                                 "<i>x</b>",
                                 "!<b>!</b>",
                                 "x <br> <img> ",
                                 "<b>x</b> <i>y</i>. ",
                                 "<!--",
                                 "<![CDATA[",
                                 "<!x[",
                                 "<!doctype [",
                                 "<?x",
                                 "<a b=\"",
                                 "<a b=' ",
                                 "<",
                                 "</",
                                 "< ",
                                 "<script>",
                                 "</script",
                                 "<script></scrip",
                                 "<p translate=no>",
                                 "<p class='notranslate'>x</p>",
                                 "&amp;",
                                 "&",
                                 "&x",
                                 "&amp ",
                                 "<p>x.",
                                 "<pre>x\n",
                                 "\n",
                                 "a. ",
                                 "\u3002",
                                 "\u3002<b>x</b>",
                                 "<b></b>",
                                 "<x><y>",
                                 "<x><y/></x>",
                                 "&nbsp;",
                                 "\u00a0"}) {
    for (const auto kind : {serve::MarkupKind::kHtml, serve::MarkupKind::kXml}) {
      const std::string name = cat(kind == serve::MarkupKind::kHtml ? "HTML " : "XML ", one_line(unit));
      cases.push_back(on_text(name, 1 << 16, repeat(unit), [kind](const auto& s) { translate_markup(s, kind); }));
    }
  }
  for (const char* const unit : {"a=b ", "a ", "class='x' ", "/", "= ", "a=\"b\" "}) {
    const auto make = [unit](size_t bytes) { return cat("x <b ", repeated(unit, bytes), ">y</b>"); };
    cases.push_back(on_text(cat("HTML attributes ", unit), 1 << 16, make,
                            [](const auto& s) { translate_markup(s, serve::MarkupKind::kHtml); }));
  }
  return cases;
}

std::vector<Case> request_cases() {
  std::vector<Case> cases;
  const auto json = [&](const std::string& name, const std::string& begin, Make make, const std::string& end) {
    cases.push_back(on_text(
        cat("JSON ", name), 1 << 16, [=](size_t bytes) { return begin + make(bytes) + end; },
        [](const auto& body) { read_fields(body, "application/json"); }));
  };
  json("a text", "{\"text\": \"", repeat("x"), "\"}");
  json("escapes", "{\"text\": \"", repeat("\\u00e4\\n"), "\"}");
  json("texts", "{\"text\": [\"\"", repeat(",\"x\""), "]}");
  json("keys", "{\"text\": \"x\"", number(",\"k#\":0"), "}");
  json("one key", "{\"text\": \"x\"", repeat(",\"k\":0"), "}");
  json("numbers", "{\"text\": \"x\", \"n\": [0", repeat(",1e9"), "]}");
  json("a number", "{\"text\": \"x\", \"n\": 0.", repeat("7"), "}");
  json("lists", "{\"text\": \"x\", \"n\": [0", repeat(",[[]]"), "]}");
  json("depth", "{\"text\": ", repeat("["), "}");
  cases.back().refusal = "nested more than 32 levels";
  json("blanks", "{\"text\": \"x\"", repeat(" "), "}");
  json("no end", "{\"text\": \"", repeat("x"), "");
  cases.back().refusal = "ends too early";
  const auto form = [&](const std::string& name, Make make) {
    cases.push_back(on_text(cat("form ", name), 1 << 16, std::move(make),
                            [](const auto& body) { read_fields(body, "application/x-www-form-urlencoded"); }));
  };
  form("escapes", [](size_t bytes) { return "text=" + repeated("%41+", bytes); });
  form("fields", number("f#=x&"));
  form("one field", repeat("text=x&"));
  form("empty fields", repeat("&"));
  form("names alone", number("f#&"));
  for (const char* const unit : {"a. ", "a.\n", "\n", "\r\n\r\n", " ", "e.g. ", "1. ", "Dr. ", ".", "x", "\u3002",
                                 "?! ", "A. b ", "\u00a0", "(a.) "})
    for (const auto where : {serve::Splitting::kLines, serve::Splitting::kSentences, serve::Splitting::kBoth}) {
      const std::string name = cat("sentences ", static_cast<int>(where), " ", one_line(unit));
      cases.push_back(on_text(name, 1 << 16, repeat(unit), [where](const auto& s) {
        const serve::SplitText split = serve::split_text(s, where, english());
        (void)serve::join_text(split, split.sentences);
      }));
    }
  return cases;
}

}  // namespace fovea::growth
