// row_spgemm's warps, in the order of the source and by the instruction counts of its PTX (CUDA
// 13.0). What depends on the marks that a task has so far is told by averages: a column is new as
// often as the task has columns for its products, the columns of C lie evenly over its words and
// their range. Slots of hash tables are found at the first try.

#include "kernels/row_spgemm_trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"
#include "kernels/row_spgemm.hpp"

namespace tessera::row_spgemm {
namespace {

constexpr int kThreadsOfGroups = 128, kAhead = 4;  // as on the device
constexpr int kTaskBytes = 16, kSegmentBytes = 16, kWordBytes = 8;

/// A task and what is in it.
struct TaskWork {
  Task task;
  std::int64_t products = 0, words_read = 0;  // of B's nonzeros, and of their words
  std::int32_t filled_words = 0, columns = 0;
};

struct Addresses {
  std::uint64_t sorted, tasks, offsets, lengths, summary, a_offsets, a_cols, a_values, rows_of_b,
      words_of_b, b_cols, b_values, c_cols, c_values;
};

/// The product as row_spgemm's analysis sees it.
struct Product {
  const CsrMatrix& a;
  const CsrMatrix& b;
  std::vector<std::int32_t> words = {};  // [nonzeros of B], as many of each row as it has
  std::vector<std::int32_t> columns_of_words = {};  // [nonzeros of B]: bits, one per column
  std::vector<std::int32_t> num_words = {};         // [rows of B]
  std::vector<TaskWork> tasks = {};
  std::vector<std::int64_t> offsets = {0};  // [tasks + 1]: in C
};

void describe_rows_of_b(Product& product) {
  const CsrMatrix& b = product.b;
  product.words.resize(static_cast<std::size_t>(b.nnz()));
  product.columns_of_words.resize(product.words.size());
  product.num_words.resize(static_cast<std::size_t>(b.rows));
  for (std::int32_t row = 0; row < b.rows; ++row) {
    const std::int64_t begin = b.row_offsets[row];
    std::int64_t end = begin;
    for (std::int64_t at = begin; at < b.row_offsets[row + 1]; ++at) {
      const std::int32_t word = b.col_indices[at] / kWordCols;
      if (end == begin || product.words[end - 1] != word) product.words[end++] = word;
      product.columns_of_words[end - 1] |=
          static_cast<std::int32_t>(1u << (b.col_indices[at] % kWordCols));
    }
    product.num_words[row] = static_cast<std::int32_t>(end - begin);
  }
}

RowPlan analyse_row(const CsrMatrix& a, const CsrMatrix& b, std::int32_t row) {
  std::int64_t products = 0;
  std::int32_t first = b.cols, last = 0;
  for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
    const std::int64_t begin = b.row_offsets[a.col_indices[k]];
    const std::int64_t end = b.row_offsets[a.col_indices[k] + 1];
    if (begin == end) continue;
    products += end - begin;
    first = std::min(first, b.col_indices[begin]);
    last = std::max(last, b.col_indices[end - 1]);
  }
  return plan_row(row, products, a.row_offsets[row + 1] - a.row_offsets[row], first, last);
}

/// Counts what the tasks of a row have in them.
class TaskCounter {
 public:
  void count(const Product& product, const RowPlan& plan, std::vector<TaskWork>& to) {
    const auto first = to.size();
    for (int slice = 0; slice < plan.slices; ++slice) to.push_back({.task = plan.task(slice)});
    if (plan.whole.words == 0) return;
    const auto of_word = [&](std::int32_t word) -> TaskWork& {
      return to[first +
                static_cast<std::size_t>((word - plan.whole.first_word) / plan.slice_words)];
    };
    marks_.resize(static_cast<std::size_t>(product.b.cols / kWordCols + 1));
    const CsrMatrix& a = product.a;
    for (std::int64_t k = a.row_offsets[plan.whole.row]; k < a.row_offsets[plan.whole.row + 1];
         ++k) {
      const std::int64_t begin = product.b.row_offsets[a.col_indices[k]];
      for (std::int64_t at = begin; at < begin + product.num_words[a.col_indices[k]]; ++at) {
        const std::int32_t word = product.words[at];
        const auto columns = static_cast<std::uint32_t>(product.columns_of_words[at]);
        if (marks_[word] == 0) touched_.push_back(word);
        marks_[word] |= columns;
        ++of_word(word).words_read;
        of_word(word).products += std::popcount(columns);
      }
    }
    for (const std::int32_t word : touched_) {
      ++of_word(word).filled_words;
      of_word(word).columns += std::popcount(marks_[word]);
      marks_[word] = 0;
    }
    touched_.clear();
  }

 private:
  std::vector<std::uint32_t> marks_;  // [words of a row]
  std::vector<std::int32_t> touched_;
};

Product analyse(const CsrMatrix& a, const CsrMatrix& b) {
  Product product{.a = a, .b = b};
  describe_rows_of_b(product);
  constexpr std::int64_t kRowsOfPiece = 512;
  std::vector<std::vector<TaskWork>> pieces(static_cast<std::size_t>(parts(a.rows, kRowsOfPiece)));
  ScratchPool<TaskCounter> pool;
  parallel_for(a.rows, kRowsOfPiece, [&](std::int64_t begin, std::int64_t end) {
    pool.use([&](TaskCounter& counter) {
      for (std::int64_t row = begin; row < end; ++row)
        counter.count(product, analyse_row(a, b, static_cast<std::int32_t>(row)),
                      pieces[static_cast<std::size_t>(begin / kRowsOfPiece)]);
    });
  });
  for (const auto& piece : pieces)
    product.tasks.insert(product.tasks.end(), piece.begin(), piece.end());
  for (const TaskWork& task : product.tasks)
    product.offsets.push_back(product.offsets.back() + task.columns);
  return product;
}

/// Words of shared memory that one instruction wants, by bank.
class Banks {
 public:
  void add(std::int64_t word) { words_[size_++] = word; }

  /// The most different words of a bank: so often the memory is accessed. Forgets them.
  int wavefronts() {
    std::sort(words_.begin(), words_.begin() + size_);
    const auto end = std::unique(words_.begin(), words_.begin() + size_);
    std::array<int, 32> of_bank{};
    int most = 0;
    for (auto word = words_.begin(); word != end; ++word)
      most = std::max(most, ++of_bank[static_cast<std::size_t>(*word % 32)]);
    size_ = 0;
    return most;
  }

 private:
  std::array<std::int64_t, 128> words_;
  int size_ = 0;
};

/// Tasks of one class, as one launch takes them.
struct Batch {
  int number = 0;  // of the class
  TaskClass limits;
  int table = -1;       // of the hash tables, by size
  bool is_sum = false;  // the second phase
  std::int64_t first_sorted = 0;
  std::vector<std::int64_t> tasks;

  bool is_block() const { return limits.lanes > 32; }
  int threads() const { return is_block() ? limits.lanes : kThreadsOfGroups; }
  int groups() const { return is_block() ? 1 : kThreadsOfGroups / limits.lanes; }  // a thread block
  int groups_of_warp() const { return is_block() ? 1 : 32 / limits.lanes; }
  int warps_of_group() const { return is_block() ? limits.lanes / 32 : 1; }
  int lanes_of_warp() const { return std::min(limits.lanes, 32); }
  std::int64_t group_bytes() const {
    return limits.lanes * kSegmentBytes + (limits.bytes + 15) / 16 * 16;
  }
  std::int64_t thread_blocks() const { return parts(std::ssize(tasks), groups()); }
  /// As compiled for sm_90a.
  int registers() const { return is_sum ? 64 : table >= 0 && limits.lanes > 8 ? 44 : 48; }
  int slot_words() const { return is_sum ? 2 : 1; }
  int slots() const { return kLeastTable << table; }
};

/// A part of a row of B, in nonzeros or words.
struct Segment {
  std::int64_t begin = 0, length = 0;
};

/// What a warp's lanes of one group do in a step.
struct Step {
  std::int64_t at = 0;
  int lanes = 0;              // with something to do
  bool ends_segment = false;  // another one is fetched
  std::int64_t staged = 0;    // the number of the segment fetched
};

class GroupsTrace final : public LaunchTrace {
 public:
  GroupsTrace(std::shared_ptr<const Product> product, Batch batch, const Addresses& at)
      : product_(std::move(product)), batch_(std::move(batch)), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Warp mine = groups_of(thread_block, warp);
    switch (static_cast<Phase>(cursor.part)) {
      case Phase::kBegin:
        begin(mine, trace);
        cursor = {.step = 0, .part = static_cast<std::int64_t>(Phase::kMark)};
        return true;
      case Phase::kMark:
        if (!go_through<false>(mine, cursor, trace)) return true;
        if (!batch_.is_sum) {
          finish_count(mine, trace);
          return false;
        }
        rank(mine, trace);
        cursor = {.step = 0, .part = static_cast<std::int64_t>(Phase::kAdd)};
        return true;
      case Phase::kAdd:
        if (!go_through<true>(mine, cursor, trace)) return true;
        finish_sums(mine, trace);
        return false;
    }
    return false;
  }

  /// Of all warps of a thread block.
  std::int64_t barriers(std::int64_t thread_block) const {
    if (!batch_.is_block()) return batch_.is_sum ? 0 : 2 * kThreadsOfGroups / 32;
    const Group group = groups_of(thread_block, 0).groups[0];
    const std::int64_t of_segments = chunks_of(group) * (2 * kBarriersOfBefore + 2);
    if (!batch_.is_sum) return batch_.warps_of_group() * (2 + 1 + of_segments + kBarriersOfBefore);
    std::int64_t steps = 0;
    for (std::int64_t chunk = 0; chunk < chunks_of(group); ++chunk)
      steps += kAhead * parts(steps_of<true>(group, chunk), kAhead);
    const std::int64_t rounds = parts(group.work->task.words, batch_.limits.lanes);
    return batch_.warps_of_group() * (1 + 2 * of_segments + kBarriersOfBefore * rounds + 3 + steps);
  }

 private:
  enum class Phase : std::int64_t { kBegin, kMark, kAdd };

  // Instructions beside those that the trace tells one by one, counted in the PTX.
  static constexpr int kBeginInstructions = 60, kTaskInstructions = 20, kBeforeInstructions = 12,
                       kStageInstructions = 24, kLoadSegmentInstructions = 9,
                       kSearchInstructions = 13, kStepInstructions = 12, kFetchInstructions = 8,
                       kMarkInstructions = 8, kHashInstructions = 14, kRankInstructions = 11,
                       kAddInstructions = 6, kIdleInstructions = 4, kRoundInstructions = 12,
                       kPlaceInstructions = 14, kWordInstructions = 16, kColumnInstructions = 9;
  static constexpr int kSpecialRegisters = 60;  // cycles until thread and block indices are there
  static constexpr int kTaskBoard = 0, kSegmentBoard = 1, kDataBoard = 2, kSearchBoard = 3;
  static constexpr int kBarriersOfBefore = 2;  // where a group is a thread block
  static constexpr std::int64_t kIterationsOfPiece = 8;

  /// A group of this warp, or the warp's part of one that is a thread block.
  struct Group {
    const TaskWork* work = nullptr;
    std::int64_t id = 0;               // of the task
    std::int64_t first = 0, last = 0;  // nonzeros of A
    std::int64_t memory = 0;           // of its shared memory, in words
    int warp = 0;                      // within the group
  };
  struct Warp {
    std::int64_t first_number = 0;  // of its tasks in the batch
    bool is_first = false;          // of the thread block
    std::array<Group, 8> groups;
    int count = 0;

    auto begin() const { return groups.begin(); }
    auto end() const { return groups.begin() + count; }
  };

  /// Those that have tasks.
  Warp groups_of(std::int64_t thread_block, int warp) const {
    Warp mine;
    mine.is_first = warp == 0;
    mine.first_number = thread_block * batch_.groups() +
                        (batch_.is_block() ? 0 : std::int64_t{warp} * batch_.groups_of_warp());
    for (int i = 0; i < batch_.groups_of_warp(); ++i) {
      if (mine.first_number + i >= std::ssize(batch_.tasks)) break;
      Group& group = mine.groups[static_cast<std::size_t>(mine.count++)];
      group.id = batch_.tasks[mine.first_number + i];
      group.work = &product_->tasks[group.id];
      const Task& task = group.work->task;
      if (task.words > 0) {
        group.first = product_->a.row_offsets[task.row];
        group.last = product_->a.row_offsets[task.row + 1];
      }
      const int number = batch_.is_block() ? 0 : warp * batch_.groups_of_warp() + i;
      group.memory = number * batch_.group_bytes() / 4;
      group.warp = batch_.is_block() ? warp : 0;
    }
    return mine;
  }

  std::int64_t chunks_of(const Group& group) const {
    return parts(group.last - group.first, batch_.limits.lanes);
  }

  /// The most of all groups, of what of(group) says.
  template <class Of>
  static std::int64_t most(const Warp& mine, Of of) {
    std::int64_t most = 0;
    for (const Group& group : mine) most = std::max<std::int64_t>(most, of(group));
    return most;
  }

  void sync(WarpTrace& trace) const {
    if (batch_.is_block())
      trace.barrier();
    else
      trace.issue(1);
  }

  /// A prefix sum over the group: shuffles wait for each other.
  void before(WarpTrace& trace) const {
    trace.issue(kBeforeInstructions);
    for (int step = 1; step < 2 * batch_.lanes_of_warp(); step *= 2) trace.shared(1);
    if (!batch_.is_block()) return;
    trace.barrier();
    trace.issue(2 * batch_.warps_of_group());
    trace.shared(batch_.warps_of_group());
    trace.barrier();
  }

  /// `count` accesses by each lane that do not wait for each other, in order.
  static void stream(std::int64_t count, int instructions, WarpTrace& trace) {
    for (std::int64_t i = 0; i < count; i += kAhead) {
      const int size = static_cast<int>(std::min<std::int64_t>(kAhead, count - i));
      trace.issue(instructions * size);
      trace.shared(size);
    }
  }

  template <class Touch>
  void load_each(const Warp& mine, int board, WarpTrace& trace, Touch touch) const {
    if (mine.count == 0) return;
    trace.load(board);
    for (const Group& group : mine) touch(group);
  }

  void begin(const Warp& mine, WarpTrace& trace) const {
    trace.issue(kBeginInstructions);
    trace.pause(kSpecialRegisters);
    if (!batch_.is_sum) trace.barrier();
    if (mine.count > 0) {
      trace.load(kTaskBoard);
      trace.touch(
          at_.sorted + 4 * static_cast<std::uint64_t>(batch_.first_sorted + mine.first_number),
          4 * mine.count);
      trace.wait(kTaskBoard);
      for (int i = 0; i < 4; ++i)
        load_each(mine, kTaskBoard, trace, [&](const Group& group) {
          trace.touch(at_.tasks + kTaskBytes * static_cast<std::uint64_t>(group.id) +
                          4 * static_cast<std::uint64_t>(i),
                      4);
        });
      for (int i = 0; batch_.is_sum && i < 2; ++i)
        load_each(mine, kTaskBoard, trace, [&](const Group& group) {
          trace.touch(at_.offsets + 8 * static_cast<std::uint64_t>(group.id + i), 8);
        });
      trace.wait(kTaskBoard);
    }
    trace.issue(kTaskInstructions);
    stream(slots_of_lane(mine), batch_.table < 0 ? 2 : 4, trace);
    sync(trace);
  }

  /// Slots of the bitmap that a lane goes over.
  std::int64_t slots_of_lane(const Warp& mine) const {
    if (batch_.table >= 0) return batch_.slots() / batch_.limits.lanes;
    return parts(most(mine, [](const Group& group) { return group.work->task.words; }),
                 batch_.limits.lanes);
  }

  /// The place in [begin, end) of B's nonzeros or words from where they are not below `word`;
  /// visit(place) for each that is looked at.
  template <bool kAdds, class Visit>
  std::int64_t find_word(std::int64_t begin, std::int64_t end, std::int32_t word,
                         Visit visit) const {
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      visit(middle);
      const std::int32_t found =
          kAdds ? product_->b.col_indices[middle] / kWordCols : product_->words[middle];
      if (found < word)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }

  template <bool kAdds, class Visit>
  Segment segment(const Task& task, std::int64_t k, Visit visit) const {
    const std::int32_t row = product_->a.col_indices[k];
    const std::int64_t begin = product_->b.row_offsets[row];
    const std::int64_t end =
        kAdds ? product_->b.row_offsets[row + 1] : begin + product_->num_words[row];
    if (!task.is_sliced) return {begin, end - begin};
    const std::int64_t first = find_word<kAdds>(begin, end, task.first_word, visit);
    return {first, find_word<kAdds>(first, end, task.first_word + task.words, visit) - first};
  }

  /// Calls visit(segment) for those of a chunk of A's nonzeros that are not empty.
  template <bool kAdds, class Visit>
  void for_segments(const Group& group, std::int64_t chunk, Visit visit) const {
    const std::int64_t first = group.first + chunk * batch_.limits.lanes;
    for (std::int64_t k = first; k < std::min(first + batch_.limits.lanes, group.last); ++k) {
      const Segment found = segment<kAdds>(group.work->task, k, [](std::int64_t) {});
      if (found.length > 0) visit(found);
    }
  }

  /// Places of a step; marks are made by each warp of a thread block for itself.
  template <bool kAdds>
  int width() const {
    return kAdds ? batch_.limits.lanes : batch_.lanes_of_warp();
  }

  /// Calls visit(segment, its number) for those that the warp goes through.
  template <bool kAdds, class Visit>
  void for_own_segments(const Group& group, std::int64_t chunk, Visit visit) const {
    const int stride = kAdds ? 1 : batch_.warps_of_group();
    std::int64_t number = 0;
    for_segments<kAdds>(group, chunk, [&](const Segment& segment) {
      if (kAdds || number % stride == group.warp) visit(segment, number);
      ++number;
    });
  }

  template <bool kAdds>
  std::int64_t steps_of(const Group& group, std::int64_t chunk) const {
    std::int64_t steps = 0;
    for_own_segments<kAdds>(group, chunk, [&](const Segment& segment, std::int64_t) {
      steps += parts(segment.length, width<kAdds>());
    });
    return steps;
  }

  /// Steps [first, last) of a chunk, as far as there are any.
  template <bool kAdds>
  std::vector<Step> steps(const Group& group, std::int64_t chunk, std::int64_t first,
                          std::int64_t last) const {
    std::vector<Step> found(static_cast<std::size_t>(last - first));
    const std::int64_t own = kAdds ? 32 * group.warp : 0;  // of a step's places, the warp's first
    std::int64_t step = 0;
    for_own_segments<kAdds>(group, chunk, [&](const Segment& segment, std::int64_t number) {
      const std::int64_t begin = step;
      step += parts(segment.length, width<kAdds>());
      for (std::int64_t i = std::max(first, begin); i < std::min(last, step); ++i) {
        const std::int64_t from = (i - begin) * width<kAdds>() + own;
        found[static_cast<std::size_t>(i - first)] = {
            .at = segment.begin + from,
            .lanes = static_cast<int>(
                std::clamp<std::int64_t>(segment.length - from, 0, batch_.lanes_of_warp())),
            .ends_segment = i + 1 == step,
            .staged = number};
      }
    });
    return found;
  }

  /// The steps of all groups of the warp, side by side.
  struct SideBySide {
    std::int64_t first = 0;
    std::vector<std::vector<Step>> of_group;

    /// Calls visit(group, step) for those of lanes that have something to do.
    template <class Visit>
    void visit(const Warp& mine, std::int64_t step, Visit visit) const {
      for (int i = 0; i < mine.count; ++i) {
        const Step& of = of_group[i][static_cast<std::size_t>(step - first)];
        if (of.lanes > 0) visit(mine.groups[static_cast<std::size_t>(i)], of);
      }
    }
    bool is_idle(std::int64_t step) const {
      return std::ranges::all_of(of_group, [&](const auto& of) {
        return of[static_cast<std::size_t>(step - first)].lanes == 0;
      });
    }
  };

  /// The next piece of the marks or the sums. True: that was all.
  template <bool kAdds>
  bool go_through(const Warp& mine, WarpCursor& cursor, WarpTrace& trace) const {
    constexpr std::int64_t kChunk = std::int64_t{1} << 32;  // a step counts chunks above iterations
    const std::int64_t chunk = cursor.step / kChunk, first = cursor.step % kChunk;
    const std::int64_t chunks = most(mine, [&](const Group& group) { return chunks_of(group); });
    if (chunk == 0 && first == 0) begin_segments<kAdds>(mine, trace);
    if (chunk == chunks) return true;
    const std::int64_t all = most(
        mine, [&](const Group& group) { return parts(steps_of<kAdds>(group, chunk), kAhead); });
    const std::int64_t iterations = std::max<std::int64_t>(all, kAdds ? 0 : 1);
    const std::int64_t last = std::min(first + kIterationsOfPiece, iterations);
    SideBySide side{.first = first * kAhead, .of_group = {}};
    for (const Group& group : mine)
      side.of_group.push_back(steps<kAdds>(group, chunk, first * kAhead, (last + 1) * kAhead));
    if (first == 0) {
      stage<kAdds>(mine, chunk, chunks, trace);
      load_steps<kAdds>(mine, side, 0, trace);
    }
    for (std::int64_t i = first; i < last; ++i) {
      wait_for_steps(side, i, trace);
      load_steps<kAdds>(mine, side, i + 1, trace);
      for (std::int64_t step = i * kAhead; !kAdds && step < (i + 1) * kAhead; ++step)
        mark(mine, side, step, trace);
      if constexpr (kAdds) add(mine, side, i * kAhead, trace);
    }
    cursor.step = chunk * kChunk + last;
    if (last < iterations) return false;
    sync(trace);
    cursor.step = (chunk + 1) * kChunk;
    return chunk + 1 == chunks;
  }

  template <bool kAdds>
  void begin_segments(const Warp& mine, WarpTrace& trace) const {
    if (most(mine, [](const Group& group) { return group.work->task.words; }) > 0) {
      trace.load(kTaskBoard);
      for (const Group& group : mine)
        if (group.work->task.words > 0)
          trace.touch(at_.a_offsets + 4 * static_cast<std::uint64_t>(group.work->task.row), 8);
      trace.wait(kTaskBoard);
    }
    trace.issue(kLoadSegmentInstructions);
    load_segments<kAdds>(mine, 0, trace);
  }

  /// Calls visit(group, first, count) for the nonzeros of A that the warp's lanes have in a chunk.
  template <class Visit>
  void for_own_nonzeros(const Warp& mine, std::int64_t chunk, Visit visit) const {
    for (const Group& group : mine) {
      const std::int64_t first =
          group.first + chunk * batch_.limits.lanes + std::int64_t{32} * group.warp;
      const std::int64_t count = std::min<std::int64_t>(batch_.lanes_of_warp(), group.last - first);
      if (count > 0) visit(group, first, count);
    }
  }
  bool has_nonzeros(const Warp& mine, std::int64_t chunk) const {
    bool any = false;
    for_own_nonzeros(mine, chunk, [&](const Group&, std::int64_t, std::int64_t) { any = true; });
    return any;
  }

  /// The segments of a chunk, a lane each: their columns of A, then where their rows of B are.
  template <bool kAdds>
  void load_segments(const Warp& mine, std::int64_t chunk, WarpTrace& trace) const {
    trace.issue(kLoadSegmentInstructions);
    if (!has_nonzeros(mine, chunk)) return;
    const auto for_lanes = [&](auto visit) { for_own_nonzeros(mine, chunk, visit); };
    const auto load_of_a = [&](int board, std::uint64_t array) {
      trace.load(board);
      for_lanes([&](const Group&, std::int64_t first, std::int64_t count) {
        trace.touch(array + 4 * static_cast<std::uint64_t>(first), 4 * count);
      });
    };
    load_of_a(kSearchBoard, at_.a_cols);
    trace.wait(kSearchBoard);
    trace.load(kSegmentBoard);
    for_lanes([&](const Group&, std::int64_t first, std::int64_t count) {
      for (std::int64_t k = first; k < first + count; ++k)
        trace.touch(at_.rows_of_b + 16 * static_cast<std::uint64_t>(product_->a.col_indices[k]),
                    16);
    });
    if (kAdds) load_of_a(kSegmentBoard, at_.a_values);
    search<kAdds>(mine, chunk, trace);
  }

  /// What lies in a slice is looked for by every lane on its own, step by step.
  template <bool kAdds>
  void search(const Warp& mine, std::int64_t chunk, WarpTrace& trace) const {
    std::vector<std::vector<std::int64_t>> looked_at;
    for_own_nonzeros(mine, chunk, [&](const Group& group, std::int64_t first, std::int64_t count) {
      for (std::int64_t k = first; group.work->task.is_sliced && k < first + count; ++k) {
        std::size_t turn = 0;
        segment<kAdds>(group.work->task, k, [&](std::int64_t at) {
          if (turn == looked_at.size()) looked_at.emplace_back();
          looked_at[turn++].push_back(at);
        });
      }
    });
    if (!looked_at.empty()) trace.wait(kSegmentBoard);
    for (const auto& turn : looked_at) {
      trace.load(kSearchBoard);
      for (const std::int64_t at : turn)
        trace.touch((kAdds ? at_.b_cols + 4 * static_cast<std::uint64_t>(at)
                           : at_.words_of_b + kWordBytes * static_cast<std::uint64_t>(at)),
                    4);
      trace.issue(kSearchInstructions);
      trace.wait(kSearchBoard);
    }
  }

  template <bool kAdds>
  void stage(const Warp& mine, std::int64_t chunk, std::int64_t chunks, WarpTrace& trace) const {
    if (has_nonzeros(mine, chunk)) trace.wait(kSegmentBoard);
    before(trace);
    before(trace);
    trace.issue(kStageInstructions);
    trace.shared(2);
    sync(trace);
    if (chunk + 1 < chunks)
      load_segments<kAdds>(mine, chunk + 1, trace);
    else
      trace.issue(kLoadSegmentInstructions);
    if (kAdds && !batch_.is_block()) trace.shared(1);  // the most steps of the warp's groups
  }

  /// The loads of an iteration's steps. A lane that comes to the end of a segment fetches the next.
  template <bool kAdds>
  void load_steps(const Warp& mine, const SideBySide& side, std::int64_t iteration,
                  WarpTrace& trace) const {
    for (std::int64_t step = iteration * kAhead; step < (iteration + 1) * kAhead; ++step) {
      trace.issue(kStepInstructions);
      if (!side.is_idle(step)) {
        load_step(mine, side, step, kAdds ? at_.b_cols : at_.words_of_b, kAdds ? 4 : kWordBytes,
                  trace);
        if (kAdds) load_step(mine, side, step, at_.b_values, 4, trace);
      }
      Banks banks;
      for (int i = 0; i < mine.count; ++i) {
        const Step& of = side.of_group[i][static_cast<std::size_t>(step - side.first)];
        if (!of.ends_segment) continue;
        for (int word = 0; word < 4; ++word)
          banks.add(mine.groups[static_cast<std::size_t>(i)].memory + 4 * (of.staged + 1) + word);
      }
      if (const int wavefronts = banks.wavefronts(); wavefronts > 0) {
        trace.issue(kFetchInstructions);
        trace.shared(wavefronts);
      }
    }
  }

  void load_step(const Warp& mine, const SideBySide& side, std::int64_t step, std::uint64_t array,
                 int bytes, WarpTrace& trace) const {
    trace.load(kDataBoard);
    side.visit(mine, step, [&](const Group&, const Step& of) {
      trace.touch(array + static_cast<std::uint64_t>(bytes * of.at), bytes * of.lanes);
    });
  }

  static void wait_for_steps(const SideBySide& side, std::int64_t iteration, WarpTrace& trace) {
    for (std::int64_t step = iteration * kAhead; step < (iteration + 1) * kAhead; ++step) {
      if (side.is_idle(step)) continue;
      trace.wait(kDataBoard);
      return;
    }
  }

  /// Where a word's marks are, in words of shared memory; the key of a table.
  std::int64_t slot_of(const Group& group, std::int32_t word) const {
    return batch_.table >= 0 ? first_slot(word) : word - group.work->task.first_word;
  }
  std::int64_t marks_of(const Group& group, std::int32_t word) const {
    return group.memory + 4 * batch_.limits.lanes + batch_.slot_words() * slot_of(group, word);
  }
  std::int64_t key_of(const Group& group, std::int32_t word) const {
    return group.memory + 4 * batch_.limits.lanes +
           std::int64_t{batch_.slot_words()} * batch_.slots() + first_slot(word);
  }
  std::int64_t sums_of(const Group& group) const {
    const std::int64_t bitmap =
        batch_.table >= 0 ? 7 * batch_.slots() / 2 : batch_.slot_words() * group.work->task.words;
    return group.memory + 4 * batch_.limits.lanes + bitmap;
  }
  std::int64_t first_slot(std::int32_t word) const {
    return static_cast<std::int64_t>(static_cast<std::uint32_t>(word) * 2654435769u >> 16) %
           batch_.slots();
  }

  void mark(const Warp& mine, const SideBySide& side, std::int64_t step, WarpTrace& trace) const {
    trace.issue(2);
    if (side.is_idle(step)) return;
    Banks marks, keys;
    double expected = 0;  // words with new columns
    side.visit(mine, step, [&](const Group& group, const Step& of) {
      for (std::int64_t at = of.at; at < of.at + of.lanes; ++at) {
        marks.add(marks_of(group, product_->words[at]));
        if (batch_.table >= 0) keys.add(key_of(group, product_->words[at]));
      }
      const double new_columns =
          static_cast<double>(group.work->columns) / static_cast<double>(group.work->products);
      expected += of.lanes * new_columns;
    });
    const double rate = std::min(1.0, expected);
    const bool is_new = static_cast<std::int64_t>(static_cast<double>(step + 1) * rate) >
                        static_cast<std::int64_t>(static_cast<double>(step) * rate);
    if (batch_.table >= 0) {
      trace.issue(kHashInstructions);
      trace.shared(keys.wavefronts() + (is_new ? 1 : 0));
    }
    trace.issue(kMarkInstructions);
    trace.shared(marks.wavefronts());
    if (is_new) trace.issue(1);  // nobody waits for the atomic operation
  }

  /// Ranks of four steps, then their sums one step after the other.
  void add(const Warp& mine, const SideBySide& side, std::int64_t first, WarpTrace& trace) const {
    int wavefronts = 0;
    for (std::int64_t step = first; step < first + kAhead; ++step) {
      if (side.is_idle(step)) continue;
      Banks marks, keys;
      side.visit(mine, step, [&](const Group& group, const Step& of) {
        for (std::int64_t at = of.at; at < of.at + of.lanes; ++at) {
          const std::int32_t word = product_->b.col_indices[at] / kWordCols;
          marks.add(marks_of(group, word));
          marks.add(marks_of(group, word) + 1);
          if (batch_.table >= 0) keys.add(key_of(group, word));
        }
      });
      if (batch_.table >= 0) {
        trace.issue(kHashInstructions);
        trace.shared(keys.wavefronts());
      }
      trace.issue(kRankInstructions);
      wavefronts += marks.wavefronts();
    }
    if (wavefronts > 0) trace.shared(wavefronts);
    for (std::int64_t step = first; step < first + kAhead; ++step) {
      trace.issue(kIdleInstructions);
      if (!side.is_idle(step)) add_step(mine, side, step, trace);
      sync(trace);
    }
  }

  /// A sum is loaded and stored.
  void add_step(const Warp& mine, const SideBySide& side, std::int64_t step,
                WarpTrace& trace) const {
    Banks sums;
    side.visit(mine, step, [&](const Group& group, const Step& of) {
      const TaskWork& work = *group.work;
      const std::int64_t begin = std::int64_t{work.task.first_word} * kWordCols;
      const std::int64_t range = std::int64_t{work.task.words} * kWordCols;
      for (std::int64_t at = of.at; at < of.at + of.lanes; ++at)
        sums.add(sums_of(group) + (product_->b.col_indices[at] - begin) * work.columns / range);
    });
    trace.shared(2 * sums.wavefronts());
    trace.issue(kAddInstructions);
  }

  void finish_count(const Warp& mine, WarpTrace& trace) const {
    stream(slots_of_lane(mine), 5, trace);
    before(trace);
    if (mine.count > 0) {
      trace.store();
      for (const Group& group : mine)
        if (group.warp == 0) trace.touch(at_.lengths + 4 * static_cast<std::uint64_t>(group.id), 4);
      trace.issue(kBeginInstructions / 2);  // the class of the sums
      trace.shared(1);
    }
    trace.barrier();
    if (!mine.is_first) return;
    trace.issue(kIdleInstructions);
    trace.atomic(1);
    trace.touch(at_.summary, 4 * kSumClasses);
  }

  /// Ranks of words, then the columns of C.
  void rank(const Warp& mine, WarpTrace& trace) const {
    if (batch_.table >= 0) sort_table(mine, trace);
    const std::int64_t rounds = batch_.table >= 0 ? rounds_of_words(mine) : slots_of_lane(mine);
    std::int64_t with_marks = 0;
    for (const Group& group : mine) with_marks += group.work->filled_words;
    for (std::int64_t round = 0; round < rounds; ++round) {
      trace.issue(kRoundInstructions);
      trace.shared(2);  // ranks lie between the marks
      if (!batch_.is_block() && round >= with_marks) continue;
      before(trace);
      trace.issue(kPlaceInstructions);
      trace.shared(2);
    }
    sync(trace);
    for (std::int64_t round = 0; round < rounds_of_words(mine); ++round)
      write_columns(mine, round, trace);
    sync(trace);
    stream(parts(most(mine, [](const Group& group) { return group.work->columns; }),
                 batch_.limits.lanes),
           2, trace);
    sync(trace);
  }

  std::int64_t rounds_of_words(const Warp& mine) const {
    return parts(most(mine, [](const Group& group) { return group.work->filled_words; }),
                 batch_.limits.lanes);
  }

  /// A word each lane. The columns of a task are dealt evenly to its words.
  void write_columns(const Warp& mine, std::int64_t round, WarpTrace& trace) const {
    trace.issue(kWordInstructions);
    trace.shared(1);
    trace.shared(2);
    int turns = 0;
    for (const Group& group : mine)
      if (group.work->filled_words > 0)
        turns =
            std::max(turns, static_cast<int>(parts(group.work->columns, group.work->filled_words)));
    bool any = false;
    for (const Group& group : mine) {
      const std::int64_t words = group.work->filled_words;
      const std::int64_t first = round * batch_.limits.lanes + std::int64_t{32} * group.warp;
      const std::int64_t last = std::min(first + batch_.lanes_of_warp(), words);
      if (first >= last) continue;
      if (!any) {
        trace.issue(kColumnInstructions * turns);
        trace.store(turns);
        any = true;
      }
      const std::int64_t begin = first * group.work->columns / words;
      touch_c(at_.c_cols, group, begin, last * group.work->columns / words, trace);
    }
  }

  void touch_c(std::uint64_t array, const Group& group, std::int64_t begin, std::int64_t end,
               WarpTrace& trace) const {
    trace.touch(array + 4 * static_cast<std::uint64_t>(product_->offsets[group.id] + begin),
                4 * (end - begin));
  }

  /// Keys are gathered, then sorted by a bitonic network.
  void sort_table(const Warp& mine, WarpTrace& trace) const {
    for (std::int64_t i = 0; i < slots_of_lane(mine); ++i) {
      trace.issue(kRoundInstructions);
      trace.shared(1);
      before(trace);
    }
    const auto words = static_cast<std::uint64_t>(
        most(mine, [](const Group& group) { return group.work->filled_words; }));
    const auto size = static_cast<std::int64_t>(std::bit_ceil(words));
    sync(trace);
    for (std::int64_t run = 2; run <= size; run *= 2)
      for (std::int64_t step = run / 2; step > 0; step /= 2) {
        for (std::int64_t i = 0; i < parts(size / 2, batch_.limits.lanes); ++i) {
          trace.issue(kPlaceInstructions);
          trace.shared(2);
        }
        sync(trace);
      }
  }

  void finish_sums(const Warp& mine, WarpTrace& trace) const {
    const int lanes = batch_.limits.lanes;
    const std::int64_t rounds =
        parts(most(mine, [](const Group& group) { return group.work->columns; }), lanes);
    for (std::int64_t round = 0; round < rounds; ++round) {
      trace.issue(3);
      if (round % kAhead == 0)
        trace.shared(static_cast<int>(std::min<std::int64_t>(kAhead, rounds - round)));
      bool any = false;
      for (const Group& group : mine) {
        const std::int64_t first = round * lanes + std::int64_t{32} * group.warp;
        const std::int64_t last =
            std::min<std::int64_t>(first + batch_.lanes_of_warp(), group.work->columns);
        if (first >= last) continue;
        if (!any) trace.store();
        any = true;
        touch_c(at_.c_values, group, first, last, trace);
      }
    }
    trace.issue(kIdleInstructions);
  }

  std::shared_ptr<const Product> product_;
  Batch batch_;
  Addresses at_;
};

/// The classes that have tasks, in the order in which they are launched: the last first.
template <class ClassOf>
std::vector<Batch> batches(const Product& product, bool is_sum, int classes, ClassOf class_of) {
  std::vector<Batch> all(static_cast<std::size_t>(classes));
  for (std::int64_t id = 0; id < std::ssize(product.tasks); ++id)
    all[static_cast<std::size_t>(class_of(product.tasks[id]))].tasks.push_back(id);
  const int first_table = is_sum ? int{kSumTable} : int{kMarkTable};
  std::int64_t sorted = 0;
  for (int i = 0; i < classes; ++i) {
    Batch& batch = all[static_cast<std::size_t>(i)];
    batch.number = i;
    batch.limits = is_sum ? sum_limits(i) : mark_limits(i);
    if (i >= first_table && i < first_table + kTables) batch.table = i - first_table;
    batch.is_sum = is_sum;
    batch.first_sorted = sorted;
    sorted += std::ssize(batch.tasks);
  }
  std::erase_if(all, [](const Batch& batch) { return batch.tasks.empty(); });
  std::ranges::reverse(all);
  return all;
}

/// What a task adds to its thread block. Searches for slices are not counted.
void add_task(const Product& product, const TaskWork& task, bool is_sum, ThreadBlockWork& work) {
  const CsrMatrix& a = product.a;
  const std::int64_t nonzeros =
      task.task.words > 0 ? a.row_offsets[task.task.row + 1] - a.row_offsets[task.task.row] : 0;
  work.a_bytes += 4 + kTaskBytes + 8 + (4 + 16) * nonzeros;
  work.b_bytes += kWordBytes * task.words_read;
  if (!is_sum) return;
  work.a_bytes += 16 + 8 + (4 + 16 + 4) * nonzeros;
  work.b_bytes += 8 * task.products;
  work.c_bytes += 8 * task.columns;
  work.fma += task.products;
}

void add_launch(const std::shared_ptr<const Product>& product, Batch batch, const Addresses& at,
                WorkDescription& work) {
  const std::int64_t blocks = batch.thread_blocks();
  const auto first = work.thread_blocks.size();
  work.thread_blocks.resize(first + static_cast<std::size_t>(blocks));
  for (std::int64_t i = 0; i < std::ssize(batch.tasks); ++i)
    add_task(*product, product->tasks[batch.tasks[i]], batch.is_sum,
             work.thread_blocks[first + static_cast<std::size_t>(i / batch.groups())]);
  Launch launch{.name = fmt::format("{} {}", batch.is_sum ? "sums" : "counting", batch.number),
                .thread_blocks = blocks,
                .threads_per_block = batch.threads(),
                .registers_per_thread = batch.registers(),
                .shared_bytes = batch.groups() * batch.group_bytes() + 4 * batch.warps_of_group() +
                                (batch.is_sum ? 0 : 4 * kSumClasses)};
  const auto trace = std::make_shared<GroupsTrace>(product, std::move(batch), at);
  for (std::int64_t block = 0; block < blocks; ++block)
    work.thread_blocks[first + static_cast<std::size_t>(block)].barriers = trace->barriers(block);
  launch.trace = trace;
  work.launches.push_back(std::move(launch));
}

Addresses add_arrays(const Product& product, AddressSpace& memory) {
  const CsrMatrix &a = product.a, &b = product.b;
  const auto tasks = std::ssize(product.tasks);
  const std::int64_t columns = product.offsets.back();
  Addresses at{};
  at.a_offsets = memory.add("a_offsets", 4 * (std::int64_t{a.rows} + 1));
  at.a_cols = memory.add("a_cols", 4 * a.nnz());
  at.a_values = memory.add("a_values", 4 * a.nnz());
  // A product of a matrix with itself has it on the device once.
  at.b_cols = &a == &b ? at.a_cols : memory.add("b_cols", 4 * b.nnz());
  at.b_values = &a == &b ? at.a_values : memory.add("b_values", 4 * b.nnz());
  at.rows_of_b = memory.add("rows_of_b", 16 * std::int64_t{b.rows});
  at.words_of_b = memory.add("words_of_b", kWordBytes * b.nnz());
  at.tasks = memory.add("tasks", kTaskBytes * tasks);
  at.sorted = memory.add("sorted", 4 * tasks);
  at.lengths = memory.add("lengths", 4 * (tasks + 1));
  at.offsets = memory.add("offsets", 8 * (tasks + 1));
  at.summary = memory.add("summary", 4 * kSumClasses);
  at.c_cols = memory.add("c_cols", 4 * columns);
  at.c_values = memory.add("c_values", 4 * columns);
  return at;
}

/// Of the rows of B that A has a nonzero for.
std::int64_t bytes_of_met_rows(const CsrMatrix& a, const CsrMatrix& b) {
  std::vector<bool> is_met(static_cast<std::size_t>(b.rows));
  for (const std::int32_t col : a.col_indices) is_met[col] = true;
  std::int64_t bytes = 0;
  for (std::int32_t row = 0; row < b.rows; ++row)
    if (is_met[row]) bytes += 8 + 8 * (b.row_offsets[row + 1] - b.row_offsets[row]);
  return bytes;
}

}  // namespace

WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  const auto product = std::make_shared<const Product>(analyse(a, b));
  WorkDescription work{.kernel = "row_spgemm"};
  const Addresses at = add_arrays(*product, work.memory);
  for (Batch& batch : batches(*product, false, kMarkClasses,
                              [](const TaskWork& of) { return mark_class(of.task); }))
    add_launch(product, std::move(batch), at, work);
  for (Batch& batch : batches(*product, true, kSumClasses,
                              [](const TaskWork& of) { return sum_class(of.task, of.columns); }))
    add_launch(product, std::move(batch), at, work);
  work.footprint_bytes = 4 * (std::int64_t{a.rows} + 1) + 8 * a.nnz();
  work.b_rows_bytes = bytes_of_met_rows(a, b);
  work.c_bytes = 8 * (std::int64_t{a.rows} + 1) + 8 * product->offsets.back();
  work.useful_flops = 2 * work.total().fma;
  return work;
}

}  // namespace tessera::row_spgemm
