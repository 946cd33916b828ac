// Skipped points, counted by cause: one line, and one remedy, however many points and matrices.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "experiments/records/record.hpp"

namespace tessera {

/// The reason to skip one point.
struct Skip {
  SkipPart cause = {};       // empty in records that were written before causes were
  std::string backend = {};  // of the point
  std::string reason = {};   // the message, which may name the matrix and its sizes

  bool operator==(const Skip&) const = default;
};

/// The skip of a record with status "skipped".
Skip skip_of(const Json& record);

/// Skipped points with one cause.
struct SkipGroup {
  SkipPart cause = {};               // of absent matrices without the name
  std::string backend = {};          // empty where the cause does not depend on it
  std::set<std::string> names = {};  // of the absent matrices
  std::string reason = {};           // of the first point
  bool has_other_reasons = false;
  int points = 0;

  /// "276 skipped: 23 matrices not found (...); set $TESSERA_DATA ..."
  std::string text(const std::string& participle = "skipped") const;
};

/// Groups by cause; the largest group first.
class SkipCount {
 public:
  void add(const Skip& skip);

  bool empty() const { return groups_.empty(); }
  std::vector<SkipGroup> groups() const;

  /// One object per group: part, name, backend, points, reason, and the names of absent matrices.
  Json to_json() const;

 private:
  std::vector<SkipGroup> groups_;
};

}  // namespace tessera
