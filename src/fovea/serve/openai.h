#pragma once
#include <memory>
#include <string>

#include "fovea/serve/context.h"

namespace fovea::serve {

// POST /v1/completions, for models that continue texts.
void complete(Context& context, const std::shared_ptr<Exchange>& exchange);

// POST /v1/chat/completions for such models.
void continue_chat(Context& context, const std::shared_ptr<Exchange>& exchange, const Fields& fields,
                   std::shared_ptr<ServedModel> model);
// POST /tokenize: the tokens that a model reads of a prompt or a conversation.
void show_tokens(Context& context, const std::shared_ptr<Exchange>& exchange);
// The text of a message of a chat, whose content is a text or a list of parts.
std::string content_of(const Json& message);

// An event of a stream: "data: {...}" and an empty line.
std::string event_text(const Json& event);
Response event_stream();  // the head of a stream of events
bool wants_stream_usage(const Fields& fields);

}  // namespace fovea::serve
