#include "formats/base/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/kept_threads.hpp"
#include "formats/base/loop_threads.hpp"
#include "formats/base/stop.hpp"

namespace tessera {
namespace {

std::atomic<int> requested_threads{0};
thread_local int threads_of_loops = 0;  // of this thread; 0 for those of the process
thread_local bool inside_parallel_loop = false;
thread_local Team* kept_team = nullptr;

int default_threads() {
  if (const char* text = std::getenv("TESSERA_THREADS")) {
    int threads = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, threads);
    require(error == std::errc() && stop == end && threads > 0,
            "TESSERA_THREADS = '{}' is not a positive integer", text);
    return threads;
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1u, std::thread::hardware_concurrency());
}

/// Tells the processor that the thread waits for another one.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until is_done(value): first by looking, since work that follows soon should start at once,
/// then asleep. Returns the value.
template <class Done>
std::uint32_t wait_for(const std::atomic<std::uint32_t>& value, Done is_done) {
  constexpr int kLooks = 10'000;
  for (int look = 0; look < kLooks; ++look) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (is_done(now)) return now;
    pause();
  }
  for (;;) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (is_done(now)) return now;
    value.wait(now, std::memory_order_acquire);
  }
}

/// Runs work() on the calling thread and on workers - 1 more, which start for it.
template <class Work>
void run_on_new_threads(int workers, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(workers));
  try {
    for (int t = 1; t < workers; ++t) threads.emplace_back(work);
  } catch (const std::system_error&) {  // no memory for one more: those that run do its work
  }
  work();
}

}  // namespace

/// Threads that wait for the work of one caller. A loop opens a number of places; a thread that
/// takes one does the work. The caller closes the places left when it has no work itself, and waits
/// for the threads that took one, but not for those that still sleep.
class Team {
 public:
  ~Team() {
    leave_ = true;
    open(kMostPlaces);
  }

  void run(int workers, const std::function<void()>& work) {
    const auto places = std::min(static_cast<std::uint32_t>(workers - 1), kMostPlaces);
    try {
      while (threads_.size() < places) threads_.emplace_back([this] { wait_for_work(); });
    } catch (const std::system_error&) {  // no memory for one more: those that run do its work
    }
    work_ = &work;
    finished_.store(0, std::memory_order_relaxed);
    open(places);
    work();
    const std::uint32_t left = places_.fetch_and(~kMostPlaces, std::memory_order_acquire);
    const std::uint32_t taken = places - (left & kMostPlaces);
    wait_for(finished_, [&](std::uint32_t finished) { return finished == taken; });
  }

 private:
  static constexpr std::uint32_t kMostPlaces = 1023;  // the low bits of places_

  /// Another value of the high bits at each opening: a thread that sleeps on an old one wakes up.
  void open(std::uint32_t places) {
    opened_ += kMostPlaces + 1;
    places_.store(opened_ | places, std::memory_order_release);
    places_.notify_all();
  }

  bool take_place() {
    std::uint32_t places = places_.load(std::memory_order_relaxed);
    while ((places & kMostPlaces) != 0)
      if (places_.compare_exchange_weak(places, places - 1, std::memory_order_acquire)) return true;
    return false;
  }

  void wait_for_work() {
    for (;;) {
      wait_for(places_, [](std::uint32_t places) { return (places & kMostPlaces) != 0; });
      if (!take_place()) continue;
      if (leave_) return;
      (*work_)();
      finished_.fetch_add(1, std::memory_order_release);
      finished_.notify_one();
    }
  }

  std::atomic<std::uint32_t> places_{0}, finished_{0};
  std::uint32_t opened_ = 0;
  std::atomic<bool> leave_ = false;
  const std::function<void()>* work_ = nullptr;
  std::vector<std::jthread> threads_;  // the last member: threads end before what they use
};

KeptThreads::KeptThreads() {
  if (kept_team != nullptr) return;
  team_ = std::make_unique<Team>();
  kept_team = team_.get();
}

KeptThreads::~KeptThreads() {
  if (team_) kept_team = nullptr;
}

int num_threads() {
  if (threads_of_loops > 0) return threads_of_loops;
  const int requested = requested_threads.load();
  if (requested > 0) return requested;
  static const int kDefault = default_threads();
  return kDefault;
}

void set_num_threads(int threads) { requested_threads = threads; }

ThreadsOfLoops::ThreadsOfLoops(int threads) : before_(threads_of_loops) {
  if (threads > 0) threads_of_loops = threads;
}

ThreadsOfLoops::~ThreadsOfLoops() { threads_of_loops = before_; }

void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  assert(grain > 0);
  const std::int64_t pieces = (n + grain - 1) / grain;
  const auto run_piece = [&](std::int64_t p) {
    throw_if_stopped();
    body(p * grain, std::min(n, (p + 1) * grain));
  };
  const int workers =
      static_cast<int>(inside_parallel_loop ? 1 : std::min<std::int64_t>(num_threads(), pieces));
  if (workers <= 1) {
    for (std::int64_t p = 0; p < pieces; ++p) run_piece(p);
    return;
  }

  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const StopFlag stop = stop_flag();
  const int threads_here = threads_of_loops;
  const auto work = [&] {
    inside_parallel_loop = true;
    threads_of_loops = threads_here;
    set_stop_flag(stop);
    try {
      for (std::int64_t p; (p = next.fetch_add(1)) < pieces;) run_piece(p);
    } catch (...) {
      next = pieces;  // the other threads stop before their next chunk
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
    inside_parallel_loop = false;
  };
  if (kept_team != nullptr)
    kept_team->run(workers, work);
  else
    run_on_new_threads(workers, work);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
