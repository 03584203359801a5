#include "fovea/train/pass_records.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>

#include "fovea/base/error.h"

namespace fovea::train {
namespace {

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
T take(std::string_view& bytes) {
  T value;
  if (bytes.size() < sizeof value) throw Error("a process of this training sent a record that is cut short");
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}
std::string_view take_bytes(std::string_view& bytes) {
  const auto size = static_cast<size_t>(take<int64_t>(bytes));
  if (size > bytes.size()) throw Error("a process of this training sent a record that is cut short");
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}
void put_bytes(std::string& out, std::string_view bytes) {
  put(out, static_cast<int64_t>(bytes.size()));
  out += bytes;
}

std::string written(const PassRecord& record) {
  std::string out;
  put(out, record.pass);
  put(out, record.cost);
  put(out, record.weight);
  put(out, static_cast<int64_t>(record.notes.size()));
  for (const auto& [name, value] : record.notes) {
    put_bytes(out, name);
    put(out, value);
  }
  const std::vector<at::Tensor> sums = record.sums.tensors();
  put(out, static_cast<int64_t>(sums.size()));
  for (const at::Tensor& sum : sums) {
    const at::Tensor plain = sum.contiguous();
    put_bytes(out, {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()});
  }
  return out;
}

// `like` are sums of a pass of this process.
PassRecord read(std::string_view& bytes, const nn::UpdateSums* like) {
  PassRecord record{.pass = take<int64_t>(bytes), .cost = take<double>(bytes), .weight = take<double>(bytes)};
  for (auto left = take<int64_t>(bytes); left > 0; --left) {
    std::string name(take_bytes(bytes));
    record.notes.emplace_back(std::move(name), take<double>(bytes));
  }
  std::vector<at::Tensor> sums = like == nullptr ? std::vector<at::Tensor>() : like->tensors();
  const auto count = static_cast<size_t>(take<int64_t>(bytes));
  for (size_t i = 0; i < count; ++i) {
    const std::string_view values = take_bytes(bytes);
    if (like == nullptr) continue;
    at::Tensor& sum = sums.at(i);
    sum = at::empty_like(sum, at::MemoryFormat::Contiguous);
    if (values.size() != sum.nbytes()) throw Error("a process of this training sent sums of another size");
    std::memcpy(sum.mutable_data_ptr(), values.data(), values.size());
  }
  if (like != nullptr) record.sums = like->with(sums);
  return record;
}

}  // namespace

Notes::Sum& Notes::sum_of(std::string_view name) {
  const auto found = std::ranges::find(sums_, name, &Sum::name);
  return found != sums_.end() ? *found : sums_.emplace_back(Sum{std::string(name)});
}

void Notes::add(std::string_view name, double value, double weight) {
  Sum& sum = sum_of(name);
  sum.total += weight * value;
  sum.weight += weight;
}

void Notes::add(const Notes& other) {
  for (const Sum& from : other.sums_) {
    Sum& sum = sum_of(from.name);
    sum.total += from.total;
    sum.weight += from.weight;
  }
}

std::vector<std::pair<std::string, double>> Notes::means() const {
  std::vector<std::pair<std::string, double>> means;
  for (const Sum& sum : sums_) means.emplace_back(sum.name, sum.total / sum.weight);
  return means;
}

std::vector<PassRecord> gathered(Collective& team, std::vector<PassRecord> own) {
  if (team.size() == 1) return own;
  std::string bytes;
  for (const PassRecord& record : own) bytes += written(record);
  const nn::UpdateSums* like = own.empty() ? nullptr : &own.front().sums;
  std::vector<PassRecord> all;
  for (const std::string& part : team.gather(bytes)) {
    std::string_view rest = part;
    while (!rest.empty()) all.push_back(read(rest, like));
  }
  std::ranges::sort(all, {}, &PassRecord::pass);
  return all;
}

}  // namespace fovea::train
