// A test case of this program in a process of its own, with a context of its own on the GPU.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "experiments/machine/gpu_info.hpp"

namespace tessera {

/// True, with a message, where there is no GPU for the test.
inline bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

class GpuChild {
 public:
  /// Starts a test case that is skipped otherwise.
  explicit GpuChild(const std::string& test_case) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const std::string only = "--test-case=" + test_case;
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      execl("/proc/self/exe", "tests", only.c_str(), "--no-skip", static_cast<char*>(nullptr));
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~GpuChild() {
    kill();
    close(out_);
  }
  GpuChild(const GpuChild&) = delete;
  GpuChild& operator=(const GpuChild&) = delete;

  /// Reads until the process has said this, or has ended.
  void wait_for(const std::string& text) {
    while (said_.find(text) == std::string::npos && read_more()) {
    }
  }
  /// All that it says, and its exit code; -1 when a signal ended it.
  std::pair<std::string, int> wait() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return {said_, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  bool read_more() {
    char bytes[256];
    const ssize_t got = read(out_, bytes, sizeof bytes);
    if (got > 0) said_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  std::string said_;
};

}  // namespace tessera
