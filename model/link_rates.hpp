// The rates at which GPUs of a described device exchange rows of B.
#pragma once

#include "formats/base/exchange_time.hpp"
#include "model/device.hpp"

namespace tessera {

/// From the device's file. Throws Unsupported for a device whose file has no links.
ExchangeRates exchange_rates(const Device& device);

/// The GPUs of one host, which links connect; others are reached by the network. Throws likewise.
int gpus_per_host(const Device& device);

}  // namespace tessera
