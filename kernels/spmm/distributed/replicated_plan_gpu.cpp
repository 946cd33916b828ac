#include "kernels/spmm/distributed/replicated_plan.hpp"

#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/extents.hpp"
#include "kernels/spmm/distributed/sum_copies.hpp"
#include "kernels/spmm/distributed/uploaded_part.hpp"

namespace tessera {

struct ReplicatedSpmmPlan::State {
  DeviceCommunicator& comm;
  std::int64_t n;
  int copies;
  ReplicatedLayout layout;
  UploadedPart part = {};
  DeviceArray<float> share = {};   // [rows of B in the share x n]
  DeviceArray<float> others = {};  // [copies - 1 x rows of the slice x n]

  State(const CsrMatrix& a, std::int64_t columns, const ReplicatedOptions& options,
        DeviceCommunicator& communicator)
      : comm(communicator), n(columns), copies(options.copies), layout(a, options) {
    const ReplicatedSpmm kernel(options);
    const CsrMatrix own = layout.part(a, comm.rank());
    part = upload_part(options.kernel, kernel.params(), *kernel.pack(own), n);
    choose_algorithm(part, own.rows, own.cols, n, {});
    share = DeviceArray<float>(static_cast<std::size_t>(own.cols * n));
    others = DeviceArray<float>(
        static_cast<std::size_t>(layout.slice(comm.rank()).count * (copies - 1) * n));
    load_sum_copies();
    cuda_check(cudaDeviceSynchronize(), "uploading a part");
  }

  void exchange(const RowMoves& moves, const float* from, float* to, cudaStream_t stream) {
    exchange_rows(moves, n * static_cast<std::int64_t>(sizeof(float)),
                  reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(to), comm,
                  stream);
  }
};

ReplicatedSpmmPlan::ReplicatedSpmmPlan(const CsrMatrix& a, std::int64_t n,
                                       const ReplicatedOptions& options, DeviceCommunicator& comm) {
  validate(a);
  require(n >= 1, "B has {} columns; it needs at least one", n);
  element_count(std::max(a.rows, a.cols), n);
  require(options.parts == comm.size(), "A is in {} parts for {} ranks", options.parts,
          comm.size());
  state_ = std::make_unique<State>(a, n, options, comm);
}
ReplicatedSpmmPlan::~ReplicatedSpmmPlan() = default;

void ReplicatedSpmmPlan::run(const float* b, float* c, cudaStream_t stream) {
  gather(b, stream);
  multiply(c, stream);
  add_copies(c, stream);
}

void ReplicatedSpmmPlan::gather(const float* b, cudaStream_t stream) {
  State& s = *state_;
  const OwnPiece own = s.layout.own_piece(s.comm.rank());
  cuda_check(cudaMemcpyAsync(s.share.data() + own.place * s.n, b + own.first * s.n,
                             static_cast<std::size_t>(own.count * s.n) * sizeof(float),
                             cudaMemcpyDeviceToDevice, stream),
             "copying rows of B");
  s.exchange(s.layout.gather(s.comm.rank()), b, s.share.data(), stream);
}

void ReplicatedSpmmPlan::multiply(float* c, cudaStream_t stream) {
  State& s = *state_;
  s.part.gpu->launch(s.part.algorithm, {s.share.data(), c}, stream);
}

void ReplicatedSpmmPlan::add_copies(float* c, cudaStream_t stream) {
  State& s = *state_;
  const int rank = s.comm.rank();
  const RowRange slice = s.layout.slice(rank);
  s.exchange(s.layout.collect(rank), c, s.others.data(), stream);
  sum_copies(c + slice.first * s.n, s.others.data(), slice.count * s.n, s.layout.copy_of(rank),
             s.copies, stream);
  s.exchange(s.layout.spread(rank), c, c, stream);
}

const ReplicatedLayout& ReplicatedSpmmPlan::layout() const { return state_->layout; }

}  // namespace tessera
