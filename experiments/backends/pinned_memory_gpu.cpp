#include "experiments/backends/pinned_memory.hpp"

#include <cuda_runtime_api.h>

#include <mutex>
#include <new>
#include <vector>

namespace tessera {
namespace {

struct Block {
  std::byte* data = nullptr;
  std::size_t room = 0;
};

struct Pool {
  std::mutex mutex;
  std::vector<Block> free = {};
};

/// It is never destroyed: at the end of the process the runtime is gone before.
Pool& pool() {
  static Pool& made = *new Pool;
  return made;
}

/// The least free block of that size; of none, one that was freed last makes room for a larger one.
Block take(std::size_t bytes) {
  Pool& from = pool();
  const std::lock_guard lock(from.mutex);
  auto best = from.free.end();
  for (auto block = from.free.begin(); block != from.free.end(); ++block)
    if (block->room >= bytes && (best == from.free.end() || block->room < best->room)) best = block;
  if (best != from.free.end()) {
    const Block block = *best;
    from.free.erase(best);
    return block;
  }
  if (!from.free.empty()) {
    cudaFreeHost(from.free.back().data);
    from.free.pop_back();
  }
  void* data = nullptr;
  const std::size_t room = bytes + bytes / 4;  // a few sizes serve a sweep
  if (cudaHostAlloc(&data, room, cudaHostAllocDefault) == cudaSuccess)
    return {static_cast<std::byte*>(data), room};
  cudaGetLastError();
  return {};
}

void give_back(Block block) {
  Pool& to = pool();
  const std::lock_guard lock(to.mutex);
  to.free.push_back(block);
}

}  // namespace

PinnedMemory::PinnedMemory(std::size_t bytes) : size_(bytes) {
  const Block block = take(bytes);
  room_ = block.room;
  data_ = block.data != nullptr ? block.data : static_cast<std::byte*>(::operator new(bytes));
}

PinnedMemory::~PinnedMemory() {
  if (room_ > 0)
    give_back({data_, room_});
  else
    ::operator delete(data_);
}

}  // namespace tessera
