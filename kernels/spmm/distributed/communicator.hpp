// What a product on several GPUs needs of the library that connects them: who takes part, and an
// exchange of blocks of bytes.
//
// Each participant (rank) has a Communicator of its own and calls the same functions in the same
// order. The bytes are where its implementation says: on the device for NCCL, on the host for
// threads of one process, which tests use.
#pragma once

#include <cstdint>
#include <span>

struct CUstream_st;  // a cudaStream_t is a pointer to it; this header needs no CUDA

namespace tessera {

/// Bytes for another rank.
struct OutgoingBlock {
  int to = 0;
  const void* data = nullptr;
  std::int64_t bytes = 0;
};

/// Memory for the bytes of another rank.
struct IncomingBlock {
  int from = 0;
  void* data = nullptr;
  std::int64_t bytes = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends and receives all blocks, at most one each way for a pair of ranks; the two of a pair
  /// have the same size. An implementation for devices enqueues it on the stream and returns; one
  /// for the host ignores the stream and returns when the bytes have arrived. No memory is both
  /// sent and received into. Throws an Error for a rank that is not there or this one itself, and
  /// std::runtime_error where the connection fails or another rank gave up.
  virtual void exchange(std::span<const OutgoingBlock> sends,
                        std::span<const IncomingBlock> receives, CUstream_st* stream) = 0;

  /// Gives every rank the blocks of all: rank r's begins where those of the ranks before it end, in
  /// `all` [sum of bytes]. Its own block is there before. `bytes` [size()] are alike on all ranks.
  /// Otherwise as exchange().
  virtual void all_gather(std::span<const std::int64_t> bytes, void* all, CUstream_st* stream) = 0;

  /// Ends what waits for this rank: other ranks' calls fail from now on, and so do this one's.
  virtual void give_up() noexcept = 0;
};

/// Throws an Error for a block to or from `rank` itself, or a rank outside [0, size).
void require_other_ranks(int rank, int size, std::span<const OutgoingBlock> sends,
                         std::span<const IncomingBlock> receives);

}  // namespace tessera
