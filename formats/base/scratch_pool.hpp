// One T per thread at work in a parallel loop, handed out and taken back.
//
// For what is too large to make once per piece of the loop. Which pieces met in which T depends on
// the threads: only what does not depend on the order, such as integer counts, may be collected.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

namespace tessera {

template <class T>
class ScratchPool {
 public:
  /// Calls body(T&) with a T that nobody else uses meanwhile.
  template <class Body>
  void use(Body body) {
    T& scratch = take();
    body(scratch);
    const std::lock_guard lock(mutex_);
    free_.push_back(&scratch);
  }

  /// Every T there ever was; after the loop.
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
