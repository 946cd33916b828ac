// Which points of a run go to which lane: one matrix after the other, those that cost most first,
// and at the end a part of another lane's points where that ends the run earlier.
#pragma once

#include <compare>
#include <cstddef>
#include <deque>
#include <map>
#include <vector>

#include "experiments/config/plan.hpp"
#include "experiments/run/portion.hpp"

namespace tessera {

/// A lane of the worker at a place (gpu_pipeline.hpp).
struct LaneName {
  std::size_t place = 0;  // of the worker; one place is one device
  std::size_t lane = 0;

  auto operator<=>(const LaneName&) const = default;
};

class Handout {
 public:
  using Entries = std::deque<const PlanEntry*>;

  /// The points of one matrix, behind those that wait.
  void add(Entries entries) { waiting_.push_back(std::move(entries)); }
  /// Lets the matrices that cost most be the first, and the points of each that cost most: the last
  /// ones to end are short, and another device that takes some of them is soon ready for them.
  void sort_by_cost();
  /// Deals the matrices that wait to lanes, one to the first lane of every place, then one to the
  /// second of every place, and so on: the devices begin with about the same work.
  void deal(const std::vector<std::size_t>& lanes_of_place);

  /// True where a worker at that place has something to do: points that were dealt to it, a matrix
  /// that waits, a suspect.
  bool has_for(std::size_t place) const;
  /// True where a worker at any place has.
  bool has_any() const;

  /// All points of the next matrix; there is one.
  Entries take_matrix();

  /// The next point of a lane: of its matrix, of one that waits, or of one that another lane would
  /// end later alone. Null where there is none of them. The lane will know the point by the number
  /// `number`.
  const PlanEntry* next(const LaneName& lane, std::size_t number);
  /// True where a lane for which there is nothing should wait: some of another one's points may be
  /// for it later.
  bool may_have_later(const LaneName& lane) const;
  /// A lane has done the point of that number (Portion::done).
  void done(const LaneName& lane, std::size_t number, Portion::Clock::time_point now,
            double attempt_s);

  /// The worker at that place has ended. Its lanes' points wait again, behind those of `unfinished`
  /// that the lane was given and that are not done; they are the first.
  void take_back(std::size_t place, std::map<std::size_t, Entries> unfinished);

  /// A point that was worked on when a process died, beside others: which of them was to blame is
  /// not known.
  void suspect(const PlanEntry* entry) { suspects_.push_back(entry); }
  /// Suspects are run one at a time, by a worker of one lane: when it dies, its point is to blame.
  bool has_suspects() const { return !suspects_.empty(); }
  /// Null where there is none.
  const PlanEntry* next_suspect();

 private:
  std::deque<Entries> waiting_;  // by matrix
  Entries suspects_;
  std::map<LaneName, Portion> portions_;
};

}  // namespace tessera
