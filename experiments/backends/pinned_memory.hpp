// Memory of the host that the device writes at the full rate of the bus. The runtime copies to
// other memory through a buffer of its own, and new memory costs a fault for every page as well.
//
// To pin memory takes as long as many copies: the process keeps what is given back for the next. It
// gives no block back to the system but for a larger one, by the thread that uses the device: the
// runtime waits for the device then, and another thread that has read a result may not disturb it.
#pragma once

#include <cstddef>

namespace tessera {

class PinnedMemory {
 public:
  /// Memory that cannot be pinned takes its place where there is none. Throws std::bad_alloc.
  explicit PinnedMemory(std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t room_ = 0;  // of a pinned block; 0 for other memory
};

}  // namespace tessera
