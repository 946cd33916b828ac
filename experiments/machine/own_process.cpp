#include "experiments/machine/own_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

[[noreturn]] void compute_and_exit(const std::function<Json()>& compute, int fd) {
  Json answer;
  try {
    answer["result"] = compute();
  } catch (const std::exception& error) {
    answer["error"] = error.what();
  }
  const std::string text = answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t got = write(fd, text.data() + sent, text.size() - sent);
    if (got <= 0) break;
    sent += static_cast<std::size_t>(got);
  }
  // No destructors: those of the parent's objects are the parent's.
  _exit(0);
}

std::string read_all(int fd) {
  std::string text;
  char bytes[4096];
  while (true) {
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace

OwnProcess::OwnProcess(const std::function<Json()>& compute) {
  int ends[2];
  require(pipe(ends) == 0, "cannot make a pipe: {}", std::strerror(errno));
  std::fflush(nullptr);
  child_ = fork();
  require(child_ >= 0, "cannot start a process: {}", std::strerror(errno));
  if (child_ == 0) {
    std::signal(SIGINT, SIG_IGN);
    close(ends[0]);
    compute_and_exit(compute, ends[1]);
  }
  close(ends[1]);
  fd_ = ends[0];
}

OwnProcess::~OwnProcess() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  end();
}

int OwnProcess::end() {
  close(fd_);
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  return status;
}

Json OwnProcess::answer() {
  const std::string text = read_all(fd_);
  const int status = end();
  const Json answer = Json::parse(text, nullptr, false);
  require(!answer.is_discarded(), "a process ended without an answer: {}",
          WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "unknown cause");
  require(answer.contains("result"), "{}", answer.value("error", ""));
  return answer["result"];
}

Json in_own_process(const std::function<Json()>& compute) { return OwnProcess(compute).answer(); }

}  // namespace tessera
