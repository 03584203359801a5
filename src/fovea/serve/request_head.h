#pragma once
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>

#include <string>

#include "fovea/serve/http.h"

// Heads of requests out of the HTTP library, for connection.cc.
namespace fovea::serve {

// Returns the method, path, query and headers. Proxies may ask for a whole address, http://host/path.
Request head_of(const boost::beast::http::request_header<>& head);

// Says what is wrong with the way in which the head tells the end of its body; "" if nothing is. A proxy before this
// server may see another end than the parser, which knows chunks and nothing else.
std::string wrong_framing(const boost::beast::http::request_header<>& head);

// Says what is wrong with the headers Host; "" if nothing is.
std::string wrong_host(const boost::beast::http::request_header<>& head);

}  // namespace fovea::serve
