#include "experiments/records/json_pattern.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace tessera {
namespace {

std::atomic<std::uint64_t> patterns = 0;

/// As memcmp() == 0. Most texts are so short that the call would take longest.
bool are_equal(const char* a, const char* b, std::size_t size) {
  const auto differ = [&]<class Word>(Word) {
    Word of_a, of_b;
    std::memcpy(&of_a, a, sizeof of_a);
    std::memcpy(&of_b, b, sizeof of_b);
    a += sizeof of_a;
    b += sizeof of_b;
    return of_a != of_b;
  };
  for (; size >= sizeof(std::uint64_t); size -= sizeof(std::uint64_t))
    if (differ(std::uint64_t{})) return false;
  if ((size & 4) != 0 && differ(std::uint32_t{})) return false;
  if ((size & 2) != 0 && differ(std::uint16_t{})) return false;
  return (size & 1) == 0 || *a == *b;
}

bool has_parts(const JsonValue& value) {
  return value.kind == JsonKind::kArray || value.kind == JsonKind::kObject;
}

/// Behind a value without parts; null where there is none of this kind.
const char* skip_value(const char* at, const char* end, JsonKind kind) {
  if (kind == JsonKind::kText) {
    if (at == end || *at != '"') return nullptr;
    at = skip_plain(at + 1, end);
    return at != end && *at == '"' ? at + 1 : nullptr;
  }
  if (kind == JsonKind::kNull) return skip_word(at, end, "null");
  if (kind == JsonKind::kBool) {
    const char* behind = skip_word(at, end, "true");
    return behind != nullptr ? behind : skip_word(at, end, "false");
  }
  JsonKind found = kind;
  at = skip_number(at, end, found);
  return found == kind ? at : nullptr;
}

}  // namespace

JsonPattern::JsonPattern(std::string_view line, const std::vector<JsonValue>& values)
    : number_(++patterns), text_(line), values_(values) {
  const auto own = [&](std::string_view part) {
    return part.empty() ? part
                        : std::string_view(text_).substr(part.data() - line.data(), part.size());
  };
  for (JsonValue& value : values_) {
    value.key = own(value.key);
    value.text = own(value.text);
  }
  find_leaves();
  find_containers();
  begins_.resize(leaves_.size());
}

void JsonPattern::find_leaves() {
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    if (has_parts(values_[i])) continue;
    const auto begin = static_cast<std::uint32_t>(values_[i].text.data() - text_.data());
    leaves_.push_back({at, begin - at, i});
    at = begin + static_cast<std::uint32_t>(values_[i].text.size());
  }
  leaves_.push_back({at, static_cast<std::uint32_t>(text_.size()) - at, 0});
}

void JsonPattern::find_containers() {
  // The text before a leaf that has this byte of the line.
  const auto leaf_at = [&](std::uint32_t byte) {
    const auto behind = std::ranges::upper_bound(leaves_, byte, {}, &Leaf::begin);
    return static_cast<std::uint32_t>(behind - leaves_.begin() - 1);
  };
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    if (!has_parts(values_[i])) continue;
    const auto first = static_cast<std::uint32_t>(values_[i].text.data() - text_.data());
    const auto last = first + static_cast<std::uint32_t>(values_[i].text.size()) - 1;
    const std::uint32_t first_leaf = leaf_at(first), last_leaf = leaf_at(last);
    containers_.push_back({i, first_leaf, first - leaves_[first_leaf].begin, last_leaf,
                           last - leaves_[last_leaf].begin});
  }
}

bool JsonPattern::read(std::string_view line) {
  const char *at = line.data(), *end = at + line.size();
  const std::size_t last = leaves_.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    const Leaf& leaf = leaves_[i];
    const auto left = static_cast<std::size_t>(end - at);
    if (i == last ? left != leaf.size : left < leaf.size) return false;
    if (!are_equal(at, text_.data() + leaf.begin, leaf.size)) return false;
    begins_[i] = at;
    at += leaf.size;
    if (i == last) break;
    JsonValue& value = values_[leaf.value];
    const char* behind = skip_value(at, end, value.kind);
    if (behind == nullptr) return false;
    value.text = {at, static_cast<std::size_t>(behind - at)};
    at = behind;
  }
  for (const Container& container : containers_) {
    const char* first = begins_[container.first_leaf] + container.first_offset;
    const char* behind = begins_[container.last_leaf] + container.last_offset + 1;
    values_[container.value].text = {first, static_cast<std::size_t>(behind - first)};
  }
  return true;
}

}  // namespace tessera
