// The turn of using this process's device, which its threads take one after the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace tessera {

class DeviceTurn {
 public:
  DeviceTurn() = default;
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;

  /// Starts to open the device: `open` has the first turn, and the caller goes on meanwhile. Before
  /// any thread asks for a turn.
  void open(std::function<void()> open);
  /// False while open() works.
  bool is_open() const;
  void wait_until_open() const;

  /// No thread gets a turn any more: those that ask wait until the process ends. For a device that
  /// is lost, whose state would fail the points of all threads. By the thread that has the turn.
  void close();

  /// The thread that has the turn, by the number that it gave; nothing while none has.
  std::optional<std::size_t> user() const;

  /// Waits for the turn, in the order in which threads ask, and has it as long as this lives.
  class Held {
   public:
    Held(DeviceTurn& turn, std::size_t user);
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    double waited_s() const { return waited_s_; }

   private:
    DeviceTurn& turn_;
    double waited_s_ = 0;
  };

 private:
  void end_turn();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t asked_ = 0, served_ = 0;  // turns that were asked for, and that have ended
  bool is_opening_ = false, closed_ = false;
  std::optional<std::size_t> user_ = {};
  std::jthread opening_ = {};
};

}  // namespace tessera
