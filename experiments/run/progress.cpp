#include "experiments/run/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "formats/base/escaped.hpp"

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

Progress::Progress(int total, RemainingTime* remaining)
    : total_(total),
      remaining_(remaining),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()) {}

Progress::~Progress() {
  if (terminal_ && total_ > 0) fmt::print(stderr, "\n");
}

void Progress::working_on(const std::string& name) { draw(name, false); }

void Progress::done(const std::string& name, const std::string& remark) {
  ++done_;
  if (!remark.empty())
    fmt::print(stderr, "{}{}\n", terminal_ ? "\r\033[K" : "", escaped_lines(remark));
  draw(name, done_ == total_);
}

std::optional<double> Progress::seconds_left(double elapsed) {
  if (remaining_ != nullptr) return remaining_->tell(elapsed);
  if (done_ == 0) return std::nullopt;
  return elapsed * (total_ - done_) / done_;
}

void Progress::draw(const std::string& name, bool force) {
  const auto now = Clock::now();
  if (!force && now - drawn_ < pause_of(terminal_)) return;
  drawn_ = now;
  const auto left = seconds_left(std::chrono::duration<double>(now - start_).count());
  const std::string rest =
      left && done_ < total_ ? fmt::format(", about {} left", duration_text(*left)) : "";
  if (!terminal_) {
    fmt::print(stderr, "{}/{} points{}: {}\n", done_, total_, rest, name);
    return;
  }
  fmt::print(stderr, "\r\033[K{} {}/{}{}  {}",
             bar(total_ > 0 ? static_cast<double>(done_) / total_ : 1), done_, total_, rest, name);
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

void ShareProgress::tell(double share, std::optional<double> left) {
  const auto now = Clock::now();
  if (now - drawn_ < pause_of(terminal_)) return;
  drawn_ = now;
  drawn_once_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (!left && share > 0) left = elapsed * (1 - share) / share;
  const std::string rest = left ? fmt::format(", about {} left", duration_text(*left)) : "";
  fmt::print(stderr, "{}{}{:.0f} %{}: {}{}", terminal_ ? "\r\033[K" + bar(share) : "",
             terminal_ ? " " : "", 100 * share, rest, name_, terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace tessera
