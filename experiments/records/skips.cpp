#include "experiments/records/skips.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/base/escaped.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostNames = 3;

/// A group without points for the cause of a skip.
SkipGroup group_for(const Skip& skip) {
  SkipGroup group{.cause = skip.cause, .backend = skip.backend, .reason = skip.reason};
  if (skip.cause.part == kAbsentMatrix) group.cause.name.clear();
  // The rest concerns every backend alike, the choice of a kernel only some.
  if (skip.cause.part != "kernel") group.backend.clear();
  return group;
}

bool are_one(const SkipGroup& a, const SkipGroup& b) {
  const bool known = !a.cause.part.empty();
  return a.cause == b.cause && a.backend == b.backend && (known || a.reason == b.reason);
}

std::string names_text(const std::set<std::string>& names) {
  const auto shown = std::min(names.size(), kMostNames);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), std::next(names.begin(), static_cast<long>(shown)), ", "));
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

}  // namespace

Skip skip_of(const Json& record) {
  Skip skip{.backend = record.at("params").value("backend", ""),
            .reason = record.value("reason", "")};
  if (const auto cause = record.find("skip"); cause != record.end())
    skip.cause = {cause->value("part", ""), cause->value("name", "")};
  return skip;
}

std::string SkipGroup::text(const std::string& participle) const {
  std::string why = reason;
  if (cause.part == kAbsentMatrix) {
    why = fmt::format(
        "{} not found ({}); set $TESSERA_DATA to the folder that has {}, or download with `tessera "
        "matrix fetch`",
        names.size() == 1 ? "matrix" : fmt::format("{} matrices", names.size()), names_text(names),
        names.size() == 1 ? "it" : "them");
  } else if (!cause.part.empty()) {
    why = fmt::format("{} {}{}: {}{}", cause.part, cause.name,
                      backend.empty() ? "" : ", backend " + backend, reason,
                      has_other_reasons ? " (for one of them)" : "");
  }
  return fmt::format("{} {}: {}", points, participle, escaped(why));
}

void SkipCount::add(const Skip& skip) {
  const SkipGroup fresh = group_for(skip);
  auto group =
      std::ranges::find_if(groups_, [&](const SkipGroup& one) { return are_one(one, fresh); });
  if (group == groups_.end()) group = groups_.insert(groups_.end(), fresh);
  ++group->points;
  group->has_other_reasons |= group->reason != skip.reason;
  if (skip.cause.part == kAbsentMatrix) group->names.insert(skip.cause.name);
}

std::vector<SkipGroup> SkipCount::groups() const {
  std::vector<SkipGroup> sorted = groups_;
  std::ranges::stable_sort(sorted, std::greater<>(), &SkipGroup::points);
  return sorted;
}

Json SkipCount::to_json() const {
  Json list = Json::array();
  for (const SkipGroup& group : groups()) {
    Json json{{"part", group.cause.part}, {"points", group.points}, {"text", group.text()}};
    if (!group.cause.name.empty()) json["name"] = group.cause.name;
    if (!group.backend.empty()) json["backend"] = group.backend;
    if (!group.names.empty()) json["matrices"] = group.names;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace tessera
