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
#include "formats/base/loop_threads.hpp"
#include "formats/base/stop.hpp"

namespace tessera {
namespace {

std::atomic<int> requested_threads{0};
thread_local int threads_of_loops = 0;  // of this thread; 0 for those of the process
thread_local bool inside_parallel_loop = false;

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

}  // namespace

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
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(workers));
    try {
      for (int t = 1; t < workers; ++t) threads.emplace_back(work);
    } catch (const std::system_error&) {  // no memory for one more: those that run do its work
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
