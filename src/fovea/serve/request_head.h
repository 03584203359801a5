#pragma once
#include <boost/beast/http/message.hpp>
#include <string>

#include "fovea/serve/http.h"

// The head of a request, out of the HTTP library's form of it.
namespace fovea::serve {

// Method, path, query and headers. Proxies may ask for a whole address, http://host/path.
Request head_of(const boost::beast::http::request_header<>& head);

// Says what is wrong with the way in which the head tells the end of its body; "" if nothing is. A proxy before this
// server may see another end than the parser, which knows chunks and nothing else.
std::string wrong_framing(const boost::beast::http::request_header<>& head);

}  // namespace fovea::serve
