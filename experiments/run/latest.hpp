// What was made last, in case it is wanted again.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tessera {

/// The last value made, kept until another key is asked for.
template <class T>
class LastValueCache {
 public:
  template <class Make>
  const T& get(const std::string& key, Make make) {
    if (!value_ || key_ != key) {
      value_.reset();
      value_.emplace(make());
      key_ = key;
    }
    return *value_;
  }
  const T* find(const std::string& key) const { return value_ && key_ == key ? &*value_ : nullptr; }
  void put(const std::string& key, T value) {
    value_.emplace(std::move(value));
    key_ = key;
  }

 private:
  std::string key_;
  std::optional<T> value_;
};

}  // namespace tessera
