#include "experiments/tables/comparison.hpp"

#include <algorithm>
#include <set>

#include "experiments/tables/compared_points.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

bool is_failure(const Row& row) {
  return row.at("status") != "ok" && row.at("status") != "skipped";
}

std::optional<double> number(const Row& row, const char* column) {
  const auto found = row.find(column);
  if (found == row.end() || !found->second.is_number()) return std::nullopt;
  return found->second.get<double>();
}

std::optional<TimeEstimate> time_of(const Row& row) {
  const auto us = number(row, "time_us");
  if (!us || *us <= 0) return std::nullopt;
  if (cell_text(row, "origin") != "measured")
    return predicted_time(*us, number(row, "time_error_pct").value_or(0) / 100);
  const auto p5 = number(row, "p5_us"), p95 = number(row, "p95_us"), n = number(row, "samples");
  const bool known = p5 && p95 && n;
  return known ? measured_time(*us, *p5, *p95, static_cast<std::int64_t>(*n))
               : measured_time(*us, *us, *us, 1);
}

std::string origin_of(const Row& a, const Row& b) {
  const std::string of_a = cell_text(a, "origin"), of_b = cell_text(b, "origin");
  if (of_a.empty() || of_b.empty() || of_a == of_b) return of_a.empty() ? of_b : of_a;
  return of_a + "/" + of_b;
}

Change change_of(TimeVerdict verdict) {
  switch (verdict) {
    case TimeVerdict::kFaster:
      return Change::kFaster;
    case TimeVerdict::kSlower:
      return Change::kSlower;
    case TimeVerdict::kSame:
      return Change::kSame;
    case TimeVerdict::kAmbiguous:
      break;
  }
  return Change::kAmbiguous;
}

/// Joins A with the points of one label of B.
class Pairing {
 public:
  Pairing(const std::vector<ComparedPoint>& a, SetComparison& found) : found_(found) {
    for (const ComparedPoint& point : a) a_.emplace(point.key, &point);
    for (const ComparedPoint& point : a) order_.push_back(&point);
  }

  void add(const std::string& label, const std::vector<const ComparedPoint*>& b) {
    std::map<std::string, const ComparedPoint*> b_by_key;
    for (const ComparedPoint* point : b) b_by_key.emplace(point->key, point);
    for (const ComparedPoint* point : order_) {
      const auto partner = b_by_key.find(point->key);
      if (partner == b_by_key.end())
        found_.only_a.push_back({point->row, label, ""});
      else
        join(label, *point, *partner->second);
    }
    for (const ComparedPoint* point : b)
      if (!a_.contains(point->key)) found_.only_b.push_back({point->row, label, ""});
  }

 private:
  void join(const std::string& label, const ComparedPoint& a, const ComparedPoint& b) {
    const bool other_content =
        !a.matrix_hash.empty() && !b.matrix_hash.empty() && a.matrix_hash != b.matrix_hash;
    const bool a_skipped = a.row.at("status") == "skipped";
    const bool b_skipped = b.row.at("status") == "skipped";
    if (a_skipped && b_skipped) return;
    if (other_content || b_skipped)
      found_.only_a.push_back({a.row, label,
                               other_content ? "the matrix has another content in B"
                                             : "skipped in B: " + cell_text(b.row, "reason")});
    if (other_content || a_skipped)
      found_.only_b.push_back({b.row, label,
                               other_content ? "the matrix has another content in A"
                                             : "skipped in A: " + cell_text(a.row, "reason")});
    if (other_content || a_skipped || b_skipped) return;
    ComparedPair pair{a.row, b.row, label, origin_of(a.row, b.row)};
    if (is_failure(a.row) || is_failure(b.row))
      pair.change = !is_failure(b.row)  ? Change::kMended
                    : is_failure(a.row) ? Change::kFailing
                                        : Change::kBroken;
    found_.pairs.push_back(std::move(pair));
  }

  SetComparison& found_;
  std::map<std::string, const ComparedPoint*> a_;
  std::vector<const ComparedPoint*> order_;
};

/// Compares the times of all pairs that are ok, as one family.
void judge_times(const CompareRule& rule, std::vector<ComparedPair>& pairs) {
  std::vector<TimePair> times;
  std::vector<ComparedPair*> timed;
  for (ComparedPair& pair : pairs) {
    const auto a = time_of(pair.a), b = time_of(pair.b);
    if (pair.change != Change::kUntimed || !a || !b) continue;
    const bool measured = pair.origin.find("measured") != std::string::npos;
    times.push_back({*a, *b, measured ? rule.threshold : rule.predicted_threshold});
    timed.push_back(&pair);
  }
  const std::vector<TimeComparison> results = compare_times(times, rule.alpha);
  for (std::size_t i = 0; i < results.size(); ++i) {
    timed[i]->time = results[i];
    timed[i]->change = change_of(results[i].verdict);
  }
}

void summarise(const CompareRule& rule, SetComparison& found) {
  for (const ComparedPair& pair : found.pairs) {
    auto group = std::ranges::find_if(found.groups, [&](const ComparedGroup& known) {
      return known.label == pair.label && known.origin == pair.origin;
    });
    if (group == found.groups.end()) {
      found.groups.push_back({pair.label, pair.origin});
      group = found.groups.end() - 1;
    }
    ++group->pairs;
    ++group->counts[pair.change];
  }
  for (ComparedGroup& group : found.groups) {
    std::vector<double> speeds;
    std::vector<std::string> matrices;
    for (const ComparedPair& pair : found.pairs) {
      if (pair.label != group.label || pair.origin != group.origin || !pair.time) continue;
      speeds.push_back(pair.time->speed);
      matrices.push_back(cell_text(pair.a, "matrix"));
    }
    if (!speeds.empty()) group.speed = mean_speed(speeds, matrices, rule.seed);
  }
}

/// Compares B, taken apart by its labels, with A.
SetComparison compare_points(std::vector<ComparedPoint> a, std::vector<ComparedPoint> b,
                             const std::vector<std::string>& by, const CompareRule& rule) {
  SetComparison found{.by = by};
  set_keys(by, a);
  set_keys(by, b);
  refuse_doubles("A", a);
  std::vector<std::string> labels;
  for (const ComparedPoint& point : b)
    if (std::ranges::find(labels, point.label) == labels.end()) labels.push_back(point.label);
  if (!a.empty()) found.a_label = a.front().label;
  Pairing pairing(a, found);
  for (const std::string& label : labels) {
    std::vector<const ComparedPoint*> points;
    for (const ComparedPoint& point : b)
      if (point.label == label) points.push_back(&point);
    refuse_doubles("B", points);
    pairing.add(label, points);
  }
  require(!found.pairs.empty(), "{}", no_pairs_message(a, b, by));
  judge_times(rule, found.pairs);
  summarise(rule, found);
  return found;
}

}  // namespace

const char* to_text(Change change) {
  static constexpr const char* kNames[kChanges] = {"faster",  "slower", "same",   "ambiguous",
                                                   "untimed", "broken", "mended", "failing"};
  return kNames[static_cast<int>(change)];
}

SetComparison compare_sets(const RecordSet& a, const RecordSet& b, const Settings& where_a,
                           const Settings& where_b, const CompareRule& rule) {
  std::vector<ComparedPoint> of_a = compared_points(a, where_a, rule.by);
  std::vector<ComparedPoint> of_b = compared_points(b, where_b, rule.by);
  require(!of_a.empty() && !of_b.empty(), "there is nothing to compare: {} has no record{}",
          of_a.empty() ? "A" : "B",
          (of_a.empty() ? where_a : where_b).empty() ? "" : " that matches the selection");
  const std::vector<std::string> by = rule.by.empty() ? differing_columns(of_a, of_b) : rule.by;
  set_labels(by, {&of_a, &of_b});
  for (const ComparedPoint& point : of_a)
    require(point.label == of_a.front().label,
            "A has both '{}' and '{}' of {}: choose one with --where-a", of_a.front().label,
            point.label, fmt::join(by, ", "));
  return compare_points(std::move(of_a), std::move(of_b), by, rule);
}

SetComparison compare_within(const RecordSet& set, const Settings& where,
                             const std::string& baseline, const CompareRule& rule) {
  std::vector<ComparedPoint> points = compared_points(set, where, rule.by);
  require(!points.empty(), "there is nothing to compare: no record{}",
          where.empty() ? "" : " matches the selection");
  set_labels(rule.by, {&points});
  const std::string chosen = find_label(points, baseline, rule.by);
  std::vector<ComparedPoint> a, b;
  for (ComparedPoint& point : points) (point.label == chosen ? a : b).push_back(std::move(point));
  require(!b.empty(), "all records have {} = {}: there is nothing to compare it with",
          fmt::join(rule.by, ", "), chosen);
  return compare_points(std::move(a), std::move(b), rule.by, rule);
}

std::vector<std::string> varying_columns(const std::vector<ComparedPair>& pairs,
                                         const std::vector<std::string>& by) {
  std::vector<std::string> candidates;
  for (const ComparedPair& pair : pairs)
    for (const std::string& column : identity_columns(pair.a))
      if (std::ranges::find(candidates, column) == candidates.end()) candidates.push_back(column);
  std::vector<std::string> columns{"matrix"};
  const auto count_distinct = [&] {
    std::set<std::string> distinct;
    for (const ComparedPair& pair : pairs) {
      std::string key;
      for (const std::string& column : columns) key += cell_text(pair.a, column) + "\n";
      distinct.insert(key);
    }
    return distinct.size();
  };
  std::size_t told_apart = count_distinct();
  for (const std::string& column : candidates) {
    if (column == "matrix" || is_compared(column, by)) continue;
    columns.push_back(column);
    const std::size_t now = count_distinct();
    if (now == told_apart) columns.pop_back();
    told_apart = now;
  }
  return columns;
}

}  // namespace tessera
