// Skips that can be told before anything runs: an absent matrix, a backend that this machine cannot
// run, a kernel that has no emulation, no trace or no work description.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "experiments/config/plan.hpp"
#include "experiments/records/skips.hpp"

namespace tessera {

class Foresight {
 public:
  /// The skip of the point on this machine; empty where its run alone can tell. A kernel is tried
  /// on a tiny matrix.
  std::optional<Skip> skip_of(const Point& point);

  /// The foreseen skips of a plan, each request counted once.
  SkipCount skips_of(const Plan& plan);

 private:
  std::optional<Skip> absent_matrix(const Point& point);
  std::optional<Skip> kernel_skip(Point point);

  struct PointHash {
    std::size_t operator()(const Point& point) const;
  };

  std::unordered_map<std::string, std::optional<Skip>> matrices_;      // by name
  std::unordered_map<Point, std::optional<Skip>, PointHash> kernels_;  // on the tiny matrix
};

}  // namespace tessera
