// The time that a run still needs, from the costs of its points.
//
// Points of one kind, a backend, take a time of their own and one in proportion to their cost. Both
// are learned from the points that have run, now or before. A count of points alone would promise
// too little while small matrices run, and grow with every larger one.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace tessera {

class RemainingTime {
 public:
  /// `jobs`: points that run at the same time.
  explicit RemainingTime(int jobs = 1) : jobs_(jobs) {}

  /// One more point to run; its cost is positive.
  void expect(const std::string& kind, double cost);
  /// What a point took, whether it was expected or ran earlier.
  void learn(const std::string& kind, double cost, double seconds);
  /// A point of this kind was skipped. A kind of which all points were will have no other.
  void learn_skip(const std::string& kind) { ++kinds_[kind].skipped; }
  /// An expected point is no longer to be run.
  void remove(const std::string& kind, double cost);

  /// Seconds; empty until a point of every kind has run.
  std::optional<double> estimate() const;

  /// The seconds to tell people, `now` seconds after the start of the run. They do not rise, except
  /// where the estimate does by half: then the run has become another one.
  std::optional<double> tell(double now);

 private:
  struct Kind {
    int left = 0;
    double cost_left = 0;
    int skipped = 0;
    // Sums over the points that ran, for the line that is nearest to their times, relative to cost.
    int ran = 0;
    double per_cost = 0, per_square = 0;                  // of 1 / cost and 1 / cost^2
    double seconds_per_cost = 0, seconds_per_square = 0;  // of seconds / cost and / cost^2
  };

  static double seconds_left(const Kind& kind);

  int jobs_;
  std::map<std::string, Kind> kinds_;
  double changed_at_ = 0;  // when the estimate last changed
  std::optional<double> estimated_, told_;
};

}  // namespace tessera
