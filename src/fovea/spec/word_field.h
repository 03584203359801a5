#pragma once
#include <string_view>

namespace fovea {

// A last argument that may be left out: one of the words, which stand for the values of an enumeration behind its
// first. A name whose only argument this is may stand without parentheses.
template <class T, class Choice>
struct WordField {
  Choice T::*member;
  std::string_view words;  // "causal|random"
};

}  // namespace fovea
