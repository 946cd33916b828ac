// The limit of time for one launch. A kernel that hangs can neither be stopped nor waited for: not
// even its memory can be freed. The process that launched it has to end.
#pragma once

#include <functional>
#include <string>

namespace tessera {

/// The time that a launch may take, and what is called when it takes longer: with the reason, from
/// a thread of its own, while the launching thread still waits. It has to end the process. Without
/// this call the limit is one minute, and the reason goes to stderr before exit code 3.
void watch_launches(double limit_s, std::function<void(const std::string&)> give_up);

/// A launch, or a batch of launches that are short, that is waited for before this goes out of
/// scope. There is one at a time.
class WatchedLaunch {
 public:
  WatchedLaunch();
  ~WatchedLaunch();
  WatchedLaunch(const WatchedLaunch&) = delete;
  WatchedLaunch& operator=(const WatchedLaunch&) = delete;
};

}  // namespace tessera
