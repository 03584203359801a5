#include "fovea/serve/http.h"

#include <algorithm>
#include <array>

#include "fovea/base/strings.h"

namespace fovea::serve {

std::string_view Request::header(std::string_view name) const {
  const std::string wanted = lower(name);
  const auto found = std::ranges::find_if(headers, [&](const Header& header) { return lower(header.first) == wanted; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view reason_of(int status) {
  struct Reason {
    int status;
    std::string_view words;
  };
  static constexpr std::array kReasons = {
      Reason{200, "OK"},
      Reason{201, "Created"},
      Reason{204, "No Content"},
      Reason{400, "Bad Request"},
      Reason{401, "Unauthorized"},
      Reason{403, "Forbidden"},
      Reason{404, "Not Found"},
      Reason{405, "Method Not Allowed"},
      Reason{408, "Request Timeout"},
      Reason{413, "Payload Too Large"},
      Reason{415, "Unsupported Media Type"},
      Reason{429, "Too Many Requests"},
      Reason{431, "Request Header Fields Too Large"},
      Reason{456, "Quota Exceeded"},
      Reason{500, "Internal Server Error"},
      Reason{501, "Not Implemented"},
      Reason{503, "Service Unavailable"},
      Reason{504, "Gateway Timeout"},
  };
  const auto* const found = std::ranges::find(kReasons, status, &Reason::status);
  return found == kReasons.end() ? "Unknown" : found->words;
}

}  // namespace fovea::serve
