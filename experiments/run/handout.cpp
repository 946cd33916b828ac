#include "experiments/run/handout.hpp"

#include <algorithm>
#include <functional>

namespace tessera {

void Handout::sort_by_cost() {
  for (Entries& entries : waiting_)
    std::ranges::stable_sort(entries, std::greater(), &PlanEntry::cost);
  std::ranges::stable_sort(waiting_, std::greater(), [](const Entries& entries) {
    double cost = 0;
    for (const PlanEntry* entry : entries) cost += entry->cost;
    return cost;
  });
}

void Handout::deal(const std::vector<std::size_t>& lanes_of_place) {
  const std::size_t most = std::ranges::max(lanes_of_place);
  for (std::size_t lane = 0; lane < most; ++lane)
    for (std::size_t place = 0; place < lanes_of_place.size(); ++place)
      if (lane < lanes_of_place[place] && !waiting_.empty())
        portions_[{place, lane}] = Portion(take_matrix());
}

bool Handout::has_for(std::size_t place) const {
  return !waiting_.empty() || !suspects_.empty() ||
         std::ranges::any_of(portions_, [&](const auto& one) {
           return one.first.place == place && !one.second.empty();
         });
}

bool Handout::has_any() const {
  return !waiting_.empty() || !suspects_.empty() ||
         std::ranges::any_of(portions_, [](const auto& one) { return !one.second.empty(); });
}

Handout::Entries Handout::take_matrix() {
  Entries entries = std::move(waiting_.front());
  waiting_.pop_front();
  return entries;
}

const PlanEntry* Handout::next(const LaneName& lane, std::size_t number) {
  Portion& own = portions_[lane];
  if (own.empty() && !waiting_.empty()) own = Portion(take_matrix(), number);
  if (own.empty()) {
    const auto saved_s = [&](const auto& one) {
      return one.second.saved_by_split_s(one.first.place == lane.place);
    };
    const auto most = std::ranges::max_element(portions_, {}, saved_s);
    if (saved_s(*most) > 0) own = Portion(most->second.split(), number);
  }
  return own.empty() ? nullptr : own.take();
}

bool Handout::may_have_later(const LaneName& lane) const {
  return std::ranges::any_of(portions_, [&](const auto& one) {
    return one.second.may_be_split(one.first.place == lane.place);
  });
}

void Handout::done(const LaneName& lane, std::size_t number, Portion::Clock::time_point now,
                   double attempt_s) {
  portions_[lane].done(number, now, attempt_s);
}

void Handout::take_back(std::size_t place, std::map<std::size_t, Entries> unfinished) {
  for (const auto& [name, portion] : portions_) {
    if (name.place != place) continue;
    Entries& entries = unfinished[name.lane];
    entries.insert(entries.end(), portion.left().begin(), portion.left().end());
  }
  std::erase_if(portions_, [&](const auto& one) { return one.first.place == place; });
  for (auto& [lane, entries] : unfinished)
    if (!entries.empty()) waiting_.push_front(std::move(entries));
}

const PlanEntry* Handout::next_suspect() {
  if (suspects_.empty()) return nullptr;
  const PlanEntry* entry = suspects_.front();
  suspects_.pop_front();
  return entry;
}

}  // namespace tessera
