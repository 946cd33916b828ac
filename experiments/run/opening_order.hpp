// Lets the processes of a run open their devices one after the other.
//
// The driver takes the steps of all processes in turn: two GPUs of a host that are opened at a time
// are both ready when the second one would be alone (0.3 and 0.7 s after the start on two H200).
// One after the other, the first GPU measures while the next one is opened.
#pragma once

#include <chrono>

namespace tessera {

class OpeningOrder {
 public:
  /// By the parent of the processes, before it starts them.
  OpeningOrder();
  ~OpeningOrder();
  OpeningOrder(const OpeningOrder&) = delete;
  OpeningOrder& operator=(const OpeningOrder&) = delete;

  /// Waits until no other process has one of these, and is this process's as long as it lives, at
  /// most until the process ends. One that lasts for longer than `longest` is not waited for.
  class Held {
   public:
    explicit Held(const OpeningOrder& order,
                  std::chrono::milliseconds longest = std::chrono::seconds(5));
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    int fd_;
  };

 private:
  int fd_;  // of a file in memory, whose lock the processes take; -1 where there is none
};

}  // namespace tessera
