#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Texts of specs and what operators tell about them, for the operators that users call and for Python.
namespace fovea {

// Returns the canonical text of a layer. Throws an Error if the text does not parse, or does not fit `num_heads`.
std::string canonical_layer(std::string_view spec, std::optional<int64_t> num_heads);

// Returns the names among gain, gate, bias and alpha that a layer of this spec has as parameters.
std::vector<std::string> parameter_names(std::string_view spec);

// Returns the properties of a layer of this spec, other than its parameters.
//     positional    compares positions of queries and keys: self-attention only
//     seed          draws pairs from (seed, layer, head)
//     selection     selects among the candidates
//     pointwise     a weight is a function of its own score alone, in all heads
//     norm          has a norm of the concatenated heads
//     span          some head has an adaptive span, whose mask the caller gives
//     clauses       some head attends within clauses of a text, which operators do not know
//     centroids     some head is routed by centroids, which models learn
//     indexer       an indexer chooses the keys of all heads, which models learn
//     gate          the layer's input gates its outputs, which fovea.Attention has and the function does not
//     head_scale    some head's queries have SSMax's factor, which fovea.Attention has too
//     input_scale   some head's queries have ASEntmax's factor
//     open_bias     some sigmoid's bias is to be set from the greatest length of a training
//     uniform_gain  its gain starts uniform in +-sqrt(3 / width), not at one
//     head_gain     the width in this formula is that of one head
std::vector<std::string> property_names(std::string_view spec);

// Returns "part\tname\targuments\thelp\tfields" of everything that a spec may name, patterns first. The part of a
// pattern that joins no other is its name; fields are "name:least:greatest:step:keyword,...": see SpecArgument.
std::vector<std::string> spec_name_lines();

}  // namespace fovea
