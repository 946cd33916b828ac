#include "kernels/spmm/distributed/thread_communicator.hpp"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera {

void require_other_ranks(int rank, int size, std::span<const OutgoingBlock> sends,
                         std::span<const IncomingBlock> receives) {
  const auto check = [&](int other, const char* doing) {
    require(other >= 0 && other < size && other != rank,
            "rank {} of {} cannot {} rank {}: it takes another one of [0, {})", rank, size, doing,
            other, size);
  };
  for (const OutgoingBlock& block : sends) check(block.to, "send to");
  for (const IncomingBlock& block : receives) check(block.from, "receive from");
}

namespace {

/// The blocks that have been sent and not been received, of all pairs of ranks.
class Mailboxes {
 public:
  explicit Mailboxes(int size) : size_(size) {}
  int size() const { return size_; }

  void put(int from, int to, const void* data, std::int64_t bytes) {
    const auto* begin = static_cast<const char*>(data);
    std::vector<char> copy(begin, begin + bytes);
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return !boxes_.contains({from, to}); });
    boxes_.emplace(std::pair(from, to), std::move(copy));
    changed_.notify_all();
  }

  void take(int from, int to, void* data, std::int64_t bytes) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return boxes_.contains({from, to}); });
    const auto box = boxes_.find({from, to});
    require(std::ssize(box->second) == bytes, "rank {} sends {} bytes, but rank {} expects {}",
            from, box->second.size(), to, bytes);
    if (bytes > 0) std::memcpy(data, box->second.data(), box->second.size());
    boxes_.erase(box);
    changed_.notify_all();
  }

  void give_up() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

 private:
  template <class Holds>
  void wait(std::unique_lock<std::mutex>& lock, Holds holds) {
    changed_.wait(lock, [&] { return has_ended_ || holds(); });
    if (has_ended_) throw std::runtime_error("another rank gave up");
  }

  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::vector<char>> boxes_;
  bool has_ended_ = false;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Mailboxes> mail, int rank)
      : mail_(std::move(mail)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return mail_->size(); }

  void exchange(std::span<const OutgoingBlock> sends, std::span<const IncomingBlock> receives,
                CUstream_st*) override {
    require_other_ranks(rank_, size(), sends, receives);
    for (const OutgoingBlock& block : sends) mail_->put(rank_, block.to, block.data, block.bytes);
    for (const IncomingBlock& block : receives)
      mail_->take(block.from, rank_, block.data, block.bytes);
  }

  void all_gather(std::span<const std::int64_t> bytes, void* all, CUstream_st* stream) override {
    require(std::ssize(bytes) == size(), "{} blocks are gathered of {} ranks", bytes.size(),
            size());
    std::vector<OutgoingBlock> sends;
    std::vector<IncomingBlock> receives;
    auto* block = static_cast<char*>(all);
    const char* own = nullptr;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == rank_)
        own = block;
      else
        receives.push_back({rank, block, bytes[static_cast<std::size_t>(rank)]});
      block += bytes[static_cast<std::size_t>(rank)];
    }
    for (int rank = 0; rank < size(); ++rank)
      if (rank != rank_) sends.push_back({rank, own, bytes[static_cast<std::size_t>(rank_)]});
    exchange(sends, receives, stream);
  }

  void give_up() noexcept override { mail_->give_up(); }

 private:
  std::shared_ptr<Mailboxes> mail_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> connect_threads(int size) {
  require(size >= 1, "{} ranks were asked for; there is at least one", size);
  const auto mail = std::make_shared<Mailboxes>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<ThreadCommunicator>(mail, rank));
  return ranks;
}

void run_ranks(int size, const std::function<void(int rank)>& body,
               const std::function<void(int rank)>& give_up) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        give_up(rank);
      }
    });
  threads.clear();  // waits for them
  if (first) std::rethrow_exception(first);
}

}  // namespace tessera
