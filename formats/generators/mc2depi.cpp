// mc2depi: the two-dimensional Markov model of an epidemic (SuiteSparse, group Williams; one of the
// matrices of S. Williams et al., "Optimization of sparse matrix-vector multiplication on emerging
// multicore platforms", SC 2007), rebuilt from its moves.
//
// States (x, y) with 0 <= x < 513, 0 <= y < 1025; from each the moves (1, 0), (0, -1) and (-1, 1)
// that stay inside, and the diagonal. States are numbered breadth-first from (0, 0), trying the
// moves in that order. Sizes and tile counts equal the original's; values are 1, not the original
// rates.

#include <array>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

constexpr std::int32_t kWidth = 513, kHeight = 1025, kStates = kWidth * kHeight;
constexpr std::array<std::array<std::int32_t, 2>, 3> kMoves{{{1, 0}, {0, -1}, {-1, 1}}};

/// Calls visit(target cell) for every move from `cell` = x + kWidth y that stays inside.
template <class Visit>
void for_each_move(std::int32_t cell, Visit visit) {
  for (const auto [dx, dy] : kMoves) {
    const std::int32_t x = cell % kWidth + dx, y = cell / kWidth + dy;
    if (x >= 0 && x < kWidth && y >= 0 && y < kHeight) visit(x + kWidth * y);
  }
}

CsrMatrix mc2depi() {
  std::vector<std::int32_t> cell_of_state{0};            // [kStates]
  std::vector<std::int32_t> state_of_cell(kStates, -1);  // [kStates]
  cell_of_state.reserve(kStates);
  state_of_cell[0] = 0;
  for (std::size_t state = 0; state < cell_of_state.size(); ++state) {
    for_each_move(cell_of_state[state], [&](std::int32_t target) {
      if (state_of_cell[target] >= 0) return;
      state_of_cell[target] = static_cast<std::int32_t>(cell_of_state.size());
      cell_of_state.push_back(target);
    });
  }
  return assemble_rows(kStates, kStates, [&](std::int64_t row, std::vector<Nonzero>& out) {
    out.push_back({static_cast<std::int32_t>(row), 1.0f});
    for_each_move(cell_of_state[row], [&](std::int32_t target) {
      out.push_back({state_of_cell[target], 1.0f});
    });
  });
}

const Register<Generator> entry{{
    .name = "mc2depi",
    .summary =
        "SuiteSparse mc2depi: 2D Markov epidemic model, four per row (pattern exact, values 1)",
    .params = {},
    .make = [](const Params&) { return make_generator(mc2depi); },
}};

}  // namespace
}  // namespace tessera
