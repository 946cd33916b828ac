// A cache of one value: the last one made.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tessera {

/// Keeps the last value made until a value of another key is needed.
template <class T, class Key = std::string>
class LastValueCache {
 public:
  template <class Make>
  const T& get(const Key& key, Make make) {
    if (!value_ || key_ != key) {
      value_.reset();
      value_.emplace(make());
      key_ = key;
    }
    return *value_;
  }
  const T* find(const Key& key) const { return value_ && key_ == key ? &*value_ : nullptr; }
  void put(const Key& key, T value) {
    value_.emplace(std::move(value));
    key_ = key;
  }

 private:
  Key key_;
  std::optional<T> value_;
};

}  // namespace tessera
