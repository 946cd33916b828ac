// cage<n>: DNA electrophoresis in the cage model, n monomers (SuiteSparse group vanHeukelum; A. van
// Heukelum, G. Barkema and R. Bisseling, "DNA electrophoresis studied with the cage model", Journal
// of Computational Physics 180, 2002).
//
// The polymer is a walk of n - 1 links on the cubic lattice, the field along its body diagonal: a
// link goes up in one of three directions (0, 1, 2) or down (3, 4, 5; d + 3 undoes d). A monomer is
// free when it is an end, or when its two links undo each other; one of the n monomers is chosen at
// random and, if free, moved to one of six places, an upper one e^0.2 times as likely as a lower
// one. Only whether links undo each other matters, so the walk may as well be one on the tree in
// which every vertex has three neighbours above and three below, and walks that a symmetry of that
// tree or a reversal of the polymer carries into each other are one state. A(i, j) is the
// probability of j -> i: columns sum to one.
//
// Rows and nonzeros equal the published ones, values those of cage3 and cage4; the published
// numbering of the states is not known, so tile counts differ. Here states are in the order of
// their codes.

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

constexpr int kMaxLinks = 14;
constexpr int kDirections = 6;

using Code = std::uint64_t;  // directions, three bits each, the first link highest
using Walk = std::array<std::uint8_t, kMaxLinks>;

constexpr int opposite(int direction) { return (direction + 3) % kDirections; }

/// The code of the representative of the walk's symmetry class: at every vertex of the tree an edge
/// is renamed to the lowest direction of its sense that no earlier edge there has. The result is a
/// walk, and the same one for all walks of the class.
Code renamed(std::span<const std::uint8_t> walk) {
  struct Vertex {
    std::array<std::int8_t, kDirections> to{-1, -1, -1, -1, -1, -1};
    std::array<std::int8_t, kDirections> name{};
    unsigned used = 0;  // names, as bits
  };
  std::array<Vertex, kMaxLinks + 1> vertices;
  int vertex = 0, known = 1;
  Code code = 0;
  for (const int direction : walk) {
    Vertex& here = vertices[vertex];
    if (here.to[direction] < 0) {
      int name = direction / 3 * 3;
      while ((here.used >> name & 1) != 0) ++name;
      here.name[direction] = static_cast<std::int8_t>(name);
      here.to[direction] = static_cast<std::int8_t>(known);
      here.used |= 1u << name;
      Vertex& there = vertices[known++];
      there.name[opposite(direction)] = static_cast<std::int8_t>(opposite(name));
      there.to[opposite(direction)] = static_cast<std::int8_t>(vertex);
      there.used = 1u << opposite(name);
    }
    code = code << 3 | static_cast<Code>(here.name[direction]);
    vertex = here.to[direction];
  }
  return code;
}

/// The code of a walk's state: the smaller one of the walk and its reversal.
Code state_of(std::span<const std::uint8_t> walk) {
  Walk reversed{};
  for (std::size_t i = 0; i < walk.size(); ++i)
    reversed[walk.size() - 1 - i] = static_cast<std::uint8_t>(opposite(walk[i]));
  return std::min(renamed(walk), renamed({reversed.data(), walk.size()}));
}

Walk walk_of(Code code, int links) {
  Walk walk{};
  for (int i = 0; i < links; ++i)
    walk[i] = static_cast<std::uint8_t>(code >> 3 * (links - 1 - i) & 7);
  return walk;
}

/// Appends every state, ascending. `walk` holds `length` links that are renamed already.
void collect_states(Walk& walk, int length, int links, std::vector<Code>& states) {
  if (length == links) {
    Code code = 0;
    for (int i = 0; i < links; ++i) code = code << 3 | walk[i];
    if (state_of({walk.data(), static_cast<std::size_t>(links)}) == code) states.push_back(code);
    return;
  }
  for (int direction = 0; direction < kDirections; ++direction) {
    walk[length] = static_cast<std::uint8_t>(direction);
    if ((renamed({walk.data(), static_cast<std::size_t>(length) + 1}) & 7) ==
        static_cast<Code>(direction))
      collect_states(walk, length + 1, links, states);
  }
}

/// Calls visit(state, probability) for every move of a free monomer of `walk`.
template <class Visit>
void for_each_move(const Walk& walk, int links, Visit visit) {
  constexpr double kUp = 1.1051709180756477, kDown = 1 / kUp;  // e^0.1 and e^-0.1
  const double each = 1 / (3 * (kUp + kDown) * (links + 1));
  const std::span<const std::uint8_t> all(walk.data(), links);
  for (int monomer = 0; monomer <= links; ++monomer) {
    const bool has_left = monomer > 0, has_right = monomer < links;
    if (has_left && has_right && walk[monomer] != opposite(walk[monomer - 1])) continue;
    for (int to = 0; to < kDirections; ++to) {  // seen from the neighbours
      Walk moved = walk;
      if (has_left) moved[monomer - 1] = static_cast<std::uint8_t>(to);
      if (has_right) moved[monomer] = static_cast<std::uint8_t>(opposite(to));
      visit(state_of({moved.data(), all.size()}), each * (to < 3 ? kUp : kDown));
    }
  }
}

CsrMatrix cage(int monomers) {
  const int links = monomers - 1;
  Walk walk{};
  std::vector<Code> states;
  collect_states(walk, 0, links, states);
  const std::int32_t n = matrix_extent({static_cast<std::int64_t>(states.size())});
  const CsrMatrix by_origin = assemble_rows(n, n, [&](std::int64_t row, std::vector<Nonzero>& out) {
    std::map<Code, double> targets{{states[row], 1.0}};
    for_each_move(walk_of(states[row], links), links, [&](Code target, double probability) {
      targets[target] += probability;
      targets[states[row]] -= probability;
    });
    for (const auto& [target, probability] : targets) {
      const auto place = std::ranges::lower_bound(states, target) - states.begin();
      out.push_back({static_cast<std::int32_t>(place), static_cast<float>(probability)});
    }
  });
  return transpose(by_origin);
}

const Register<Generator> entry{{
    .name = "cage",
    .summary = "SuiteSparse cage<n>: DNA electrophoresis, n monomers (exact but for the numbering)",
    .params = {{"n", std::int64_t{9}, "monomers of the polymer", {}, 3, kMaxLinks + 1}},
    .make =
        [](const Params& p) {
          return make_generator([n = static_cast<int>(p.integer("n"))] { return cage(n); });
        },
}};

}  // namespace
}  // namespace tessera
