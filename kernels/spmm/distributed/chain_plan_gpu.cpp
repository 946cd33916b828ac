#include "kernels/spmm/distributed/chain_plan.hpp"

#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/extents.hpp"
#include "kernels/device/restore_rows.hpp"
#include "kernels/spmm/distributed/exchange_stream.hpp"
#include "kernels/spmm/distributed/uploaded_part.hpp"

namespace tessera {
namespace {

/// A piece on the device.
struct DevicePiece {
  UploadedPart part = {};
  DeviceArray<std::int32_t> rows = {};
  std::vector<std::int64_t> in_place = {};  // of each send: its first row of X; -1: gathered
};

}  // namespace

struct ChainSpmmPlan::State {
  DeviceCommunicator& comm;
  std::int64_t n, row_bytes = 0;
  Storage storage = {};
  ChainPart part = {};
  std::vector<DevicePiece> pieces = {};
  DeviceArray<std::int32_t> sent_rows = {};
  DeviceArray<std::byte> gathered = {};      // [sent rows x row_bytes]
  DeviceArray<std::byte> x = {}, next = {};  // [rows of the part + received x row_bytes]
  ExchangeStream stream = {};

  State(const CsrMatrix& a, std::int64_t columns, const ChainSpmm& chain,
        DeviceCommunicator& communicator)
      : comm(communicator), n(columns), storage(chain.arithmetic().storage) {
    const Distribution distribution = distribute(a, n, chain.options());
    row_bytes = distribution.row_bytes;
    part = chain_part(a, distribution, comm.rank(), chain.pieces());
    for (ChainPiece& piece : part.pieces) {
      pieces.push_back(upload(chain.kernel(), piece));
      piece.a = {};  // it is on the device
    }
    if (!part.sent_rows.empty()) sent_rows = DeviceArray<std::int32_t>(part.sent_rows);
    gathered = DeviceArray<std::byte>(part.sent_rows.size() * static_cast<std::size_t>(row_bytes));
    const auto bytes =
        static_cast<std::size_t>((std::ssize(part.rows) + part.received) * row_bytes);
    x = DeviceArray<std::byte>(bytes);
    next = DeviceArray<std::byte>(bytes);
    load_restore_rows();
    cuda_check(cudaDeviceSynchronize(), "uploading a part");
  }

  DevicePiece upload(const DistributedSpmm& kernel, const ChainPiece& piece) const {
    DevicePiece made;
    for (const PeerRows& block : piece.sends)
      made.in_place.push_back(first_if_contiguous(part.sent_rows, block));
    if (piece.rows.empty()) return made;
    const std::string& name = kernel.options().kernel;
    made.part = upload_part(name, kernel.params(), *kernel.pack(piece.a), n);
    made.part.gpu->prepare(0, {nullptr, nullptr}, nullptr);
    made.rows = DeviceArray<std::int32_t>(piece.rows);
    require<Unsupported>(made.part.gpu->place_rows(made.rows.data()),
                         "{} does not write some rows of C only", name);
    return made;
  }

  /// Exchanges the rows of a piece of an X, after what is on `stream`.
  void exchange(std::size_t number, std::byte* of, cudaStream_t after) {
    const ChainPiece& piece = part.pieces[number];
    if (piece.sends.empty() && piece.receives.empty()) return;
    stream.follow(after);
    std::vector<OutgoingBlock> sends;
    std::vector<IncomingBlock> receives;
    for (std::size_t i = 0; i < piece.sends.size(); ++i) {
      const PeerRows& block = piece.sends[i];
      const std::byte* rows = of + pieces[number].in_place[i] * row_bytes;
      if (pieces[number].in_place[i] < 0) {
        std::byte* to = gathered.data() + block.first * row_bytes;
        gather_rows(of, sent_rows.data() + block.first, static_cast<std::int32_t>(block.count),
                    row_bytes, to, stream.get());
        rows = to;
      }
      sends.push_back({block.peer, rows, block.count * row_bytes});
    }
    std::byte* tail = of + std::ssize(part.rows) * row_bytes;
    for (const PeerRows& block : piece.receives)
      receives.push_back({block.peer, tail + block.first * row_bytes, block.count * row_bytes});
    comm.exchange(sends, receives, stream.get());
  }
};

ChainSpmmPlan::ChainSpmmPlan(const CsrMatrix& a, std::int64_t n, const DistributedOptions& options,
                             DeviceCommunicator& comm, int pieces) {
  validate(a);
  require(n >= 1, "X has {} columns; it needs at least one", n);
  element_count(a.rows, n);
  require(options.parts == comm.size(), "A is in {} parts for {} ranks", options.parts,
          comm.size());
  state_ = std::make_unique<State>(a, n, ChainSpmm(options, n, pieces), comm);
}
ChainSpmmPlan::~ChainSpmmPlan() = default;

void ChainSpmmPlan::start(const void* x, cudaStream_t stream) {
  State& s = *state_;
  cuda_check(cudaMemcpyAsync(s.x.data(), x,
                             static_cast<std::size_t>(std::ssize(s.part.rows) * s.row_bytes),
                             cudaMemcpyDeviceToDevice, stream),
             "copying rows of X");
  s.stream.follow(stream);
  for (std::size_t piece = 0; piece < s.pieces.size(); ++piece)
    s.exchange(piece, s.x.data(), stream);
  s.stream.end();
}

void ChainSpmmPlan::multiply(float alpha, cudaStream_t stream) {
  State& s = *state_;
  s.stream.wait(stream);  // all of X is here
  for (std::size_t piece = 0; piece < s.pieces.size(); ++piece) {
    const UploadedPart& part = s.pieces[piece].part;
    if (part.gpu) part.gpu->launch(part.algorithm, {s.x.data(), s.next.data(), {alpha, 0}}, stream);
    s.exchange(piece, s.next.data(), stream);
  }
  s.stream.end();
  std::swap(s.x, s.next);
}

const void* ChainSpmmPlan::rows() const { return state_->x.data(); }
const ChainPart& ChainSpmmPlan::part() const { return state_->part; }
const Storage& ChainSpmmPlan::storage() const { return state_->storage; }

}  // namespace tessera
