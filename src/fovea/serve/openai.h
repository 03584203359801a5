#pragma once
#include <memory>
#include <string>

#include "fovea/serve/context.h"

namespace fovea::serve {

// POST /v1/completions, for models that continue texts.
void complete(Context& context, const std::shared_ptr<Exchange>& exchange);

// An event of a stream: "data: {...}" and an empty line.
std::string event_text(const Json& event);
Response event_stream();  // the head of a stream of events
bool wants_stream_usage(const Fields& fields);

}  // namespace fovea::serve
