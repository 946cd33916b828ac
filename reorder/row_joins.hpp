// Rows joined into chains, each with the row that is worth most to it: what `affinity_chains` and
// `lsh_chains` do with the partners that they found. Written once for a CPU and a GPU, of the kinds
// of steps of matched_steps.hpp.
//
// A chain is a sequence of rows, at first of one. In a round each end of a chain proposes to the
// best of its partners that is an end of another chain, and a proposal that is the best for both
// chains is accepted (as in a matching of matched_partners.hpp); so a chain takes part in one join
// at most, and no ring comes about. This is the greedy path cover of the graph of partners, its
// heaviest edges first, where proposals of equal worth are taken in a fixed random order.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/host_device.hpp"
#include "reorder/matched_partners.hpp"
#include "reorder/matched_steps.hpp"

namespace tessera::matched {

/// Where the rows of a chain go in the round at hand: place p to begin + step * p of another chain.
struct ChainMove {
  std::int32_t chain, begin, step;
};

struct Chains {
  std::int32_t* chain;     // [rows] of a row: the least of its rows
  std::int32_t* place;     // [rows] of a row in its chain
  std::int32_t* length;    // [rows] of a chain
  ChainMove* move;         // [rows] of a chain
  Key* best;               // [rows] the best proposal of a chain
  std::int32_t most_rows;  // of a chain

  TESSERA_HOST_DEVICE bool is_end(std::int32_t row) const {
    return place[row] == 0 || place[row] == length[chain[row]] - 1;
  }
  TESSERA_HOST_DEVICE void stay(std::int32_t own) const {
    move[own] = {own, 0, 1};
    best[own] = 0;
  }
};

struct StartChain {
  Chains chains;
  TESSERA_HOST_DEVICE void operator()(std::int64_t item) const {
    const auto row = static_cast<std::int32_t>(item);
    chains.chain[row] = row;
    chains.place[row] = 0;
    chains.length[row] = 1;
    chains.stay(row);
  }
};

/// Who looks for partners again: the ends of chains that can grow. For FindPartners, to which
/// others have a mate.
struct MarkEnd {
  Chains chains;
  std::int32_t* mates;
  TESSERA_HOST_DEVICE void operator()(std::int64_t item) const {
    const auto row = static_cast<std::int32_t>(item);
    const bool is_open = chains.is_end(row) && chains.length[chains.chain[row]] < chains.most_rows;
    mates[row] = is_open ? kNone : row;
  }
};

/// In even rounds ends propose; in odd ones the rows of joined chains move.
struct ProposeJoinOrMove {
  Chains chains;
  const Key* partners;  // [rows * kPartners]
  Key* proposals;       // [rows] 0: none
  std::int32_t* to;     // [rows]

  /// Returns whether there is a proposal, or rows may have moved.
  template <class Threads>
  TESSERA_HOST_DEVICE bool operator()(const Threads& threads, int round, std::int64_t item) const {
    const auto row = static_cast<std::int32_t>(item);
    if (round % 2 == 0) return propose(threads, row);
    const ChainMove move = chains.move[chains.chain[row]];
    chains.chain[row] = move.chain;
    chains.place[row] = move.begin + move.step * chains.place[row];
    return row == 0;
  }

 private:
  template <class Threads>
  TESSERA_HOST_DEVICE bool propose(const Threads& threads, std::int32_t row) const {
    proposals[row] = 0;
    const std::int32_t own = chains.chain[row], rows = chains.length[own];
    if (!chains.is_end(row) || rows >= chains.most_rows) return false;
    std::int32_t other = kNone;
    std::uint32_t worth = 0, tie = 0;
    for (int i = 0; i < kPartners; ++i) {
      const Key key = partners[std::int64_t{row} * kPartners + i];
      if (key == 0) break;
      if (other != kNone && worth_of(key) < worth) break;
      const std::int32_t candidate = partner_of(key, row);
      const std::int32_t theirs = chains.chain[candidate];
      if (theirs == own || !chains.is_end(candidate) ||
          chains.length[theirs] > chains.most_rows - rows)
        continue;
      const std::uint32_t pair_tie = tie_of(row, candidate);
      if (other != kNone && pair_tie <= tie) continue;
      other = candidate;
      worth = worth_of(key);
      tie = pair_tie;
    }
    if (other == kNone) return false;
    const Key proposal = Key{worth} << 32 | mixed(static_cast<std::uint32_t>(row));
    proposals[row] = proposal;
    to[row] = other;
    threads.raise(&chains.best[own], proposal);
    threads.raise(&chains.best[chains.chain[other]], proposal);
    return true;
  }
};

/// In even rounds a proposal that is the best of both chains is accepted, and the chain of the
/// greater row follows the other one; in odd rounds chains forget their moves and proposals.
struct AcceptJoinOrForget {
  Chains chains;
  const Key* proposals;
  const std::int32_t* to;

  TESSERA_HOST_DEVICE void operator()(int round, std::int64_t item) const {
    const auto row = static_cast<std::int32_t>(item);
    if (round % 2 == 1) return chains.stay(row);
    const Key proposal = proposals[row];
    if (proposal == 0) return;
    const std::int32_t own = chains.chain[row], theirs = chains.chain[to[row]];
    if (chains.best[own] != proposal || chains.best[theirs] != proposal) return;
    const bool leads = own < theirs;
    const std::int32_t leader = leads ? own : theirs, follower = leads ? theirs : own;
    const std::int32_t last = leads ? row : to[row], next = leads ? to[row] : row;
    const std::int32_t before = chains.length[leader], after = chains.length[follower];
    // The two rows meet: the leader's is to be its last one, the follower's its first one.
    if (chains.place[last] != before - 1) chains.move[leader] = {leader, before - 1, -1};
    chains.move[follower] = chains.place[next] == 0 ? ChainMove{leader, before, 1}
                                                    : ChainMove{leader, before + after - 1, -1};
    chains.length[leader] = before + after;
    chains.length[follower] = 0;
  }
};

/// Summands of the places where chains begin, in the order of their least rows.
struct LengthOfChain {
  const std::int32_t* length;
  TESSERA_HOST_DEVICE std::uint32_t operator()(std::int64_t chain) const {
    return static_cast<std::uint32_t>(length[chain]);
  }
};

struct PutRow {
  Chains chains;
  const std::uint32_t* begins;
  std::int32_t* order;
  TESSERA_HOST_DEVICE void operator()(std::int64_t row) const {
    order[begins[chains.chain[row]] + static_cast<std::uint32_t>(chains.place[row])] =
        static_cast<std::int32_t>(row);
  }
};

/// Joins rows by their partners, in as many calls as there are searches for partners.
template <class Exec>
class RowJoins {
 public:
  template <class T>
  using Array = typename Exec::template Array<T>;

  RowJoins(Exec& exec, std::int32_t rows, std::int32_t most_rows)
      : exec_(exec),
        rows_(rows),
        chain_(exec.template array<std::int32_t>(rows)),
        place_(exec.template array<std::int32_t>(rows)),
        length_(exec.template array<std::int32_t>(rows)),
        to_(exec.template array<std::int32_t>(rows)),
        move_(exec.template array<ChainMove>(rows)),
        best_(exec.template array<Key>(rows)),
        proposals_(exec.template array<Key>(rows)),
        begins_(exec.template array<std::uint32_t>(rows)),
        order_(exec.template array<std::int32_t>(rows)),
        chains_{chain_.data(), place_.data(), length_.data(),
                move_.data(),  best_.data(),  most_rows} {
    exec_.for_each(rows_, StartChain{chains_});
  }

  static std::int64_t bytes(std::int64_t rows) { return 52 * rows; }

  /// partners [rows * kPartners], best first; 0: none.
  void join(const Key* partners) {
    exec_.phase("join rows");
    constexpr int kRounds = 256;  // half of them join
    exec_.for_rounds(rows_, kRounds, NoStep{},
                     ProposeJoinOrMove{chains_, partners, proposals_.data(), to_.data()},
                     AcceptJoinOrForget{chains_, proposals_.data(), to_.data()});
  }

  /// Gives all rows a mate but the ends of chains that can grow.
  void mark_ends(std::int32_t* mates) { exec_.for_each(rows_, MarkEnd{chains_, mates}); }

  /// Chain after chain, [rows].
  Array<std::int32_t>& order() {
    exec_.phase("place chains");
    exec_.running_sum(LengthOfChain{length_.data()}, begins_.data(), rows_);
    exec_.for_each(rows_, PutRow{chains_, begins_.data(), order_.data()});
    exec_.phase("end");
    return order_;
  }

 private:
  Exec& exec_;
  const std::int32_t rows_;
  Array<std::int32_t> chain_, place_, length_, to_;  // [rows]
  Array<ChainMove> move_;                            // [rows]
  Array<Key> best_, proposals_;                      // [rows]
  Array<std::uint32_t> begins_;                      // [rows]
  Array<std::int32_t> order_;                        // [rows]
  const Chains chains_;
};

}  // namespace tessera::matched
