// The walk of a group of row_spgemm over the products of a task, to mark their columns or to add
// them up. It takes 32 products at a time, one per lane, whatever the lengths of B's rows. See
// kernels/spgemm/row/schedule.hpp.
#pragma once

#include <climits>
#include <cstdint>
#include <type_traits>

#include "kernels/spgemm/row/tasks.cuh"

namespace tessera::row_spgemm {

/// Looks up the word at a place of B's words or nonzeros.
template <SegmentKind kKind, class Value>
struct WordLookup {
  const OperandsOf<Value>& operands;

  TESSERA_HOST_DEVICE std::int32_t operator()(std::int32_t at) const {
    if constexpr (kKind == SegmentKind::kWords)
      return operands.words_of_b[at].word;
    else
      return word_of(operands.b_cols[at]);
  }
};

/// The segment of nonzero `at` of A, empty from `end` on.
template <SegmentKind kKind, class Value>
__device__ SegmentOf<Value> load_segment(const OperandsOf<Value>& operands, const Task& task,
                                         std::int32_t at, std::int32_t end) {
  if (at >= end) return {};
  const RowOfB of = operands.rows_of_b[operands.a_cols[at]];
  SegmentOf<Value> segment{of.begin, kKind == SegmentKind::kWords ? of.words : of.length, 0};
  if constexpr (kKind == SegmentKind::kNonzeros) segment.value = operands.a_values[at];
  if constexpr (kKind == SegmentKind::kPositions) segment.value = __int_as_float(at);
  if (task.is_sliced) cut_segment(segment, task, WordLookup<kKind, Value>{operands});
  return segment;
}

/// A warp's walk over at most 32 segments, one known to each lane, in chunks of 32 consecutive
/// products, one per lane.
template <class Value>
class Chunks {
 public:
  /// Each lane brings a segment. `staged` [32] is shared memory.
  __device__ Chunks(SegmentOf<Value> segment, SegmentOf<Value>* staged) {
    const unsigned live = __ballot_sync(kAllLanes, segment.length > 0);
    if ((live & (live + 1)) != 0) {  // close the gaps of empty segments
      if (segment.length > 0) staged[__popc(live & lanes_before())] = segment;
      __syncwarp();
      segment = lane_of_warp() < __popc(live) ? staged[lane_of_warp()] : SegmentOf<Value>{};
      __syncwarp();
    }
    const int sum = sum_up_to(segment.length);
    total_ = __shfl_sync(kAllLanes, sum, 31);
    start_ = segment.length > 0 ? sum - segment.length : INT_MAX;
    to_place_ = segment.begin - (sum - segment.length);
    value_ = segment.value;
  }

  /// The number of products of all segments.
  __device__ int total() const { return total_; }
  __device__ bool is_at_end() const { return first_ >= total_; }

  /// Goes to the next chunk. Returns this lane's place in B, or -1 past the last product; sets the
  /// value of its segment, the segment's number in the chunk and the number of segments there.
  __device__ std::int32_t next(Value& value, int& segment, int& segments) {
    const auto since = static_cast<unsigned>(start_ - first_);
    const unsigned starts = __reduce_or_sync(kAllLanes, since < 32 ? 1u << since : 0);
    const int begun = __popc(starts & (lanes_before() << 1 | 1));
    const int from = (started_ + begun - 1) & 31;
    const std::int32_t to_place = __shfl_sync(kAllLanes, to_place_, from);
    value = __shfl_sync(kAllLanes, value_, from);
    segment = begun - static_cast<int>(starts & 1);
    segments = __popc(starts | 1);
    started_ += __popc(starts);
    const int product = first_ + lane_of_warp();
    first_ += 32;
    return product < total_ ? to_place + product : -1;
  }

 private:
  int total_;
  int start_, to_place_;  // of this lane's segment
  Value value_;
  int first_ = 0, started_ = 0;  // products and segments before the next chunk
};

/// Calls visit(segments, products of earlier sets) for each set of a task's segments, one per lane,
/// in the order of A's columns. A warp gets its Chunks; a thread block gets the number of segments
/// that are not empty, which lie in `staged`. Products are counted, and staged segments numbered,
/// only where kNumbered is true.
template <class Group, SegmentKind kKind, bool kNumbered = false, class Value, class Visit>
__device__ void for_segments(const OperandsOf<Value>& operands, const Task& task,
                             SegmentOf<Value>* staged, int* scratch, Visit visit) {
  const std::int32_t end = task.begin + task.nonzeros;
  SegmentOf<Value> next = load_segment<kKind>(operands, task, task.begin + Group::lane(), end);
  int before = 0;
  for (std::int32_t first = task.begin; first < end; first += Group::kLanes) {
    const SegmentOf<Value> own = next;
    // The next set loads while this one is used.
    next = load_segment<kKind>(operands, task, first + Group::kLanes + Group::lane(), end);
    if constexpr (Group::kIsBlock) {
      int size = 0, products = 0;
      const int at = Group::before(own.length > 0 ? 1 : 0, size, scratch);
      if constexpr (kNumbered) {
        const int number = before + Group::before(own.length, products, scratch);
        auto* numbered = reinterpret_cast<NumberedSegment*>(staged);
        if (own.length > 0) numbered[at] = {own.begin, own.length, own.value, number - own.begin};
      } else {
        if (own.length > 0) staged[at] = own;
      }
      Group::sync();
      visit(size, before);
      Group::sync();
      before += products;
    } else {
      const Chunks chunks(own, staged);
      visit(chunks, before);
      if constexpr (kNumbered) before += chunks.total();
    }
  }
}

/// A lane's words of kPrefetch chunks or steps. A word past the last has no columns.
struct PrefetchedWords {
  uint2 words[kPrefetch];

  /// next() returns the place of the lane's word in B, or -1.
  template <class Value, class Next>
  __device__ void load(const OperandsOf<Value>& operands, Next next) {
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      const std::int32_t at = next();
      words[u] = at < 0 ? make_uint2(0, 0)
                        : __ldg(reinterpret_cast<const uint2*>(operands.words_of_b) + at);
    }
  }
  template <class Value>
  __device__ void load(const OperandsOf<Value>& operands, Chunks<Value>& chunks) {
    load(operands, [&] {
      Value no_value;
      int segment, segments;
      return chunks.is_at_end() ? -1 : chunks.next(no_value, segment, segments);
    });
  }

  /// Calls visit(word, columns).
  template <class Visit>
  __device__ void each(Visit visit) const {
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u)
      if (words[u].y != 0) visit(static_cast<std::int32_t>(words[u].x), words[u].y);
  }
};

/// Calls visit(word, columns) for every word of a task's products, in any order.
template <class Group, class Value, class Visit>
__device__ void for_words(const OperandsOf<Value>& operands, const Task& task,
                          SegmentOf<Value>* staged, int* scratch, Visit visit) {
  for_segments<Group, SegmentKind::kWords>(
      operands, task, staged, scratch, [&](auto segments, int) {
        if constexpr (Group::kIsBlock) {
          StepsOf<SegmentOf<Value>> steps(
              staged, segments, mark_steps(Group::kWarps, Group::warp(), lane_of_warp(), segments));
          const auto next_place = [&] {
            const std::int32_t place = steps.place();
            steps.advance();
            return place;
          };
          PrefetchedWords next;
          next.load(operands, next_place);
          bool is_last = false;
          while (!is_last) {
            is_last = steps.is_at_end();
            const PrefetchedWords now = next;
            next.load(operands, next_place);
            now.each(visit);
          }
        } else {
          while (!segments.is_at_end()) {
            PrefetchedWords now;
            now.load(operands, segments);
            now.each(visit);
          }
        }
      });
  Group::sync();
}

/// Marks every column of the task's products.
template <class Group, class Value, class Bitmap>
__device__ void mark_columns(const OperandsOf<Value>& operands, const Task& task,
                             SegmentOf<Value>* staged, int* scratch, Bitmap& bitmap) {
  const auto mark = [&](std::int32_t word, std::uint32_t columns) { bitmap.mark(word, columns); };
  if constexpr (Bitmap::kHasDirectory) {
    const auto mark_word = [&](std::int32_t word, std::uint32_t) { bitmap.mark_word(word); };
    if constexpr (!Group::kIsBlock) {
      if (is_one_set(task.nonzeros)) {
        Chunks chunks(load_segment<SegmentKind::kWords>(operands, task, task.begin + lane_of_warp(),
                                                        task.begin + task.nonzeros),
                      staged);
        if (is_one_prefetch(chunks.total())) {  // registers keep the words for the second time
          PrefetchedWords words;
          words.load(operands, chunks);
          words.each(mark_word);
          __syncwarp();
          bitmap.open(scratch);
          __syncwarp();
          words.each(mark);
          __syncwarp();
          return;
        }
      }
    }
    for_words<Group>(operands, task, staged, scratch, mark_word);
    bitmap.open(scratch);
    Group::sync();
  }
  for_words<Group>(operands, task, staged, scratch, mark);
}

/// True when no two lanes of a warp have the same cell, by the first 4 bytes of each; -1 stands for
/// none. The first lane to
/// exchange a cell gets its content and puts it back afterwards; later lanes find the mark. If a
/// cell holds the mark itself, the answer is false, which costs time alone.
template <class Cell>
__device__ bool are_different(Cell* cells, int cell) {
  constexpr std::uint32_t kTaken = ~0u;  // no sum and no count has these bits
  auto* const place = reinterpret_cast<std::uint32_t*>(cells + cell);  // not read for -1
  const std::uint32_t was = cell >= 0 ? atomicExch(place, kTaken) : kTaken;
  const bool is_first = was != kTaken;
  const bool all_are_first = __all_sync(kAllLanes, is_first || cell < 0) != 0;
  __syncwarp();
  if (is_first) *place = was;
  __syncwarp();
  return all_are_first;
}

/// Calls add() for each lane whose cell is not -1; lanes of one cell take turns in the order of
/// lanes. The lanes hold products of `segments` segments, this one of number `segment`; products of
/// one segment have different cells.
template <class Cell, class Add>
__device__ void add_in_order(Cell* cells, int cell, int segment, int segments, Add add) {
  if (segments > kFewSegments) {
    if (are_different(cells, cell)) {
      segment = 0;
      segments = 1;
    } else {
      const unsigned same = __match_any_sync(kAllLanes, cell >= 0 ? cell : -1 - lane_of_warp());
      segment = __popc(same & lanes_before());
      segments = __reduce_max_sync(kAllLanes, segment) + 1;
    }
  }
  for (int turn = 0; turn < segments; ++turn) {
    if (cell >= 0 && segment == turn) add();
    __syncwarp();
  }
}

/// Goes over the products of a thread block's staged segments in steps. load(place in B, value of
/// the segment, number of the product) returns an item; the rest is as in for_products().
template <class Group, bool kNumbered, class Value, class Load, class CellOf, class Add>
__device__ void add_steps(const SegmentOf<Value>* staged, int segments, Load load, CellOf cell_of,
                          Add add) {
  // The products of a step belong to one segment and therefore have different cells.
  using Staged = std::conditional_t<kNumbered, NumberedSegment, SegmentOf<Value>>;
  using Item = decltype(load(0, Value{}, 0));
  StepsOf<Staged> steps(reinterpret_cast<const Staged*>(staged), segments,
                        sum_steps(Group::kLanes, Group::lane()));
  const auto load_next = [&] {
    const std::int32_t at = steps.place();
    const Value value = steps.value();
    int number = 0;
    if constexpr (kNumbered) number = at + steps.now().to_number;
    steps.advance();
    return load(at, value, number);
  };
  Item next[kPrefetch];
#pragma unroll
  for (int u = 0; u < kPrefetch; ++u) next[u] = load_next();
  bool is_last = false;
  while (!is_last) {
    is_last = steps.is_at_end();
    Item now[kPrefetch];
    int cell[kPrefetch];
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      now[u] = next[u];
      next[u] = load_next();
    }
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) cell[u] = cell_of(now[u]);
#pragma unroll
    for (int u = 0; u < kPrefetch; ++u) {
      if (cell[u] >= 0) add(now[u], cell[u]);
      Group::sync();  // the next step may have the same cells
    }
  }
}

/// Goes over the products of a task in the order of A's columns. load(place in B, value of the
/// segment) returns an item, for place -1 that of no product; load(place, value, number) gets the
/// number of the product in the task, too. cell_of(item) returns the cell to add it to, or -1, and
/// may complete the item. add(item, cell) is called for the items of a cell one after another, in
/// order. kFewCells says that many items have no cell.
template <class Group, SegmentKind kKind, bool kFewCells = false, class Value, class Cell,
          class Load, class CellOf, class Add>
__device__ void for_products(const OperandsOf<Value>& operands, const Task& task,
                             SegmentOf<Value>* staged, int* scratch, Cell* cells, Load load,
                             CellOf cell_of, Add add) {
  constexpr bool kNumbered = std::is_invocable_v<Load, std::int32_t, Value, int>;
  const auto load_item = [&](std::int32_t at, Value value, int number) {
    if constexpr (kNumbered)
      return load(at, value, number);
    else
      return load(at, value);
  };
  for_segments<Group, kKind, kNumbered>(
      operands, task, staged, scratch, [&](auto segments, int before) {
        if constexpr (Group::kIsBlock) {
          add_steps<Group, kNumbered>(staged, segments, load_item, cell_of, add);
        } else {
          using Item = decltype(load_item(0, Value{}, 0));
          int number = before + lane_of_warp();
          while (!segments.is_at_end()) {
            Item items[kPrefetch];
            int cell[kPrefetch], segment[kPrefetch], of_chunk[kPrefetch];
#pragma unroll
            for (int u = 0; u < kPrefetch; ++u) {
              Value value = 0;
              segment[u] = of_chunk[u] = 0;
              const std::int32_t at =
                  segments.is_at_end() ? -1 : segments.next(value, segment[u], of_chunk[u]);
              items[u] = load_item(at, value, number + u * kWarpLanes);
            }
            number += kPrefetch * kWarpLanes;
#pragma unroll
            for (int u = 0; u < kPrefetch; ++u) cell[u] = cell_of(items[u]);
#pragma unroll
            for (int u = 0; u < kPrefetch; ++u) {
              if (kFewCells && !__any_sync(kAllLanes, cell[u] >= 0)) continue;
              add_in_order(cells, cell[u], segment[u], of_chunk[u],
                           [&] { add(items[u], cell[u]); });
            }
          }
        }
      });
}

/// A product of a value of A and one of B, and its column; column -1 for none.
template <class Value>
struct IntermediateProduct {
  std::int32_t col = -1;
  Value left = 0, right = 0;

  __device__ IntermediateProduct() = default;
  /// The product of a value of A and the nonzero of B at a place.
  __device__ IntermediateProduct(const OperandsOf<Value>& operands, std::int32_t at, Value value)
      : left(value) {
    if (at < 0) return;
    col = __ldg(operands.b_cols + at);
    right = __ldg(operands.b_values + at);
  }
};

/// Adds the products of a thread block's staged segments to their sums, kPrefetch times as many of
/// a segment at once as there are lanes: they have different sums, and no lane waits for another.
/// Unless `cols` is nullptr, the first product of each sum writes its column of C there.
template <class Group, class Value, class PlaceOf>
__device__ void add_long_segments(const OperandsOf<Value>& operands, const SegmentOf<Value>* staged,
                                  int segments, PlaceOf place_of, Value* sums, std::int32_t* cols) {
  // In FP64 half as many, which need as many registers.
  constexpr int kAtOnce = kPrefetch * int{sizeof(float)} / int{sizeof(Value)};
  struct Products {
    std::int32_t col[kAtOnce];  // -1 for no product
    Value right[kAtOnce], left;
  };
  StepsOf<SegmentOf<Value>> steps(staged, segments,
                                  sum_steps(kAtOnce * Group::kLanes, Group::lane()));
  const auto load_next = [&] {
    Products products;
    products.left = steps.value();
    const int left = steps.left();
    const std::int32_t first = left > 0 ? steps.place() : 0;
    const std::int32_t* b_cols = operands.b_cols + first;
    const Value* b_values = operands.b_values + first;
    asm volatile("" : "+l"(b_cols), "+l"(b_values));  // else each load computes its own address
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      products.col[u] = -1;
      products.right[u] = 0;
      if (u * Group::kLanes >= left) continue;
      products.col[u] = __ldg(b_cols + u * Group::kLanes);
      products.right[u] = __ldg(b_values + u * Group::kLanes);
    }
    steps.advance();
    return products;
  };
  Products next = load_next();
  bool is_last = false;
  while (!is_last) {
    is_last = steps.is_at_end();
    const Products now = next;
    next = load_next();
    Value before[kAtOnce];
    int cell[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (now.col[u] < 0) continue;
      cell[u] = place_of(now.col[u]);
      before[u] = sums[cell[u]];
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (now.col[u] < 0) continue;
      sums[cell[u]] = fma(now.left, now.right[u], before[u]);
      if (cols != nullptr && before[u] == 0) cols[cell[u]] = now.col[u];
    }
    Group::sync();  // the next segment may have the same sums
  }
}

/// Adds the task's products to their sums, each sum in the order of A's columns. place_of(column)
/// returns the place of its sum. A thread block writes columns, too, unless `cols` is nullptr,
/// which it has to be where segments are short.
template <class Group, class Value, class PlaceOf>
__device__ void add_products(const OperandsOf<Value>& operands, const Task& task,
                             SegmentOf<Value>* staged, int* scratch, PlaceOf place_of, Value* sums,
                             std::int32_t* cols = nullptr) {
  using Product = IntermediateProduct<Value>;
  const auto load = [&](std::int32_t at, Value value) { return Product(operands, at, value); };
  const auto cell_of = [&](const Product& product) {
    return product.col < 0 ? -1 : place_of(product.col);
  };
  const auto add = [&](const Product& product, int cell) {
    sums[cell] = fma(product.left, product.right, sums[cell]);
  };
  if constexpr (Group::kIsBlock) {
    for_segments<Group, SegmentKind::kNonzeros>(
        operands, task, staged, scratch, [&](int segments, int) {
          const int mine =
              Group::lane() < segments ? most_of_long(staged[Group::lane()].length) : 0;
          int products = 0;
          Group::before(mine, products, scratch);
          if (cols != nullptr || are_long_segments(products, segments, Group::kLanes))
            add_long_segments<Group>(operands, staged, segments, place_of, sums, cols);
          else
            add_steps<Group, false>(
                staged, segments,
                [&](std::int32_t at, Value value, int) { return load(at, value); }, cell_of, add);
        });
  } else {
    for_products<Group, SegmentKind::kNonzeros>(operands, task, staged, scratch, sums, load,
                                                cell_of, add);
  }
}

}  // namespace tessera::row_spgemm
