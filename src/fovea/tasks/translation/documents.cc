#include "fovea/tasks/translation/documents.h"

#include <algorithm>
#include <utility>

#include "fovea/base/documents.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/data/document_corpus.h"
#include "fovea/models/line_source.h"

namespace fovea::translation {
namespace {

std::vector<Sentence> sentences_of(const Sentence& translation, int64_t eos) {
  std::vector<Sentence> sentences(1);
  for (const int64_t token : translation) {
    if (token == eos) {
      sentences.emplace_back();
    } else {
      sentences.back().push_back(token);
    }
  }
  if (sentences.back().empty()) sentences.pop_back();
  return sentences;
}

// Reads lines up to the end of the document in which line number `enough` lies.
class DocumentSource {
 public:
  DocumentSource(const std::string& path, size_t enough) : source_(path), enough_(enough) {}

  std::vector<std::string> next() {
    std::vector<std::string> lines = std::exchange(ahead_, {});
    for (;;) {
      std::vector<std::string> more = source_.next(enough_);
      if (more.empty()) return lines;
      const bool full = lines.size() + more.size() >= enough_;
      const auto end = full ? std::find_if(more.rbegin(), more.rend(), begins_document).base() : more.end();
      const bool ends = full && end != more.begin();  // the document line itself begins the next part
      const auto last = ends ? end - 1 : more.end();
      lines.insert(lines.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(last));
      ahead_.assign(std::make_move_iterator(last), std::make_move_iterator(more.end()));
      if (ends && !lines.empty()) return lines;
      if (ends) lines = std::exchange(ahead_, {});
    }
  }

 private:
  models::LineSource source_;
  size_t enough_;
  std::vector<std::string> ahead_;
};

}  // namespace

DocumentTranslator::DocumentTranslator(Translator& translator, int64_t block_tokens)
    : translator_(translator),
      block_(block_tokens <= translator.limit().tokens ? LineLimit{block_tokens, "--document-length"}
                                                       : translator.limit()) {}

std::vector<DocumentTranslator::Block> DocumentTranslator::blocks_of(std::span<const std::string> lines) {
  std::vector<Block> blocks;
  data::BlockCutter cutter(block_.tokens);
  bool in_document = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (begins_document(lines[i])) {
      cutter.end_document();
      in_document = false;
      continue;
    }
    Sentence tokens = translator_.source_vocab().encode(lines[i]);
    const int64_t length = std::ssize(tokens);
    if (data::cut_to_block(tokens, block_.tokens))
      cut_.warn(
          lines_before_ + static_cast<int64_t>(i) + 1,
          cat("has ", thousands(length), " tokens; cut to ", thousands(block_.tokens - 1), " (", block_.set_by, ")"));
    tokens.push_back(translator_.source_vocab().eos());
    if (!in_document) ++counts_.documents;
    in_document = true;
    if (cutter.begins_block({std::ssize(tokens), 0})) blocks.emplace_back();
    Block& block = blocks.back();
    block.tokens.insert(block.tokens.end(), tokens.begin(), tokens.end());
    block.lines.push_back(i);
  }
  return blocks;
}

void DocumentTranslator::fill(const Block& block, const Sentence& translation, std::vector<std::string>& lines) {
  const std::vector<Sentence> sentences = sentences_of(translation, translator_.target_vocab().eos());
  if (sentences.size() != block.lines.size()) ++counts_.uneven;
  for (size_t i = 0; i < sentences.size(); ++i) {
    std::string& line = lines[block.lines[std::min(i, block.lines.size() - 1)]];
    const std::string text = models::line_of(translator_.target_vocab(), sentences[i]);
    line += line.empty() || text.empty() ? text : cat(" ", text);
  }
}

std::vector<std::string> DocumentTranslator::translate(std::span<const std::string> lines) {
  const std::vector<Block> blocks = blocks_of(lines);
  std::vector<Sentence> sources;
  for (const Block& block : blocks) sources.push_back(block.tokens);
  const std::vector<Sentence> translations = translator_.translate_tokens(sources);
  std::vector<std::string> result(lines.size());
  for (size_t i = 0; i < lines.size(); ++i)
    if (trim(lines[i]) == kDocumentLine) result[i] = kDocumentLine;
  for (size_t i = 0; i < blocks.size(); ++i) fill(blocks[i], translations[i], result);
  counts_.blocks += std::ssize(blocks);
  counts_.lines += std::ssize(lines);
  lines_before_ += std::ssize(lines);
  return result;
}

int64_t translate_documents(const DecodeConfig& config) {
  require_other_file("--output", config.output, {config.input});
  DocumentSource input(config.input, static_cast<size_t>(config.maxi_batch * config.mini_batch));
  Translator translator(config);
  if (marks_both_sides(translator.model()))
    throw Error("--documents: the model has marks of languages before each sentence; translate lines, without it");
  DocumentTranslator documents(translator, config.document_length);
  LineWriter output(config.output);
  int64_t written = 0;
  try {
    for (;;) {
      const std::vector<std::string> lines = input.next();
      if (lines.empty()) break;
      for (const std::string& line : documents.translate(lines)) output.line(line);
      output.flush();
      written += std::ssize(lines);
    }
  } catch (...) {
    if (written > 0) models::keep_partial(output, count_lines(written));
    throw;
  }
  output.close();
  const DocumentCounts& counts = documents.counts();
  log::info(cat("translated ", count_lines(counts.lines), " in ", thousands(counts.documents),
                counts.documents == 1 ? " document, " : " documents, ", thousands(counts.blocks),
                counts.blocks == 1 ? " block; " : " blocks; ", thousands(counts.uneven),
                " with another number of sentences than their source"));
  if (documents.cut_lines() > 0)
    log::warn(cat(count_lines(documents.cut_lines()), documents.cut_lines() == 1 ? " was" : " were",
                  " longer than a block and cut"));
  return counts.lines;
}

}  // namespace fovea::translation
