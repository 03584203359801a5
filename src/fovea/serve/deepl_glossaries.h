#pragma once
#include <memory>
#include <string>

#include "fovea/serve/context.h"

// DeepL's glossaries, which live in memory until the server stops.
namespace fovea::serve {

// The terms of a glossary. Throws an HttpError if it does not exist or is for other languages.
std::shared_ptr<const text::TermList> glossary_terms(const Context& context, const std::string& id,
                                                     const std::string& source, const std::string& target);

void make_glossary(Context& context, const std::shared_ptr<Exchange>& exchange);
void list_glossaries(Context& context, const std::shared_ptr<Exchange>& exchange);
void show_glossary(Context& context, const std::shared_ptr<Exchange>& exchange);
void show_glossary_entries(Context& context, const std::shared_ptr<Exchange>& exchange);
void delete_glossary(Context& context, const std::shared_ptr<Exchange>& exchange);
void show_glossary_pairs(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace fovea::serve
