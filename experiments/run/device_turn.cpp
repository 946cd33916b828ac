#include "experiments/run/device_turn.hpp"

#include <chrono>
#include <utility>

namespace tessera {

void DeviceTurn::open(std::function<void()> open) {
  {
    const std::lock_guard lock(mutex_);
    ++asked_;
    is_opening_ = true;
  }
  opening_ = std::jthread([this, open = std::move(open)] {
    open();
    {
      const std::lock_guard lock(mutex_);
      is_opening_ = false;
    }
    end_turn();
  });
}

bool DeviceTurn::is_open() const {
  const std::lock_guard lock(mutex_);
  return !is_opening_;
}

void DeviceTurn::wait_until_open() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_opening_; });
}

void DeviceTurn::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

std::optional<std::size_t> DeviceTurn::user() const {
  const std::lock_guard lock(mutex_);
  return user_;
}

void DeviceTurn::end_turn() {
  {
    const std::lock_guard lock(mutex_);
    user_.reset();
    ++served_;
  }
  changed_.notify_all();
}

DeviceTurn::Held::Held(DeviceTurn& turn, std::size_t user) : turn_(turn) {
  const auto began = std::chrono::steady_clock::now();
  std::unique_lock lock(turn_.mutex_);
  const std::uint64_t number = turn_.asked_++;
  turn_.changed_.wait(lock, [&] { return turn_.served_ == number && !turn_.closed_; });
  turn_.user_ = user;
  waited_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

DeviceTurn::Held::~Held() { turn_.end_turn(); }

}  // namespace tessera
