#include "experiments/run/worker.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "experiments/run/worker_process.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Worker::Worker(Assignment assignment)
    : assignment_(std::move(assignment)),
      lane_of_(assignment_.entries.size()),
      finished_(assignment_.entries.size()) {
  int ends[2], gifts[2] = {-1, -1};
  require(pipe(ends) == 0, "cannot make a pipe: {}", std::strerror(errno));
  if (assignment_.asks_for_more)
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gifts) == 0,
            "cannot make a pair of sockets: {}", std::strerror(errno));
  std::fflush(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  require(pid_ >= 0, "cannot start a process: {}", std::strerror(errno));
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    // Only the parent handles Ctrl-C.
    std::signal(SIGINT, SIG_IGN);
    close(ends[0]);
    work(assignment_, ends[1], gifts[1]);
  }
  close(ends[1]);
  if (gifts[1] >= 0) close(gifts[1]);
  gifts_ = gifts[0];
  fd_ = ends[0];
}

Worker::~Worker() {
  if (!says_end_) kill();
  close(fd_);
  if (gifts_ >= 0) close(gifts_);
}

void Worker::give(std::size_t lane, std::vector<const PlanEntry*> entries) {
  const auto tell = [&](const void* from, std::size_t size) {
    const auto* bytes = static_cast<const char*>(from);
    while (size > 0) {
      const ssize_t sent = ::send(gifts_, bytes, size, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return;  // it is gone: its end tells what it has not done
      bytes += sent;
      size -= static_cast<std::size_t>(sent);
    }
  };
  const Gift gift{lane, entries.size()};
  tell(&gift, sizeof gift);
  tell(entries.data(), entries.size() * sizeof(const PlanEntry*));
  assignment_.entries.insert(assignment_.entries.end(), entries.begin(), entries.end());
  lane_of_.resize(assignment_.entries.size(), lane);
  finished_.resize(assignment_.entries.size());
}

void Worker::kill() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  ended_ = true;
}

void Worker::look_for_end() {
  int status = 0;
  if (!closing() || waitpid(pid_, &status, WNOHANG) != pid_) return;
  ended_ = true;
  if (WIFSIGNALED(status)) {
    killed_from_outside_ = WTERMSIG(status) == SIGKILL;
    death_ = fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else {
    death_ = fmt::format("exit code {}", WEXITSTATUS(status));
  }
}

std::vector<std::size_t> Worker::unfinished() const {
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < finished_.size(); ++place)
    if (!finished_[place]) places.push_back(place);
  return places;
}

double Worker::running_seconds(std::size_t place) const {
  const auto started = running_.find(place);
  if (started == running_.end()) return 0;
  return std::chrono::duration<double>(Clock::now() - started->second).count();
}

std::vector<WorkerEvent> Worker::read_events() {
  char bytes[65536];
  const ssize_t got = ::read(fd_, bytes, sizeof bytes);
  if (got < 0) return {};
  if (got == 0) {
    closing_ = true;
    return {};
  }
  buffer_.append(bytes, static_cast<std::size_t>(got));
  std::vector<WorkerEvent> events;
  for (std::size_t end; (end = buffer_.find('\n')) != std::string::npos;) {
    const Json line = Json::parse(buffer_.substr(0, end));
    buffer_.erase(0, end + 1);
    if (line.at("event") == "ends")
      says_end_ = true;
    else
      events.push_back(read(line));
  }
  return events;
}

WorkerEvent Worker::read(const Json& line) {
  using Kind = WorkerEvent::Kind;
  const std::string kind = line.at("event");
  if (kind == "asks") return {.kind = Kind::kAsks, .lane = line.at("lane")};
  if (kind == "machine") return {.kind = Kind::kMachine, .machine = line.at("seen")};
  const auto place = line.at("place").get<std::size_t>();
  if (kind == "order") return {.kind = Kind::kOrder, .place = place, .share = line.at("share")};
  if (kind == "start") {
    running_[place] = Clock::now();
    return {.kind = Kind::kStart, .place = place};
  }
  running_.erase(place);
  finished_.at(place) = true;
  if (kind == "record")
    return {.kind = Kind::kRecord, .place = place, .record = record_from_json(line.at("record"))};
  return {.kind = Kind::kAlreadyDone, .place = place};
}

}  // namespace tessera
