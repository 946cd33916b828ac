#include "kernels/spmm/distributed/distributed_spmm.hpp"

#include <algorithm>
#include <cstddef>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/distributed/stored_rows.hpp"
#include "kernels/storage.hpp"

namespace tessera {
namespace {

/// The types of the kernel's B and C.
Storage storage_of(const DistributedOptions& options) {
  const auto& kernels = Registry<SpmmKernel>::instance();
  return kernels.make(options.kernel, kernels.resolve(options.kernel, options.params))
      ->arithmetic()
      .storage;
}

std::vector<std::int32_t> rows_of_parts(const CsrMatrix& a, std::int64_t n,
                                        const DistributedOptions& options) {
  if (!options.of_row.empty()) return options.of_row;
  if (options.balance == Balance::kTime) try {
      const Params params =
          Registry<SpmmKernel>::instance().resolve(options.kernel, options.params);
      return contiguous_parts(time_costs(a, n, options.kernel, params), options.parts);
    } catch (const Unsupported&) {
      // Without a formula nonzeros stand for time.
    }
  return contiguous_parts(nonzero_costs(a), options.parts);
}

/// The time of the slowest part's exchange.
double slowest_us(const ExchangeLists& lists, std::int64_t row_bytes, bool gathers,
                  const DistributedOptions& options) {
  double slowest = 0;
  for (int part = 0; part < lists.parts(); ++part)
    slowest = std::max(
        slowest, exchange_us(options.rates,
                             bytes_of_part(lists, part, row_bytes, gathers, options.gpus_of_host)));
  return slowest;
}

bool follow_each_other(const std::vector<std::int32_t>& rows) {
  return rows.empty() || rows.back() - rows.front() + 1 == std::ssize(rows);
}

}  // namespace

ExchangeBytes bytes_of_part(const ExchangeLists& lists, int part, std::int64_t row_bytes,
                            bool gathers, int gpus_of_host) {
  ExchangeBytes bytes;
  const auto of = [&](const std::vector<std::int32_t>& rows) {
    return static_cast<double>(std::ssize(rows) * row_bytes);
  };
  for (int peer = 0; peer < lists.parts(); ++peer) {
    const bool is_near = peer / gpus_of_host == part / gpus_of_host;
    (is_near ? bytes.link_sent : bytes.network_sent) += of(lists.rows(peer, part));
    (is_near ? bytes.link_received : bytes.network_received) += of(lists.rows(part, peer));
    if (gathers && !follow_each_other(lists.rows(peer, part)))
      bytes.gathered += of(lists.rows(peer, part));
  }
  return bytes;
}

Distribution distribute(const CsrMatrix& a, std::int64_t n, const DistributedOptions& options) {
  require(options.parts >= 1, "a product on {} GPUs was asked for; it needs at least one",
          options.parts);
  require(options.gpus_of_host >= 1, "a host has {} GPUs; it needs at least one",
          options.gpus_of_host);
  RowPartition partition = make_partition(a, rows_of_parts(a, n, options), options.parts);
  ExchangeLists needed = needed_rows(a, partition);
  ExchangeLists all = all_rows(partition, needed);
  const ElementType type = storage_of(options).b;
  const std::int64_t row_bytes = static_cast<std::int64_t>(bytes_of(type)) * n;
  const double needed_us = slowest_us(needed, row_bytes, true, options),
               replicated_us = slowest_us(all, row_bytes, false, options);
  const Exchange exchange = options.exchange.value_or(
      replicated_us < needed_us ? Exchange::kReplicated : Exchange::kNeeded);
  std::string reason = fmt::format(
      "{} rows of B have to travel, in {:.0f} us; all {} would in {:.0f} us{}", needed.volume(),
      needed_us, all.volume(), replicated_us, options.exchange ? "; the choice was given" : "");
  const bool all_travel = exchange != Exchange::kNeeded;
  return {.partition = std::move(partition),
          .needed = needed,
          .travelling = all_travel ? std::move(all) : std::move(needed),
          .exchange = exchange,
          .reason = std::move(reason),
          .needed_us = needed_us,
          .replicated_us = replicated_us,
          .b = type,
          .row_bytes = row_bytes};
}

PartOfProduct part_of(const CsrMatrix& a, const Distribution& distribution, int part) {
  const RowPartition& partition = distribution.partition;
  if (distribution.exchange != Exchange::kGathered)
    return split(a, partition, distribution.travelling, part);
  return {.part = part,
          .rows = members_of(partition.of_row, partition.parts)[static_cast<std::size_t>(part)],
          .b_rows = members_of(partition.of_col, partition.parts)[static_cast<std::size_t>(part)],
          .local = rows_of_part(a, partition, part)};
}

DenseMatrix own_rows(const DenseMatrix& b, const PartOfProduct& part) {
  return rows_of(b, part.b_rows);
}

std::int64_t first_if_contiguous(const std::vector<std::int32_t>& sent_rows,
                                 const PeerRows& block) {
  const auto first = static_cast<std::size_t>(block.first);
  const auto last = first + static_cast<std::size_t>(block.count) - 1;
  return sent_rows[last] - sent_rows[first] + 1 == block.count ? sent_rows[first] : -1;
}

DenseMatrix exchange_on_host(const Distribution& distribution, const PartOfProduct& part,
                             const DenseMatrix& own, Communicator& comm) {
  const ElementType type = distribution.b;
  if (distribution.exchange == Exchange::kGathered) {
    const auto& of_col = distribution.partition.of_col;
    DenseMatrix all(std::ssize(of_col), own.cols);
    std::vector<std::int64_t> bytes;
    std::int64_t first = 0;  // of this part's rows
    for (int rank = 0; rank < comm.size(); ++rank) {
      const std::int64_t rows = std::ranges::count(of_col, rank);
      if (rank < part.part) first += rows;
      bytes.push_back(rows * distribution.row_bytes);
    }
    std::vector<std::byte> memory(of_col.size() * static_cast<std::size_t>(distribution.row_bytes));
    std::ranges::copy(bytes_in(type, own.values), memory.begin() + first * distribution.row_bytes);
    comm.all_gather(bytes, memory.data(), nullptr);
    read_from(type, memory, all.values);
    return all;
  }
  const std::vector<std::byte> sent = bytes_in(type, rows_of(own, part.sent_rows).values);
  DenseMatrix received(part.remote.cols, own.cols);
  std::vector<std::byte> memory(static_cast<std::size_t>(received.rows * distribution.row_bytes));
  std::vector<OutgoingBlock> sends;
  std::vector<IncomingBlock> receives;
  for (const PeerRows& block : part.sends)
    sends.push_back({block.peer, sent.data() + block.first * distribution.row_bytes,
                     block.count * distribution.row_bytes});
  for (const PeerRows& block : part.receives)
    receives.push_back({block.peer, memory.data() + block.first * distribution.row_bytes,
                        block.count * distribution.row_bytes});
  comm.exchange(sends, receives, nullptr);
  read_from(type, memory, received.values);
  return received;
}

DistributedSpmm::DistributedSpmm(DistributedOptions options, std::int64_t n)
    : options_(std::move(options)),
      n_(n),
      params_(Registry<SpmmKernel>::instance().resolve(options_.kernel, options_.params)),
      kernel_(Registry<SpmmKernel>::instance().make(options_.kernel, params_)),
      format_(Registry<Format>::instance().make(kernel_->format(), options_.format)) {}

Arithmetic DistributedSpmm::arithmetic() const {
  Arithmetic found = kernel_->arithmetic();
  if (options_.parts > 1 && options_.exchange != Exchange::kGathered) found.roundings_of_c = 2;
  return found;
}

std::string DistributedSpmm::format() const { return CsrPacked::kFormat; }

std::unique_ptr<PackedMatrix> DistributedSpmm::pack(const CsrMatrix& matrix) const {
  return format_->pack(matrix);
}

std::vector<std::int64_t> DistributedSpmm::terms_per_row(const PackedMatrix& packed) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  const Distribution distribution = distribute(a, n_, options_);
  std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows));
  for (int number = 0; number < options_.parts; ++number) {
    const PartOfProduct part = part_of(a, distribution, number);
    const auto add = [&](const CsrMatrix& matrix, auto row_of) {
      const auto of_rows = kernel_->terms_per_row(*pack(matrix));
      for (std::size_t i = 0; i < of_rows.size(); ++i)
        terms[static_cast<std::size_t>(part.rows[row_of(i)])] += of_rows[i];
    };
    add(part.local, [](std::size_t i) { return i; });
    if (part.remote.rows == 0) continue;
    add(part.remote, [&](std::size_t i) { return static_cast<std::size_t>(part.remote_rows[i]); });
    for (const std::int32_t row : part.remote_rows)
      ++terms[static_cast<std::size_t>(part.rows[static_cast<std::size_t>(row)])];
  }
  return terms;
}

DenseMatrix DistributedSpmm::emulate_part(const PartOfProduct& part, const DenseMatrix& b,
                                          const DenseMatrix& received, const Generation& generation,
                                          const Scaling& scaling, const DenseMatrix& old_c) const {
  const auto product = [&](const CsrMatrix& a, const DenseMatrix& rows, const Scaling& with,
                           const DenseMatrix& old) {
    std::vector<DenseMatrix> results =
        kernel_->emulate_scaled(*pack(a), rows, generation, with, old);
    require<Unsupported>(results.size() == 1, "{} adds sums to beta C in no fixed order",
                         options_.kernel);
    return std::move(results.front());
  };
  DenseMatrix c = product(part.local, b, scaling, old_c);
  if (part.remote.rows == 0) return c;
  const DenseMatrix sums =
      product(part.remote, received, {scaling.alpha, 1}, rows_of(c, part.remote_rows));
  for (std::int64_t i = 0; i < sums.rows; ++i)
    std::ranges::copy(sums.row(i), c.row(part.remote_rows[static_cast<std::size_t>(i)]).begin());
  return c;
}

DenseMatrix DistributedSpmm::emulate(const PackedMatrix& packed, const DenseMatrix& b,
                                     const Generation& generation) const {
  const DenseMatrix not_read(packed_as<CsrPacked>(packed).matrix.rows, b.cols);
  return std::move(emulate_scaled(packed, b, generation, {}, not_read).front());
}

std::vector<DenseMatrix> DistributedSpmm::emulate_scaled(const PackedMatrix& packed,
                                                         const DenseMatrix& b,
                                                         const Generation& generation,
                                                         const Scaling& scaling,
                                                         const DenseMatrix& old_c) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  require(old_c.rows == a.rows && old_c.cols == b.cols, "C is {} x {}, but has to be {} x {}",
          old_c.rows, old_c.cols, a.rows, b.cols);
  require(b.rows == a.cols && b.cols == n_, "B is {} x {}, but has to be {} x {}", b.rows, b.cols,
          a.cols, n_);
  const Distribution distribution = distribute(a, n_, options_);
  const auto owned = members_of(distribution.partition.of_col, options_.parts);
  std::vector<std::int32_t> in_order_of_parts;
  for (const auto& rows : owned)
    in_order_of_parts.insert(in_order_of_parts.end(), rows.begin(), rows.end());
  DenseMatrix c(a.rows, b.cols);
  for (int number = 0; number < options_.parts; ++number) {
    const PartOfProduct part = part_of(a, distribution, number);
    std::vector<std::int32_t> received;
    for (const PeerRows& block : part.receives) {
      const auto& rows = distribution.travelling.rows(number, block.peer);
      received.insert(received.end(), rows.begin(), rows.end());
    }
    const DenseMatrix multiplied = distribution.exchange == Exchange::kGathered
                                       ? rows_of(b, in_order_of_parts)
                                       : own_rows(b, part);
    const DenseMatrix of_part = emulate_part(part, multiplied, rows_of(b, received), generation,
                                             scaling, rows_of(old_c, part.rows));
    for (std::size_t i = 0; i < part.rows.size(); ++i)
      std::ranges::copy(of_part.row(static_cast<std::int64_t>(i)), c.row(part.rows[i]).begin());
  }
  return {std::move(c)};
}

}  // namespace tessera
