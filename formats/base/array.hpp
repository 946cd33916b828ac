// An immutable array that shares its storage: owned by a vector, or a piece of a mapped file.
//
// With it a matrix from the cache maps its file, and copies of a matrix share their arrays.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tessera {

template <class T>
class Array {
 public:
  Array() = default;

  /// Takes ownership of the vector, without a copy.
  Array(
      std::vector<T> values) {  // NOLINT(google-explicit-constructor): every builder fills vectors
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    view_ = *owner;
    owner_ = std::move(owner);
  }

  /// A view into memory that `owner` keeps alive.
  Array(std::span<const T> view, std::shared_ptr<const void> owner)
      : view_(view), owner_(std::move(owner)) {}

  std::size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  const T* data() const { return view_.data(); }
  const T* begin() const { return view_.data(); }
  const T* end() const { return view_.data() + view_.size(); }
  const T& operator[](std::size_t i) const { return view_[i]; }
  const T& back() const { return view_.back(); }
  operator std::span<const T>() const { return view_; }  // NOLINT(google-explicit-constructor)

 private:
  std::span<const T> view_;
  std::shared_ptr<const void> owner_;
};

}  // namespace tessera
