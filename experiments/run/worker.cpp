#include "experiments/run/worker.hpp"

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>

#include "experiments/backends/launch_watch.hpp"
#include "experiments/machine/gpu_load.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

void send(int fd, const Json& event) {
  const std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t got = write(fd, line.data() + sent, line.size() - sent);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(1);  // the parent is gone
    sent += static_cast<std::size_t>(got);
  }
}

/// Lets this process keep memory that it frees, for its next point: the system clears every page
/// that it hands out anew, which takes about as long as a point's copies of C.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

/// Reports the progress of the order of the point at `place`, at most ten times a second.
auto order_teller(int fd, const std::size_t& place) {
  return [fd, &place, told = Clock::time_point()](const Point&, double share) mutable {
    const Clock::time_point now = Clock::now();
    if (share > 0 && now - told < std::chrono::milliseconds(100)) return;
    told = now;
    send(fd, {{"event", "order"}, {"place", place}, {"share", share}});
  };
}

/// Reads all of a message's bytes; false at its end.
bool receive(int fd, void* to, std::size_t size) {
  auto* bytes = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Takes the further points that the parent was asked for; false where there are none. Entries are
/// at the same addresses in both processes, since they are older than the fork.
bool take_more(Assignment& assignment, int gifts) {
  std::size_t count = 0;
  if (!receive(gifts, &count, sizeof count) || count == 0) return false;
  const std::size_t before = assignment.entries.size();
  assignment.entries.resize(before + count);
  return receive(gifts, assignment.entries.data() + before, count * sizeof(const PlanEntry*));
}

[[noreturn]] void work(Assignment& assignment, int fd, int gifts) {
  if (assignment.threads > 0) set_num_threads(assignment.threads);
  if (assignment.place) go_to(*assignment.place);
  std::size_t place = 0;
  keep_freed_memory();
  if (assignment.gpu_turn != nullptr) share_gpu_with_children_of(getppid());
  // The launching thread waits for its kernel, and sends nothing meanwhile.
  watch_launches(assignment.launch_timeout_s, [&](const std::string& reason) {
    const Record record = unfinished_record(assignment.entries[place]->point, "timeout", reason);
    send(fd, {{"event", "record"}, {"place", place}, {"record", to_json(record)}});
    _exit(0);
  });
  PointRunner runner({.gpu_turn = assignment.gpu_turn,
                      .opening_turn = assignment.opening_turn,
                      .fresh_orders = assignment.fresh_orders,
                      .keeps_truth = true,
                      .tell_order = order_teller(fd, place)});
  for (;; ++place) {
    if (Clock::now() >= assignment.stop_at) break;
    if (place == assignment.entries.size() &&
        !(assignment.asks_for_more && take_more(assignment, gifts)))
      break;
    // Asked for early, more are here when they are needed.
    if (assignment.asks_for_more && place + 1 == assignment.entries.size())
      send(fd, {{"event", "asks"}, {"place", place}});
    const Point& point = assignment.entries[place]->point;
    send(fd, {{"event", "start"}, {"place", place}});
    // The identity needs the matrix: load it only when there is a result to compare with.
    if (!assignment.done_ids.empty() && assignment.done_ids.contains(runner.point_id(point))) {
      send(fd, {{"event", "done"}, {"place", place}});
      continue;
    }
    const Attempt attempt = runner.run(point);
    send(fd, {{"event", "record"}, {"place", place}, {"record", to_json(attempt.record)}});
    if (attempt.restart_needed) break;
  }
  // No destructors: a spoilt CUDA context could hang in them.
  _exit(0);
}

}  // namespace

Worker::Worker(Assignment assignment) : assignment_(std::move(assignment)) {
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
  started_ = Clock::now();
}

Worker::~Worker() {
  if (!ended_) kill();
  close(fd_);
  if (gifts_ >= 0) close(gifts_);
}

void Worker::give(std::vector<const PlanEntry*> entries) {
  const std::size_t count = entries.size();
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
  tell(&count, sizeof count);
  tell(entries.data(), count * sizeof(const PlanEntry*));
  assignment_.entries.insert(assignment_.entries.end(), entries.begin(), entries.end());
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
  } else if (WEXITSTATUS(status) != 0 || running_) {
    death_ = fmt::format("exit code {}", WEXITSTATUS(status));
  }
}

double Worker::running_seconds() const {
  return running_ ? std::chrono::duration<double>(Clock::now() - started_).count() : 0;
}

std::vector<WorkerEvent> Worker::read_events() {
  char bytes[65536];
  const ssize_t got = read(fd_, bytes, sizeof bytes);
  if (got < 0) return {};
  if (got == 0) {
    closing_ = true;
    return {};
  }
  buffer_.append(bytes, static_cast<std::size_t>(got));
  std::vector<WorkerEvent> events;
  for (std::size_t end; (end = buffer_.find('\n')) != std::string::npos;) {
    Json line = Json::parse(buffer_.substr(0, end));
    buffer_.erase(0, end + 1);
    const auto place = line.at("place").get<std::size_t>();
    const std::string kind = line.at("event");
    if (kind == "start") {
      running_ = place;
      started_ = Clock::now();
      events.push_back({WorkerEvent::Kind::kStart, place});
      continue;
    }
    if (kind == "order") {
      events.push_back({WorkerEvent::Kind::kOrder, place, {}, line.at("share")});
      continue;
    }
    if (kind == "asks") {
      events.push_back({WorkerEvent::Kind::kAsks, place});
      continue;
    }
    running_.reset();
    next_ = place + 1;
    if (kind == "record")
      events.push_back({WorkerEvent::Kind::kRecord, place, record_from_json(line["record"])});
    else
      events.push_back({WorkerEvent::Kind::kAlreadyDone, place});
  }
  return events;
}

}  // namespace tessera
