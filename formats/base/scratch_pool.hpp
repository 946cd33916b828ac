// One scratch object T per thread of a parallel loop.
//
// For a T that is too large to make once per chunk of the loop. Which chunks use which T depends on
// the threads, so a T may only collect what does not depend on order, such as integer counts.
#pragma once

#include <array>
#include <atomic>
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
    T* const scratch = take();
    body(*scratch);
    give_back(scratch);
  }

  /// Every T that was made; to be read after the loop.
  const std::deque<T>& all() const { return all_; }

 private:
  /// A T that is free, alone on its cache line: in a short call threads would wait for a lock
  /// longer than they work.
  struct alignas(64) Place {
    std::atomic<T*> free = nullptr;
  };
  static constexpr std::size_t kPlaces = 128;

  /// Where this thread looks first, and leaves its T: another place for each thread.
  static std::size_t own_place() {
    static std::atomic<std::size_t> threads = 0;
    thread_local const std::size_t number = threads++;
    return number % kPlaces;
  }

  T* take() {
    const std::size_t own = own_place();
    T* scratch = places_[own].free.exchange(nullptr, std::memory_order_acq_rel);
    if (scratch != nullptr) return scratch;
    for (Place& place : places_) {
      if (place.free.load(std::memory_order_relaxed) != nullptr)
        scratch = place.free.exchange(nullptr, std::memory_order_acq_rel);
      if (scratch != nullptr) return scratch;
    }
    const std::lock_guard lock(mutex_);
    if (others_.empty()) return &all_.emplace_back();
    scratch = others_.back();
    others_.pop_back();
    return scratch;
  }

  /// Leaves it at this thread's place, and what lay there at the next one, and so on.
  void give_back(T* scratch) {
    for (std::size_t i = 0; scratch != nullptr && i < kPlaces; ++i)
      scratch =
          places_[(own_place() + i) % kPlaces].free.exchange(scratch, std::memory_order_acq_rel);
    if (scratch == nullptr) return;
    const std::lock_guard lock(mutex_);
    others_.push_back(scratch);
  }

  std::array<Place, kPlaces> places_;
  std::mutex mutex_;
  std::deque<T> all_;       // a deque: its elements stay where they are
  std::vector<T*> others_;  // free ones beyond the places
};

}  // namespace tessera
