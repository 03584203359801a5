#pragma once
#include <memory>
#include <span>
#include <string>

#include "fovea/serve/context.h"

namespace fovea::serve {

// /v2/glossaries and /v3/glossaries.
std::span<const Route> deepl_glossary_routes();

// The terms of a glossary. Throws an HttpError if it does not exist or is for other languages.
std::shared_ptr<const text::TermList> glossary_terms(const Context& context, const std::string& id,
                                                     const std::string& source, const std::string& target);

}  // namespace fovea::serve
