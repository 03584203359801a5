#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/text/corpus_options.h"

namespace fovea::text {

struct Pair {
  std::string source, target;
  std::string alignment = {};  // "0-0 1-2 ...", known for generated pairs only
};

struct Bitext {
  std::string source_lang, target_lang;  // empty where the files do not say
  std::vector<Pair> pairs;
  int64_t unfinished = 0;         // translated, but marked as in need of work; not among the pairs
  bool source_by_custom = false;  // the source language is that of the format's custom; no file says it
};

// The numbers of pairs that were read, changed and dropped; the reasons are in the order of the tests.
struct CorpusReport {
  struct Count {
    std::string what;
    int64_t pairs = 0;
  };
  struct Part {
    std::string name;
    int64_t pairs = 0, source_words = 0, target_words = 0;
  };
  int64_t read = 0, segments = 0;  // pairs in the files; and after they were split into sentences
  std::vector<Count> changed, dropped;
  std::vector<Part> parts;
  std::vector<std::string> files;  // written
};

// Reads, cleans, splits and writes. Throws an Error when nothing is left, saying why.
CorpusReport run_corpus(const CorpusOptions& options);

// A table of the report, for people.
std::string describe(const CorpusReport& report);

}  // namespace fovea::text
