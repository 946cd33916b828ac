// One scratch object T per thread of a parallel loop.
//
// For a T that is too large to make once per chunk of the loop. Which chunks use which T depends on
// the threads, so a T may only collect what does not depend on order, such as integer counts.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

namespace tessera {

template <class T>
class ScratchPool {
 public:
  /// Calls body(T&) with a T that no other thread uses during the call.
  template <class Body>
  void use(Body body) {
    T& scratch = take();
    body(scratch);
    const std::lock_guard lock(mutex_);
    free_.push_back(&scratch);
  }

  /// Every T that was made; to be read after the loop.
  const std::deque<T>& all() const { return all_; }

 private:
  T& take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return all_.emplace_back();
    T* scratch = free_.back();
    free_.pop_back();
    return *scratch;
  }

  std::mutex mutex_;
  std::deque<T> all_;  // a deque: its elements stay where they are
  std::vector<T*> free_;
};

}  // namespace tessera
