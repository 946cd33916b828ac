// The time in which rows of B travel between the GPUs of a product, from bytes and rates. Plans
// choose by it what they send, and model/ predicts with it from the rates of a device file.
#pragma once

#include <algorithm>

namespace tessera {

/// The rates of one GPU's connections. 1 GB/s is 1000 bytes per microsecond.
struct ExchangeRates {
  double latency_us = 13;        // of an exchange of few bytes
  double link_gb_per_s = 390;    // each way, to and from GPUs of its host
  double network_gb_per_s = 50;  // each way, to and from GPUs of other hosts
  double copy_gb_per_s = 4086;   // of its memory, bytes read and bytes written together
};

/// What one GPU sends and receives in an exchange.
struct ExchangeBytes {
  double link_sent = 0, link_received = 0;        // to and from GPUs of its host
  double network_sent = 0, network_received = 0;  // to and from those of other hosts
  double gathered = 0;  // of the bytes sent, those that are first copied into a buffer
};

/// The time of an exchange on one GPU in microseconds: rows are gathered, then travel both ways at
/// a time, on links and network at a time. 0 where nothing is sent or received.
inline double exchange_us(const ExchangeRates& rates, const ExchangeBytes& bytes) {
  const double link = std::max(bytes.link_sent, bytes.link_received);
  const double network = std::max(bytes.network_sent, bytes.network_received);
  if (link == 0 && network == 0) return 0;
  return rates.latency_us + 2 * bytes.gathered / (1e3 * rates.copy_gb_per_s) +
         std::max(link / (1e3 * rates.link_gb_per_s), network / (1e3 * rates.network_gb_per_s));
}

/// The time of one GPU's part of a product whose exchange overlaps the product of its own rows of B
/// and ends before that of the received ones.
inline double overlapped_us(double own_us, double exchange_us, double received_us) {
  return std::max(own_us, exchange_us) + received_us;
}

}  // namespace tessera
