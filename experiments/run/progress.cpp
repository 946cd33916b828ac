#include "experiments/run/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tessera {

using Clock = std::chrono::steady_clock;

namespace {

/// A log wants a line now and then, a terminal a picture.
Clock::duration pause_of(bool terminal) {
  return terminal ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
}

std::string bar(double share) {
  constexpr int kWidth = 30;
  const int filled = std::clamp(static_cast<int>(kWidth * share), 0, kWidth);
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", kWidth - filled);
}

}  // namespace

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
  const auto now = Clock::now();
  if (!force && now - drawn_ < pause_of(terminal_)) return;
  drawn_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = elapsed > 0 ? done_ / elapsed : 0;
  const std::string rest =
      rate > 0 && done_ < total_ ? ", " + duration_text((total_ - done_) / rate) + " left" : "";
  if (!terminal_) {
    fmt::print(stderr, "{}/{} points, {:.1f}/s{}: {}\n", done_, total_, rate, rest, name);
    return;
  }
  fmt::print(stderr, "\r\033[K{} {}/{}, {:.1f}/s{}  {}",
             bar(total_ > 0 ? static_cast<double>(done_) / total_ : 1), done_, total_, rate, rest,
             name);
  std::fflush(stderr);
}

ShareProgress::ShareProgress(std::string name)
    : name_(std::move(name)),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      drawn_(start_) {}

ShareProgress::~ShareProgress() {
  if (terminal_ && drawn_once_) fmt::print(stderr, "\r\033[K");
}

void ShareProgress::tell(double share) {
  const auto now = Clock::now();
  if (now - drawn_ < pause_of(terminal_)) return;
  drawn_ = now;
  drawn_once_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const std::string rest =
      share > 0 ? ", " + duration_text(elapsed * (1 - share) / share) + " left" : "";
  fmt::print(stderr, "{}{}{:.0f} %{}: {}{}", terminal_ ? "\r\033[K" + bar(share) : "",
             terminal_ ? " " : "", 100 * share, rest, name_, terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace tessera
