// How a GPU places the columns of an order of `matched` (PlaceColumns in matched_steps.hpp).
#pragma once

#include <cstdint>
#include <cub/block/block_scan.cuh>

#include "reorder/matched_steps.hpp"
#include "reorder/matched_teams.cuh"

namespace tessera::matched {

constexpr int kColumnThreads = 8;  // for a column of few holders

/// A few threads for a column of few holders, each of which has as many before it as are at lower
/// positions; lists the other columns.
static __global__ void __launch_bounds__(kStepThreads)
    place_short_columns(PlaceColumns step, std::int64_t columns, Queue* queue,
                        std::uint32_t* long_columns) {
  constexpr int kShort = 128;
  __shared__ std::int32_t shared[kStepThreads / kColumnThreads][kShort + kColumnThreads];
  const std::int64_t column =
      (std::int64_t{blockIdx.x} * kStepThreads + threadIdx.x) / kColumnThreads;
  if (column >= columns) return;
  const int lane = threadIdx.x % kColumnThreads;
  const std::uint32_t begin = step.col_offsets[column];
  const auto length = static_cast<int>(step.col_offsets[column + 1] - begin);
  if (length > kShort) {
    if (lane == 0) append(queue, long_columns, column);
    return;
  }
  std::int32_t* const positions = shared[threadIdx.x / kColumnThreads];
  for (int i = lane; i < length; i += kColumnThreads) positions[i] = step.position(begin + i);
  __syncwarp(((1u << kColumnThreads) - 1) << (threadIdx.x % 32 / kColumnThreads * kColumnThreads));
  for (int i = lane; i < length; i += kColumnThreads) {
    std::uint32_t before = 0;
    for (int other = 0; other < length; ++other) before += positions[other] < positions[i];
    step.put(begin + i, begin + before);
  }
}

/// A thread block marks the positions of a column's holders in a bitmap, part by part, and counts
/// the marks before each.
static __global__ void __launch_bounds__(kStepThreads)
    place_long_columns(PlaceColumns step, std::int32_t rows, Queue* queue,
                       const std::uint32_t* long_columns) {
  constexpr int kWordsOfThread = 32, kPart = 32 * kWordsOfThread * kStepThreads;  // in positions
  __shared__ std::uint32_t words[kWordsOfThread * kStepThreads];
  __shared__ std::uint32_t sums[kStepThreads];  // of the words of each thread and those before
  __shared__ std::uint32_t ticket;
  using Scan = cub::BlockScan<std::uint32_t, kStepThreads>;
  __shared__ typename Scan::TempStorage scan;
  for (;;) {
    if (threadIdx.x == 0) ticket = atomicAdd(&queue->taken, 1u);
    __syncthreads();
    if (ticket >= queue->size) return;
    const std::uint32_t column = long_columns[ticket];
    const std::uint32_t end = step.col_offsets[column + 1];
    std::uint32_t place = step.col_offsets[column];
    const std::uint32_t begin = place;
    for (std::int64_t part = 0; part < rows; part += kPart) {
      const auto size = static_cast<int>(min(std::int64_t{kPart}, rows - part));
      // Each thread sums up as many words, which follow each other.
      const int of_thread = (size + 32 * kStepThreads - 1) / (32 * kStepThreads);
      const auto index_of = [&](std::uint32_t entry) {
        return static_cast<std::int64_t>(step.position(entry)) - part;
      };
      for (int word = threadIdx.x; word < of_thread * kStepThreads; word += kStepThreads)
        words[word] = 0;
      __syncthreads();
      for (std::uint32_t entry = begin + threadIdx.x; entry < end; entry += kStepThreads)
        if (const std::int64_t index = index_of(entry); index >= 0 && index < size)
          atomicOr(&words[index / 32], 1u << (index % 32));
      __syncthreads();
      std::uint32_t sum = 0, all = 0;
      for (int word = 0; word < of_thread; ++word)
        sum += __popc(words[threadIdx.x * of_thread + word]);
      Scan(scan).ExclusiveSum(sum, sums[threadIdx.x], all);
      __syncthreads();
      for (std::uint32_t entry = begin + threadIdx.x; entry < end; entry += kStepThreads) {
        const std::int64_t index = index_of(entry);
        if (index < 0 || index >= size) continue;
        const auto last = static_cast<int>(index / 32);
        std::uint32_t before = sums[last / of_thread];
        for (int word = last / of_thread * of_thread; word < last; ++word)
          before += __popc(words[word]);
        before += __popc(words[last] & ((1u << (index % 32)) - 1));
        step.put(entry, place + before);
      }
      place += all;
      __syncthreads();
    }
    __syncthreads();
  }
}

}  // namespace tessera::matched
