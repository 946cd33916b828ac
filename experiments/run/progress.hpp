// Progress of long work on stderr: one line that renews itself on a terminal, plain lines
// otherwise.
#pragma once

#include <chrono>
#include <string>

namespace tessera {

class Progress {
 public:
  explicit Progress(int total);
  ~Progress();  // ends the line

  /// Shows the name of the current work.
  void working_on(const std::string& name);
  /// Counts one more as done; `remark` is printed on a line of its own when not empty.
  void done(const std::string& name, const std::string& remark);

 private:
  void draw(const std::string& name, bool force);

  const int total_;
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

  void tell(double share);

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
