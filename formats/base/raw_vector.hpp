// Vectors that leave their elements unset when they grow: the threads of a loop write them first,
// and share the time that the system takes to hand out their pages.
#pragma once

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tessera {

template <class T>
struct LeavesUnset : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = LeavesUnset<U>;
  };
  using std::allocator<T>::allocator;

  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Args>
  void construct(U* place, Args&&... args) {
    ::new (static_cast<void*>(place)) U(std::forward<Args>(args)...);
  }
};

template <class T>
using RawVector = std::vector<T, LeavesUnset<T>>;

}  // namespace tessera
