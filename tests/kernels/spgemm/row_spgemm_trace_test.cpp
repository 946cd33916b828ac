// The work of row_spgemm and its traces: every class of tasks is launched, lanes take every product
// once, and warps touch the bytes of the description.

#include "kernels/spgemm/row/trace.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "kernels/spgemm/row/row_spgemm.hpp"
#include "kernels/spgemm/row/walk.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "model/simulator/simulator.hpp"
#include "tests/support.hpp"
#include "tests/trace_support.hpp"

namespace tessera {
namespace {

CsrMatrix from_rows(std::int32_t cols, const std::vector<std::vector<std::int32_t>>& rows) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> col_indices;
  for (const auto& row : rows) {
    col_indices.insert(col_indices.end(), row.begin(), row.end());
    offsets.push_back(std::ssize(col_indices));
  }
  std::vector<float> values;
  for (std::size_t i = 0; i < col_indices.size(); ++i) values.push_back(random_signed(5, i));
  return {static_cast<std::int32_t>(rows.size()), cols, std::move(offsets), std::move(col_indices),
          std::move(values)};
}

/// `count` different numbers in [first, last), ascending.
std::vector<std::int32_t> draw(std::int32_t count, std::int32_t first, std::int32_t last,
                               RandomSequence& random) {
  std::set<std::int32_t> drawn;
  while (std::ssize(drawn) < std::min(count, last - first))
    drawn.insert(first + static_cast<std::int32_t>(random.below(last - first)));
  return {drawn.begin(), drawn.end()};
}

struct Operands {
  CsrMatrix a, b;
};

/// Rows of C from none, few and many rows of B, short and long, in narrow and in wide ranges; some
/// are cut into slices.
Operands of_all_classes() {
  constexpr std::int32_t kRowsOfBand = 24;
  RandomSequence random(21);
  std::vector<std::vector<std::int32_t>> a, b;
  for (const std::int32_t length : {1, 2, 5, 30, 100, 600, 1500})
    for (const std::int32_t range : {400, 1800, 7000, 12000, 40000, 200000, 2000000}) {
      const auto first = static_cast<std::int32_t>(b.size());
      for (int i = 0; i < kRowsOfBand; ++i) b.push_back(draw(length, 0, range, random));
      for (const std::int32_t nonzeros : {0, 2, 4, 6, 8, 12, 16, 24})
        a.push_back(draw(nonzeros, first, first + kRowsOfBand, random));
    }
  // Two ranges of short rows with common words: more words than a warp loads at once.
  for (const std::int32_t length : {3, 12, 20, 30})
    for (const std::int32_t range : {20000, 60000, 2000000}) {
      const auto first = static_cast<std::int32_t>(b.size());
      for (int i = 0; i < 600; ++i) b.push_back(draw(length, 0, range, random));
      for (const std::int32_t nonzeros : {40, 150, 400, 550})
        a.push_back(draw(nonzeros, first, first + 600, random));
    }
  // Runs of neighbours, far from other runs: many products in few words.
  const auto first = static_cast<std::int32_t>(b.size());
  for (std::int32_t i = 0; i < 300; ++i) {
    std::vector<std::int32_t> row(24);
    std::iota(row.begin(), row.end(),
              static_cast<std::int32_t>(4000 * random.below(60) + random.below(4)));
    b.push_back(row);
  }
  a.push_back(draw(250, first, first + 300, random));
  const auto rows_of_b = static_cast<std::int32_t>(b.size());
  a.push_back(draw(2000, 0, rows_of_b, random));
  return {from_rows(rows_of_b, a), from_rows(2000000, b)};
}

/// A hub of A, a hub of B, empty rows, and rows of B that span all columns.
Operands with_hubs() {
  RandomSequence random(23);
  std::vector<std::vector<std::int32_t>> a, b;
  for (std::int32_t i = 0; i < 1500; ++i) {
    const std::int32_t length = i == 700 ? 20000 : i % 7 == 0 ? 0 : i % 40;
    b.push_back(i % 5 == 0 ? draw(length, 0, 30000, random)
                           : draw(length, 20 * i, 20 * i + 90, random));
    const std::int32_t nonzeros = i == 3 ? 1400 : i % 11 == 0 ? 0 : i % 13;
    a.push_back(draw(nonzeros, 0, 1500, random));
  }
  return {from_rows(1500, a), from_rows(31000, b)};
}

std::vector<Operands> cases() {
  return {of_all_classes(),
          with_hubs(),
          {random_sparse(203, 157, 0.07, 2), random_sparse(157, 90, 0.2, 3)},
          {random_sparse(40, 50, 0.0, 5), random_sparse(50, 40, 0.1, 6)},
          // A hub in A, one in B.
          {random_sparse(2, 3000, 0.9, 7), random_sparse(3000, 300, 0.02, 8)},
          {random_sparse(300, 4, 0.5, 9), random_sparse(4, 70000, 0.3, 10)}};
}

/// Calls visit(array, sector of the array) for what an operation touches.
template <class Visit>
void for_sectors(const WorkDescription& work, const WarpTrace& trace, const WarpOp& op,
                 Visit visit) {
  for (std::uint32_t i = op.first_line; i < op.last_line; ++i)
    for (int sector = 0; sector < kSectorsPerLine; ++sector) {
      if ((trace.lines[i].sectors >> sector & 1) == 0) continue;
      const std::uint64_t address =
          std::uint64_t{trace.lines[i].line} * kLineBytes + std::uint64_t{kSectorBytes} * sector;
      const AddressSpace::Array& array = array_of(work.memory, address);
      visit(array, static_cast<std::int64_t>(address - array.begin) / kSectorBytes);
    }
}

TEST_CASE("the work of row_spgemm counts every product and every element of C once") {
  for (const auto& [a, b] : cases()) {
    CAPTURE(a.rows);
    const WorkDescription work = row_spgemm::describe_work(a, b);
    const CsrMatrix c = multiply_rows(a, b);
    std::int64_t products = 0;
    for (const std::int32_t col : a.col_indices)
      products += b.row_offsets[col + 1] - b.row_offsets[col];
    CHECK(work.total().fma == products);
    CHECK(work.useful_flops == 2 * products);
    CHECK(work.total().c_bytes == work.c_bytes);
    CHECK(work.c_bytes == 8 * (c.rows + 1) + 8 * c.nnz());
    std::int64_t blocks = 0;
    for (const Launch& launch : work.launches) blocks += launch.thread_blocks;
    CHECK(blocks == std::ssize(work.thread_blocks));
  }
}

TEST_CASE("every class of row_spgemm's tasks has a launch") {
  const auto [a, b] = of_all_classes();
  std::vector<std::string> names,
      expected{"describing rows of B", "analysing rows", "cutting rows", "sorting for counting"};
  for (const Launch& launch : row_spgemm::describe_work(a, b).launches)
    names.push_back(launch.name);
  // The marks of a whole bitmap are small, so the larger classes have no tasks in the first phase.
  const std::set<int> without_marks{7, 9, 10, 11};
  for (int i = row_spgemm::kClasses - 1; i >= 0; --i)
    if (!without_marks.contains(i)) expected.push_back(fmt::format("counting {}", i));
  // Of the largest class are some; all others have one launch.
  for (const char* name : {"placing tasks", "sums 20", "sums 11", "sums of all classes"})
    expected.emplace_back(name);
  CHECK(fmt::format("{}", fmt::join(names, ", ")) == fmt::format("{}", fmt::join(expected, ", ")));
}

TEST_CASE("row_spgemm describes words of B late where most rows are small, and only if needed") {
  constexpr std::int32_t kRows = 60000;
  std::vector<std::vector<std::int32_t>> a, b;
  for (std::int32_t i = 0; i < kRows; ++i) {
    a.push_back({i});
    b.emplace_back(10);
    std::iota(b.back().begin(), b.back().end(), i);
  }
  const CsrMatrix right = from_rows(kRows + 10, b);
  const auto names = [&] {
    std::string all;
    for (const Launch& launch : row_spgemm::describe_work(from_rows(kRows, a), right).launches)
      all += launch.name + "; ";
    return all;
  };
  CHECK(names() ==
        "measuring rows of B; analysing rows; sorting for counting; counting 1; placing tasks; "
        "sums of all classes; ");
  a.front() = {1, 2, 3, 4, 5};
  CHECK(names() ==
        "measuring rows of B; analysing rows; sorting for counting; describing rows of B; "
        "counting 3; counting 1; placing tasks; sums of all classes; ");
}

TEST_CASE("the warps of row_spgemm write all of C, never read it, and write no operand") {
  for (const auto& [a, b] : cases()) {
    const WorkDescription work = row_spgemm::describe_work(a, b);
    std::map<std::string, std::set<std::int64_t>> written;
    for_warps(work, [&](std::int64_t, const WarpTrace& trace) {
      for (const WarpOp& op : trace.ops)
        for_sectors(work, trace, op, [&](const AddressSpace::Array& array, std::int64_t sector) {
          const bool writes = op.kind == WarpOp::Kind::kStore || op.kind == WarpOp::Kind::kAtomic;
          const std::string of = array.name.substr(0, 2);
          REQUIRE(!(writes && (of == "a_" || of == "b_")));
          REQUIRE(!(!writes && of == "c_"));
          if (writes) written[array.name].insert(sector);
        });
    });
    const auto sectors = [](std::int64_t bytes) {
      return (bytes + kSectorBytes - 1) / kSectorBytes;
    };
    const std::int64_t of_columns = sectors(4 * multiply_rows(a, b).nnz());
    for (const char* array : {"c_cols", "c_values"})
      CHECK(std::ssize(written[array]) == of_columns);
    CHECK(std::ssize(written["c_offsets"]) == sectors(8 * (std::int64_t{a.rows} + 1)));
    for (const AddressSpace::Array& array : work.memory.arrays())
      if (array.name == "offsets" || array.name == "lengths" || array.name == "tasks")
        CHECK(std::ssize(written[array.name]) >= sectors(array.bytes) - 1);
  }
}

/// The columns of a task's segments by definition: for each nonzero of A those in the slice.
std::vector<std::vector<std::int32_t>> columns_of(const CsrMatrix& a, const CsrMatrix& b,
                                                  const row_spgemm::Task& task) {
  std::vector<std::vector<std::int32_t>> segments;
  for (std::int64_t k = a.row_offsets[task.row]; k < a.row_offsets[task.row + 1]; ++k) {
    std::vector<std::int32_t> columns;
    const std::int32_t of = a.col_indices[static_cast<std::size_t>(k)];
    for (std::int64_t at = b.row_offsets[of]; at < b.row_offsets[of + 1]; ++at) {
      const std::int32_t col = b.col_indices[static_cast<std::size_t>(at)];
      const std::int32_t word = col / 32 - task.first_word;
      const bool is_small = task.storage == row_spgemm::MarkStorage::kLanes;
      if (is_small || (word >= 0 && word < task.words)) columns.push_back(col);
    }
    segments.push_back(columns);
  }
  return segments;
}

TEST_CASE("the tasks of row_spgemm count their products, words and columns of C") {
  for (const auto& [a, b] : cases()) {
    const row_spgemm::tracing::ProductAnalysis product = row_spgemm::tracing::analyse(a, b);
    REQUIRE(std::ssize(product.first_tasks) == a.rows + 1);
    for (std::size_t id = 0; id < product.tasks.size(); ++id) {
      const row_spgemm::tracing::TaskWork& work = product.tasks[id];
      REQUIRE(std::int64_t(id) >= product.first_tasks[work.task.row]);
      REQUIRE(std::int64_t(id) < product.first_tasks[work.task.row + 1]);
      std::int64_t products = 0, words = 0;
      std::map<std::int32_t, std::set<std::int32_t>> in_words;
      for (const auto& segment : columns_of(a, b, work.task)) {
        std::set<std::int32_t> of_segment;
        for (const std::int32_t col : segment) {
          of_segment.insert(col / 32);
          in_words[col / 32].insert(col);
        }
        products += std::ssize(segment);
        words += std::ssize(of_segment);
      }
      std::int64_t columns = 0;
      std::map<std::int64_t, std::int64_t> most;  // columns of a slot, of each 32 slots
      for (std::int64_t slot = 0; const auto& [word, of_word] : in_words) {
        const bool keeps_words = work.task.storage == row_spgemm::MarkStorage::kWords;
        std::int64_t& of_group = most[(keeps_words ? slot++ : word - work.task.first_word) / 32];
        of_group = std::max<std::int64_t>(of_group, std::ssize(of_word));
        columns += std::ssize(of_word);
      }
      std::int64_t turns = 0;
      for (const auto& [group, of_group] : most) turns += of_group;
      REQUIRE(work.products == products);
      REQUIRE(work.words_read == words);
      REQUIRE(work.filled_words == std::ssize(in_words));
      REQUIRE(work.columns == columns);
      REQUIRE(work.turns_of_ranks == turns);
      REQUIRE(product.offsets[id + 1] - product.offsets[id] == columns);
      REQUIRE(work.filled_words <= std::max(work.task.kept, 32));
    }
  }
}

TEST_CASE("the lanes of row_spgemm take every product once, in A's order, and add it in turns") {
  using namespace row_spgemm::tracing;
  using Kind = row_spgemm::SegmentKind;
  for (const auto& [a, b] : cases()) {
    const auto product = std::make_shared<const ProductAnalysis>(analyse(a, b));
    for (const int of :
         {row_spgemm::kFirstBitmap, row_spgemm::kSizes + row_spgemm::kFirstBitmap - 1}) {
      ClassLaunch batch{.number = of, .is_sum = true, .tasks = {}};
      const row_spgemm::GroupLaunch shape = batch.shape();
      for (std::size_t id = 0; id < product->tasks.size(); ++id)
        if (product->tasks[id].task.storage != row_spgemm::MarkStorage::kLanes)
          batch.tasks.push_back(static_cast<std::int64_t>(id));
      const TaskWalk walk(product, batch);
      for (std::int64_t number = 0; number < std::ssize(batch.tasks); ++number) {
        const row_spgemm::Task& task = product->tasks[batch.tasks[number]].task;
        std::vector<std::int32_t> expected, found;
        for (const auto& segment : columns_of(a, b, task))
          expected.insert(expected.end(), segment.begin(), segment.end());
        std::int64_t words = 0;
        std::map<std::int64_t, std::vector<std::int32_t>> of_steps;
        for (int warp = 0; warp < shape.warps(); ++warp) {
          const auto group = shape.is_block()
                                 ? walk.group_of(number, warp)
                                 : walk.group_of(number / 4, static_cast<int>(number % 4));
          std::int64_t begin = 0;
          for (std::int64_t set = 0; set < walk.sets_of(group); ++set) {
            const auto products = walk.segments<Kind::kNonzeros>(group, set);
            const auto of_words = walk.segments<Kind::kWords>(group, set);
            const auto columns = [&](const Lanes& lanes) {
              std::vector<std::int32_t> cols;
              for (const Lanes::Run& run : lanes)
                for (int i = 0; i < run.lanes; ++i) cols.push_back(b.col_indices[run.at + i]);
              return cols;
            };
            if (shape.is_block()) {
              row_spgemm::SegmentSteps steps = walk.steps<Kind::kNonzeros>(group, products),
                                       marks = walk.steps<Kind::kWords>(group, of_words);
              const std::int64_t count = steps.count(), of_marks = marks.count();
              for (std::int64_t step = 0; step < count; ++step) {
                row_spgemm::SegmentSteps skipped = walk.steps<Kind::kNonzeros>(group, products);
                skipped.skip(step);
                const Lanes lanes = lanes_of(steps);
                REQUIRE(skipped.place() == steps.place());
                REQUIRE(skipped.count() == count - step);
                REQUIRE(lanes.size <= 1);
                steps.advance();
                const auto cols = columns(lanes);
                auto& all = of_steps[begin + step];
                all.insert(all.end(), cols.begin(), cols.end());
              }
              begin += count;
              REQUIRE(steps.is_at_end());
              for (std::int64_t step = 0; step < of_marks; ++step, marks.advance())
                words += lanes_of(marks).lanes;
              continue;
            }
            const std::int64_t chunks = count_chunks(products);
            for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
              const Lanes lanes = chunk_of(products, chunk);
              REQUIRE((lanes.lanes == 32 || chunk + 1 == chunks));
              const auto cols = columns(lanes);
              found.insert(found.end(), cols.begin(), cols.end());
              const TaskWalk::Turns turns = walk.turns(lanes);
              REQUIRE(turns.compares == (lanes.size > 4));
              std::map<std::int32_t, int> last;  // turn of a column
              int most = 0;
              for (std::size_t lane = 0; lane < cols.size(); ++lane) {
                const int turn = turns.of_lane[lane];
                REQUIRE(turn < turns.count);
                if (last.contains(cols[lane])) REQUIRE(turn > last[cols[lane]]);
                last[cols[lane]] = turn;
                most = std::max(most,
                                static_cast<int>(std::count(cols.begin(), cols.end(), cols[lane])));
              }
              REQUIRE(turns.count == (turns.compares ? most : lanes.size));
              REQUIRE(turns.matches == (turns.compares && most > 1));
            }
            for (std::int64_t chunk = 0; chunk < count_chunks(of_words); ++chunk)
              words += chunk_of(of_words, chunk).lanes;
          }
        }
        for (const auto& [step, cols] : of_steps) {
          REQUIRE(std::set<std::int32_t>(cols.begin(), cols.end()).size() == cols.size());
          found.insert(found.end(), cols.begin(), cols.end());
        }
        REQUIRE(found == expected);
        REQUIRE(words == product->tasks[batch.tasks[number]].words_read);
      }
    }
  }
}

TEST_CASE("the warps of row_spgemm have as many barriers as their thread block's work says") {
  for (const auto& [a, b] : cases()) {
    const WorkDescription work = row_spgemm::describe_work(a, b);
    std::vector<std::int64_t> barriers(work.thread_blocks.size());
    for_warps(work, [&](std::int64_t block, const WarpTrace& trace) {
      barriers[block] += std::ranges::count(trace.ops, WarpOp::Kind::kBarrier, &WarpOp::kind);
    });
    for (std::size_t i = 0; i < barriers.size(); ++i)
      CHECK(barriers[i] == work.thread_blocks[i].barriers);
  }
}

TEST_CASE("the warps of row_spgemm touch the bytes of its work where rows are whole sectors") {
  RandomSequence random(22);
  std::vector<std::vector<std::int32_t>> a, b;
  constexpr std::int32_t kRows = 5, kLength = 32, kWords = 1500;
  for (std::int32_t first = 0; first < 40 * kRows; first += kRows) {
    // A word for each column of C.
    const std::vector<std::int32_t> words = draw(kRows * kLength, 0, kWords, random);
    std::vector<std::vector<std::int32_t>> rows(kRows);
    for (std::int32_t i = 0; i < kRows * kLength; ++i)
      rows[i % kRows].push_back(32 * words[i] + static_cast<std::int32_t>(random.below(32)));
    b.insert(b.end(), rows.begin(), rows.end());
    a.push_back({first, first + 1, first + 2, first + 3, first + 4});
  }
  const CsrMatrix left = from_rows(40 * kRows, a), right = from_rows(32 * kWords, b);
  const WorkDescription work = row_spgemm::describe_work(left, right);
  std::vector<std::int64_t> read(work.thread_blocks.size()), written(read);
  std::vector<bool> is_of_tasks;
  for (const Launch& launch : work.launches)
    is_of_tasks.resize(is_of_tasks.size() + static_cast<std::size_t>(launch.thread_blocks),
                       launch.name.starts_with("counting") || launch.name.starts_with("sums"));
  for_warps(work, [&](std::int64_t block, const WarpTrace& trace) {
    for (const WarpOp& op : trace.ops)
      for_sectors(work, trace, op, [&](const AddressSpace::Array& array, std::int64_t) {
        const std::string& name = array.name;
        if (name == "words_of_b" || name == "b_cols" || name == "b_values")
          read[block] += kSectorBytes;
        if (name == "c_cols" || name == "c_values") written[block] += kSectorBytes;
      });
  });
  std::int64_t all = 0;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!is_of_tasks[i] || work.thread_blocks[i].b_bytes == 0) continue;  // places of rows
    CHECK(read[i] == work.thread_blocks[i].b_bytes);
    CHECK(written[i] == work.thread_blocks[i].c_bytes);
    all += read[i];
  }
  // Both phases read words twice: to mark the words, and to mark the columns in them.
  CHECK(all == (2 * 8 + 2 * 8 + 8) * right.nnz());
}

TEST_CASE("the warps of row_spgemm wait only for loads, and have the same trace piece by piece") {
  for (const auto& [a, b] : cases()) {
    const WorkDescription work = row_spgemm::describe_work(a, b);
    for (const Launch& launch : work.launches) {
      const std::int64_t block = launch.thread_blocks / 2;
      for (int warp = 0; warp < launch.threads_per_block / 32; ++warp) {
        const WarpTrace once = whole_warp(*launch.trace, block, warp);
        std::set<int> raised;
        for (const WarpOp& op : once.ops) {
          if (op.kind == WarpOp::Kind::kLoad) raised.insert(op.scoreboard);
          if (op.kind == WarpOp::Kind::kWait) CHECK(raised.contains(op.scoreboard));
        }
        const Pieces pieces = pieces_of(*launch.trace, block, warp);
        CHECK(pieces.fewest_ops > 0);
        CHECK(pieces.most_ops < 4000);
        CHECK(pieces.ops == once.ops.size());
        CHECK(pieces.lines == once.lines.size());
      }
    }
  }
}

TEST_CASE("the simulator runs the launches of row_spgemm for classes at a time") {
  const auto [a, b] = of_all_classes();
  const WorkDescription work = row_spgemm::describe_work(a, b);
  const simulator::Result result = simulator::simulate(work, find_device("h200"));
  std::vector<std::string> names;
  for (const simulator::LaunchResult& launch : result.launches) names.push_back(launch.name);
  REQUIRE(names.size() == 7);
  CHECK(names[4].starts_with("counting 20, counting 19, "));
  CHECK(names[6] == "sums 20, sums 11, sums of all classes");
  // The host waits for the number of tasks, and for that of C's nonzeros.
  std::vector<std::string> behind_waits;
  for (const Launch& launch : work.launches)
    if (launch.waits) behind_waits.push_back(launch.name);
  CHECK(behind_waits == std::vector<std::string>{"cutting rows", "sums 20"});
  for (const simulator::LaunchResult& launch : result.launches) CHECK(launch.cycles > 0);
}

}  // namespace
}  // namespace tessera
