#include "experiments/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace tessera {

using Clock = std::chrono::steady_clock;

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(int total)
    : total_(total), terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()) {}

Progress::~Progress() {
  if (terminal_ && total_ > 0) fmt::print(stderr, "\n");
}

void Progress::working_on(const std::string& name) { draw(name, false); }

void Progress::done(const std::string& name, const std::string& remark) {
  ++done_;
  if (!remark.empty()) fmt::print(stderr, "{}{}\n", terminal_ ? "\r\033[K" : "", remark);
  draw(name, done_ == total_);
}

void Progress::draw(const std::string& name, bool force) {
  // A log wants a line now and then, a terminal a picture.
  const auto now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  if (!force && now - drawn_ < pause) return;
  drawn_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = elapsed > 0 ? done_ / elapsed : 0;
  const std::string rest =
      rate > 0 && done_ < total_ ? ", " + duration_text((total_ - done_) / rate) + " left" : "";
  if (!terminal_) {
    fmt::print(stderr, "{}/{} points, {:.1f}/s{}: {}\n", done_, total_, rate, rest, name);
    return;
  }
  constexpr int kWidth = 30;
  const int filled = total_ > 0 ? kWidth * done_ / total_ : kWidth;
  fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {}/{}, {:.1f}/s{}  {}", "", filled, "",
             kWidth - filled, done_, total_, rate, rest, name);
  std::fflush(stderr);
}

}  // namespace tessera
