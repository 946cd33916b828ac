// The arrays of a product in device memory, and the instructions by which a warp accesses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/spgemm/row/schedule.hpp"
#include "kernels/spgemm/shared/tiles.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::row_spgemm::tracing {

/// The address of an array of T.
template <class T>
struct ArrayAt {
  std::uint64_t begin = 0;

  std::uint64_t operator[](std::int64_t at) const { return element(begin, at, int{sizeof(T)}); }
};

struct DeviceArrays {
  ArrayAt<std::int32_t> a_offsets, a_cols;
  ArrayAt<float> a_values;
  ArrayAt<std::int32_t> b_offsets, b_cols;
  ArrayAt<float> b_values;
  ArrayAt<RowOfB> rows_of_b;
  ArrayAt<RangeOfB> ranges_of_b;
  ArrayAt<WordOfB> words_of_b;
  ArrayAt<std::int32_t> slice_counts, slice_words;
  ArrayAt<std::uint32_t> summary;
  ArrayAt<std::uint64_t> columns_of_tiles;
  ArrayAt<Task> whole_tasks, tasks;
  ArrayAt<SortedTask> sorted;
  ArrayAt<std::int32_t> lengths;
  ArrayAt<std::int64_t> offsets, c_offsets;
  ArrayAt<std::int32_t> c_cols;
  ArrayAt<float> c_values;
};

/// The part of a record that one instruction accesses, in bytes.
struct RecordPart {
  unsigned offset;
  int bytes;
};
template <class T>
inline constexpr RecordPart kWhole[] = {{0, sizeof(T)}};
inline constexpr RecordPart kPartsOfTask[] = {{0, 16}, {16, 8}, {24, 8}};
inline constexpr RecordPart kFieldsOfTask[] = {{0, 16}, {16, 8}, {24, 4}};
inline constexpr RecordPart kFieldsOfRow[] = {{0, sizeof(RowOfB::begin) * 3}};
inline constexpr RecordPart kTwoAndOne[] = {{0, 8}, {8, 4}};  // three fields, by two instructions

/// The lanes access elements [first, first + count).
template <class T>
void touch_run(const ArrayAt<T>& array, std::int64_t first, std::int64_t count, WarpTrace& trace) {
  trace.touch(array[first], static_cast<std::int64_t>(sizeof(T)) * count);
}
template <class T>
void load_run(int board, const ArrayAt<T>& array, std::int64_t first, std::int64_t count,
              WarpTrace& trace) {
  trace.load(board);
  touch_run(array, first, count, trace);
}
template <class T>
void store_run(const ArrayAt<T>& array, std::int64_t first, std::int64_t count, WarpTrace& trace) {
  trace.store();
  touch_run(array, first, count, trace);
}

/// Each lane accesses the element of one index, by one instruction for each part.
template <class T, class Indices>
void load_each(int board, const ArrayAt<T>& array, Indices&& indices, WarpTrace& trace,
               std::span<const RecordPart> parts = kWhole<T>) {
  for (const RecordPart& part : parts) {
    trace.load(board);
    for (const std::int64_t at : indices) trace.touch(array[at] + part.offset, part.bytes);
  }
}
template <class T, class Indices>
void store_each(const ArrayAt<T>& array, Indices&& indices, WarpTrace& trace,
                std::span<const RecordPart> parts = kWhole<T>) {
  for (const RecordPart& part : parts) {
    trace.store();
    for (const std::int64_t at : indices) trace.touch(array[at] + part.offset, part.bytes);
  }
}

/// A thread block's counts of classes are added to those of all.
inline void add_counts(const DeviceArrays& at, WarpTrace& trace) {
  trace.shared(1);
  trace.atomic(1);
  touch_run(at.summary, 0, kClasses, trace);
}

/// The columns of C of tasks are added to those of their tiles.
template <class Tasks>
void add_to_tiles(Tasks&& tasks, const DeviceArrays& at, WarpTrace& trace) {
  trace.atomic(1);
  for (const std::int64_t task : tasks)
    trace.touch(at.columns_of_tiles[task / spgemm::kTile], sizeof(std::uint64_t));
}

/// Barriers of a warp that counts in a joint launch, besides those of a thread block's task.
constexpr int kJointBarriers = 4;

/// The end of a warp of a launch that reports: the last thread block sees the writes of all others.
inline void report(int warp, WarpTrace& trace) {
  trace.fence();
  trace.barrier();
  if (warp == 0) trace.exchange();
  trace.barrier();
}

}  // namespace tessera::row_spgemm::tracing
