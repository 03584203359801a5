#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/clause_dictionary.h"
#include "fovea/text/vocab.h"

// Split-level flags (Clause Attention, section 3.2): a piece <c1> to <c6> before each signal word, the level of its
// kind.
namespace fovea::text {

// The pieces: control pieces of vocabularies that `fovea vocab --clause-flags` writes.
std::vector<std::string> clause_flags();

bool is_clause_flag(const Vocab& vocab, int64_t id);

// Makes `vocab` encode lines with the flag of each signal word before the piece in which the word begins. Throws an
// Error that begins with `name` if the vocabulary lacks a flag.
void add_clause_flags(Vocab& vocab, const ClauseDictionary& dictionary, std::string_view name);

}  // namespace fovea::text
