// tessera compare: two sets of records, or parts of one, point by point.

#include <algorithm>
#include <cmath>

#include "experiments/tables/compared_points.hpp"
#include "experiments/tables/comparison.hpp"
#include "experiments/tables/figure_data.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/value_lists.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr const char* kMethod =
    "Method: a record keeps the median, p5 and p95 of its samples. The standard error of a median "
    "is taken as max(p95 - median, median - p5) / (0.9 sqrt(samples)), an upper bound for samples "
    "with one peak (1.46 times too large for normal ones). Student's t compares the logarithms of "
    "two medians. faster, slower: the difference exceeds the threshold; corrected for the number "
    "of pairs (Holm), so that with probability 95 % none of these verdicts is wrong. same: a "
    "difference beyond the threshold is rejected, with 5 % error for each pair. ambiguous: "
    "neither. Samples are of one process: the threshold has to cover what changes from one "
    "process to the next (on one H200, three runs of 144 products: at most 3.5 % for 95 % of the "
    "432 pairs; with the default no verdict was wrong, with 2 % two were).\n\n"
    "Predicted times have no noise: any difference counts (--predicted-threshold). Measured times "
    "are compared with predicted ones only by --by backend. The interval of a mean speed is a "
    "bootstrap over matrices.\n\n"
    "Exit code 9: a point is slower (--fail-on), or is right in A and not in B.";

/// "5%", "5 %" or "0.05".
double share_of(const std::string& option, std::string text) {
  const bool percent = text.ends_with('%');
  if (percent) text.pop_back();
  text.erase(text.find_last_not_of(' ') + 1);
  const Json value = plain_value(text);
  require(value.is_number() && value.get<double>() >= 0 && std::isfinite(value.get<double>()),
          "{} {}: a share was expected, as in 5% or 0.05", option, text);
  return value.get<double>() / (percent ? 100 : 1);
}

class CompareVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option(
           "RECORDS", sources_,
           "A and B, or one set whose parts --by compares: record files, or folders of them")
        ->required();
    app.add_option("--where", where_,
                   "COLUMN=VALUE[,VALUE...]: only these points (`tessera list columns`)")
        ->allow_extra_args(false);
    app.add_option("--where-a", where_a_, "likewise of A")->allow_extra_args(false);
    app.add_option("--where-b", where_b_, "likewise of B")->allow_extra_args(false);
    app.add_option("--by", by_,
                   "columns compared, in which partners differ: kernel, device, reorder, commit, "
                   "host, ... (default: those in which all of A differs from all of B)")
        ->delimiter(',');
    app.add_option("--baseline", baseline_,
                   "with one set: the value of --by that the others are compared with (default: "
                   "that of the first record)");
    app.add_option("--threshold", threshold_,
                   "smallest relative difference of measured times that counts (default 5%)");
    app.add_option("--predicted-threshold", predicted_threshold_,
                   "likewise of predicted times (default 0)");
    app.add_option("--fail-on", fail_on_,
                   "what exits with 9: slower (default), ambiguous (or slower), different (faster, "
                   "slower or ambiguous), missing (a point of A that B has not)")
        ->delimiter(',')
        ->check(CLI::IsMember({"slower", "ambiguous", "different", "missing"}));
    app.add_option("--top", top_, "pairs shown of each kind (default 10)")
        ->check(CLI::Range(0, 1000000));
    app.add_flag("--all", all_, "show every pair");
    app.add_option("--csv", csv_, "write every pair to this file");
    app.add_flag("--json", json_, "print JSON with every pair");
    app.example("tessera compare out/before out/after", "what became faster or slower");
    app.footer(kMethod);
  }

  int run() override {
    require(sources_.size() <= 2, "compare takes one or two sets of records, not {}",
            sources_.size());
    require(sources_.size() == 2 || !where_b_.empty() || !by_.empty(),
            "one set of records is compared with itself by a column (--by kernel) or by two "
            "selections (--where-a, --where-b)");
    const CompareRule rule{
        .by = by_,
        .threshold = share_of("--threshold", threshold_),
        .predicted_threshold = share_of("--predicted-threshold", predicted_threshold_)};
    const SetComparison found = compare(rule);
    if (!csv_.empty()) write_file(csv_, csv_table(pair_rows(found), csv_columns(found)));
    if (json_)
      print_json(to_json(found, rule));
    else
      tell(found, rule);
    return fails(found) ? kRegression : kOk;
  }

 private:
  SetComparison compare(const CompareRule& rule) {
    const Settings both = where_values("--where", where_);
    const auto joined = [&](Settings own) {
      own.insert(both.begin(), both.end());
      return own;
    };
    const Settings of_a = joined(where_values("--where-a", where_a_));
    const Settings of_b = joined(where_values("--where-b", where_b_));
    // The machines of a set are told apart: --by may compare them.
    const RecordSet a = read_records(sources_.front(), true);
    provenance_a_ = provenance_text(a);
    if (sources_.size() == 1 && where_a_.empty() && where_b_.empty())
      return compare_within(a, both, baseline_, rule);
    require(baseline_.empty(), "--baseline is of one set of records; A is the baseline of two");
    const RecordSet b = sources_.size() == 2 ? read_records(sources_.back(), true) : a;
    provenance_b_ = provenance_text(b);
    return compare_sets(a, b, of_a, of_b, rule);
  }

  bool fails(const SetComparison& found) const {
    const auto any = [&](std::initializer_list<Change> changes) {
      return std::ranges::any_of(found.pairs, [&](const ComparedPair& pair) {
        return std::ranges::find(changes, pair.change) != changes.end();
      });
    };
    if (any({Change::kBroken})) return true;
    for (const std::string& kind : fail_on_) {
      if (kind == "missing" && !found.only_a.empty()) return true;
      if (kind == "slower" && any({Change::kSlower})) return true;
      if (kind == "ambiguous" && any({Change::kSlower, Change::kAmbiguous})) return true;
      if (kind == "different" &&
          any({Change::kSlower, Change::kAmbiguous, Change::kFaster, Change::kMended}))
        return true;
    }
    return false;
  }

  // Tables

  static bool has_labels(const SetComparison& found) {
    return std::ranges::any_of(found.groups,
                               [](const ComparedGroup& group) { return !group.label.empty(); });
  }

  static std::vector<Row> pair_rows(const SetComparison& found) {
    const std::vector<std::string> columns = varying_columns(found.pairs, found.by);
    std::vector<Row> rows;
    for (const ComparedPair& pair : found.pairs) {
      Row& row = rows.emplace_back();
      for (const std::string& column : columns)
        if (pair.a.contains(column)) row[column] = pair.a.at(column);
      row["A"] = found.a_label;
      row["B"] = pair.label;
      row["origin"] = pair.origin;
      row["verdict"] = to_text(pair.change);
      for (const auto& [name, side] : {std::pair("A us", &pair.a), {"B us", &pair.b}})
        if (side->contains("time_us")) row[name] = side->at("time_us");
      if (pair.a.at("status") != "ok" || pair.b.at("status") != "ok")
        for (const auto& [name, side] : {std::pair("A status", &pair.a), {"B status", &pair.b}})
          row[name] = status_text(*side);
      if (!pair.time) continue;
      row["speed"] = pair.time->speed;
      // An unknown error leaves no limits, and an exact time needs none.
      const Interval& interval = pair.time->interval;
      if (std::isfinite(interval.high) && interval.low < interval.high) {
        row["low"] = interval.low;
        row["high"] = interval.high;
      }
    }
    return rows;
  }

  static std::string status_text(const Row& row) {
    const std::string reason = cell_text(row, "reason");
    return cell_text(row, "status") + (reason.empty() ? "" : ": " + reason);
  }

  static std::vector<std::string> pair_columns(const SetComparison& found) {
    std::vector<std::string> columns = varying_columns(found.pairs, found.by);
    if (has_labels(found)) columns.emplace_back("B");
    for (const char* column : {"A us", "B us", "speed", "low", "high", "verdict"})
      columns.emplace_back(column);
    return columns;
  }

  static std::vector<std::string> csv_columns(const SetComparison& found) {
    std::vector<std::string> columns = varying_columns(found.pairs, found.by);
    for (const char* column : {"A", "B", "origin", "verdict", "A us", "B us", "speed", "low",
                               "high", "A status", "B status"})
      columns.emplace_back(column);
    return columns;
  }

  static std::vector<Row> group_rows(const SetComparison& found) {
    std::vector<Row> rows;
    for (const ComparedGroup& group : found.groups) {
      Row& row = rows.emplace_back();
      row["B"] = group.label;
      row["origin"] = group.origin;
      row["pairs"] = group.pairs;
      for (const auto& [change, count] : group.counts) row[to_text(change)] = count;
      if (!group.speed) continue;
      row["mean speed"] = group.speed->speed;
      if (!group.speed->interval) continue;
      row["low"] = group.speed->interval->low;
      row["high"] = group.speed->interval->high;
    }
    return rows;
  }

  static std::vector<std::string> group_columns(const SetComparison& found) {
    std::vector<std::string> columns;
    if (has_labels(found)) columns.emplace_back("B");
    columns.insert(columns.end(), {"origin", "pairs"});
    for (int i = 0; i < kChanges; ++i) {
      const auto change = static_cast<Change>(i);
      if (std::ranges::any_of(found.groups, [&](const ComparedGroup& group) {
            return group.counts.contains(change);
          }))
        columns.emplace_back(to_text(change));
    }
    columns.insert(columns.end(), {"mean speed", "low", "high"});
    return columns;
  }

  // Text

  void tell(const SetComparison& found, const CompareRule& rule) const {
    tell_sets(found);
    fmt::print("\n{}", text_table(group_rows(found), group_columns(found)));
    fmt::print(
        "speed: time of A / time of B, above 1 where B is faster; mean: geometric, over all pairs; "
        "low, high: 95 %\nmeasured times differ from {:.3g} % on, predicted ones from {:.3g} %\n",
        100 * rule.threshold, 100 * rule.predicted_threshold);
    const std::vector<Row> rows = pair_rows(found);
    if (all_) {
      fmt::print("\n{}", text_table(rows, pair_columns(found)));
    } else {
      for (const Change change : {Change::kBroken, Change::kFailing, Change::kSlower,
                                  Change::kAmbiguous, Change::kFaster, Change::kMended})
        tell_kind(found, rows, change);
    }
    tell_unpaired("A", found.only_a);
    tell_unpaired("B", found.only_b);
  }

  void tell_sets(const SetComparison& found) const {
    const auto line = [&](const char* set, const std::string& source, const std::string& where) {
      fmt::print("{}: {}{}\n", set, source, where.empty() ? "" : ": " + where);
    };
    const std::string by = fmt::format("{}", fmt::join(found.by, ", "));
    line("A", sources_.front() + (by.empty() ? "" : fmt::format(", {} = {}", by, found.a_label)),
         provenance_a_);
    std::vector<std::string> labels;
    for (const ComparedGroup& group : found.groups)
      if (std::ranges::find(labels, group.label) == labels.end()) labels.push_back(group.label);
    const std::string of_b =
        by.empty() ? "" : fmt::format(", {} = {}", by, fmt::join(labels, "; "));
    line("B", sources_.back() + of_b, provenance_b_);
  }

  /// The pairs of one change: the worst, or the best, first.
  void tell_kind(const SetComparison& found, const std::vector<Row>& rows, Change change) const {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (found.pairs[i].change == change) places.push_back(i);
    if (places.empty() || top_ == 0) return;
    std::ranges::stable_sort(places, {}, [&](std::size_t i) {
      const double speed = found.pairs[i].time ? found.pairs[i].time->speed : 1;
      return change == Change::kFaster ? -speed : speed;
    });
    const std::size_t count = places.size();
    places.resize(std::min<std::size_t>(count, top_));
    std::vector<Row> shown;
    for (const std::size_t i : places) shown.push_back(rows[i]);
    std::vector<std::string> columns = pair_columns(found);
    columns.pop_back();  // the verdict, which is that of all
    if (found.pairs[places.front()].time == std::nullopt) {
      std::erase_if(columns, [](const std::string& column) {
        return column == "speed" || column == "low" || column == "high";
      });
      columns.insert(columns.end(), {"A status", "B status"});
    }
    fmt::print("\n{}{}\n{}", to_text(change),
               places.size() < count ? fmt::format(", {} of {}", places.size(), count)
                                     : fmt::format(": {}", count),
               text_table(shown, columns));
  }

  static void tell_unpaired(const char* set, const std::vector<Unpaired>& points) {
    std::map<std::string, int> reasons;
    for (const Unpaired& point : points)
      ++reasons[point.reason.empty() ? fmt::format("not in {}", *set == 'A' ? "B" : "A")
                                     : point.reason];
    if (!points.empty()) fmt::print("\nonly in {}: {} points\n", set, points.size());
    for (const auto& [reason, count] : reasons) fmt::print("{:6} {}\n", count, reason);
  }

  // JSON

  static Json list_of(const std::vector<Row>& rows) {
    Json list = Json::array();
    for (const Row& row : rows) list.push_back(row);
    return list;
  }

  static Json unpaired_json(const std::vector<Unpaired>& points) {
    Json list = Json::array();
    for (const Unpaired& point : points) {
      Json one{{"label", point.label}, {"reason", point.reason}};
      for (const std::string& column : identity_columns(point.row))
        one["point"][column] = point.row.at(column);
      list.push_back(std::move(one));
    }
    return list;
  }

  Json to_json(const SetComparison& found, const CompareRule& rule) const {
    return {{"by", found.by},
            {"a", {{"records", sources_.front()}, {"label", found.a_label}}},
            {"b", {{"records", sources_.back()}}},
            {"threshold", rule.threshold},
            {"predicted_threshold", rule.predicted_threshold},
            {"alpha", rule.alpha},
            {"regression", fails(found)},
            {"groups", list_of(group_rows(found))},
            {"pairs", list_of(pair_rows(found))},
            {"only_in_a", unpaired_json(found.only_a)},
            {"only_in_b", unpaired_json(found.only_b)}};
  }

  std::vector<std::string> sources_, where_, where_a_, where_b_, by_;
  std::vector<std::string> fail_on_{"slower"};
  std::string baseline_, csv_;
  std::string threshold_ = "5%", predicted_threshold_ = "0";
  std::string provenance_a_, provenance_b_;  // machine, date and commit
  int top_ = 10;
  bool all_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "compare",
    .summary = "compare two sets of records: faster, slower, same, ambiguous or broken",
    .make = [](const Params&) { return std::make_unique<CompareVerb>(); },
}};

}  // namespace
}  // namespace tessera
