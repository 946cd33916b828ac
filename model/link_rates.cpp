#include "model/link_rates.hpp"

namespace tessera {

ExchangeRates exchange_rates(const Device& device) {
  return {.latency_us = device.value("link_latency"),
          .link_gb_per_s = device.value("link_bandwidth"),
          .network_gb_per_s = device.value("network_bandwidth"),
          .copy_gb_per_s = device.value("dram_copy_bandwidth")};
}

int gpus_per_host(const Device& device) { return static_cast<int>(device.value("gpus_per_host")); }

}  // namespace tessera
