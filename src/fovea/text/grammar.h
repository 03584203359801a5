#pragma once
#include <cstdint>
#include <vector>

#include "fovea/text/corpus.h"

// Sentences of two made-up languages and their true word alignments, where no real text is at hand.
//
// The source puts subject, verb, object and place in this order. The target
//   - keeps the finite verb second in a main clause, whatever comes first, and last in a subordinate one;
//   - says the past with an auxiliary in the verb's place and a participle at the end;
//   - gives each noun one of three classes, with which articles and adjectives agree in class and number;
//   - writes two nouns in a row as one word;
//   - negates behind the object, the source before the verb.
namespace fovea::text {

struct GrammarOptions {
  int64_t pairs = 30'000;
  int64_t seed = 1;  // of the sentences; the languages are always the same
};

// Different sources, tokens apart by blanks, alignments as "source-target" positions from 0. Languages "src" and "trg".
Bitext generate_bitext(const GrammarOptions& options);

}  // namespace fovea::text
