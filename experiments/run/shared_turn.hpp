// A turn that processes take one after the other, such as that of measuring on a GPU.
//
// Made before they are forked. The turn of a process that dies is free again. A process has it
// once: its threads share it.
#pragma once

namespace tessera {

class SharedTurn {
 public:
  SharedTurn();
  ~SharedTurn();
  SharedTurn(const SharedTurn&) = delete;
  SharedTurn& operator=(const SharedTurn&) = delete;

  /// Waits until no other process has the turn, and has it as long as this lives.
  class Held {
   public:
    explicit Held(SharedTurn& turn);
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    double waited_s() const { return waited_s_; }

   private:
    SharedTurn& turn_;
    double waited_s_ = 0;
  };

 private:
  int file_;  // in memory; what is locked
};

}  // namespace tessera
