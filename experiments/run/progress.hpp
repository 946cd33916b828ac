// Progress of long work on stderr: one line that renews itself on a terminal, plain lines
// otherwise.
#pragma once

#include <chrono>
#include <string>

#include "experiments/run/remaining_time.hpp"

namespace tessera {

class Progress {
 public:
  /// Tells the time that `remaining`, which outlives this, expects; without one, that of pieces of
  /// work that take alike.
  explicit Progress(int total, RemainingTime* remaining = nullptr);
  ~Progress();  // ends the line

  /// Shows the name of the current work.
  void working_on(const std::string& name);
  /// Counts one more as done; `remark` is printed on a line of its own when not empty.
  void done(const std::string& name, const std::string& remark);

 private:
  void draw(const std::string& name, bool force);
  std::optional<double> seconds_left(double elapsed);

  const int total_;
  RemainingTime* remaining_;
  const bool terminal_;
  int done_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

/// The progress of one piece of work, as the share that is done.
class ShareProgress {
 public:
  explicit ShareProgress(std::string name);
  ~ShareProgress();  // takes the line away

  /// `left`: the seconds left of more than this piece; without, those of the piece are worked out.
  void tell(double share, std::optional<double> left = {});

 private:
  const std::string name_;
  const bool terminal_;
  bool drawn_once_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

/// "3.2 s", "4 min 10 s", "2 h 5 min"
std::string duration_text(double seconds);

}  // namespace tessera
