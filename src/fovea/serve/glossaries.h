#pragma once
#include <map>
#include <memory>
#include <string>

#include "fovea/text/terms.h"

namespace fovea::serve {

// DeepL's glossaries, in memory.
struct Glossary {
  std::string id, name, source, target;  // languages in lower case
  std::string created;                   // "2026-11-26T05:33:00.000000Z"
  std::string entries;                   // the lines SOURCE<TAB>TARGET, as they came
  std::shared_ptr<const text::TermList> terms;
};
using Glossaries = std::map<std::string, Glossary>;  // by id

}  // namespace fovea::serve
