#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/analysis/alignment.h"
#include "fovea/text/sentences.h"

// HTML and XML whose text is translated. Tags keep their bytes; their places follow the alignment of the words.
namespace fovea::serve {

enum class MarkupKind { kHtml, kXml };

// An element within a sentence, or a mark without words: a comment, an image, an element that is not translated.
struct InlineMark {
  std::string opening, closing;  // bytes; `closing` is "" for a mark that is one tag
  int64_t begin = 0, end = 0;    // the words of the sentence that lie within: [begin, end)
  int64_t parent = -1;           // the number of the element around it; -1: none
  bool blank_before = false, blank_after = false;
  std::string head, tail;  // punctuation of the first and the last word that stands outside: the "." of "<b>x</b>."
};

struct MarkupPart {
  std::string bytes;              // stays as it is, before the sentence
  std::string text;               // a sentence in plain text, words apart by one blank; "" if there is none
  std::vector<InlineMark> marks;  // as they begin in the text, a parent before its children
};

// Splits markup into parts, at block elements and, with a splitter, between sentences that no element joins. Scripts,
// styles, comments, declarations and elements with translate="no" or the class notranslate stay byte for byte, and so
// do references to entities that are not HTML's. Never throws: bytes that are not a tag are text, and a tag without its
// partner is a mark without words.
std::vector<MarkupPart> parse_markup(std::string_view markup, MarkupKind kind, text::SentenceSplitter* splitter);

// Returns the part's markup with a translation in place of its sentence, the marks around the words that `links`, from
// source words to target words, give them.
std::string translated_markup(const MarkupPart& part, std::string_view translation, const analysis::Links& links);

std::string escaped_markup(std::string_view text);  // & < > become &amp; &lt; &gt;

}  // namespace fovea::serve
