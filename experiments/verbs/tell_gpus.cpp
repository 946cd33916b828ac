#include "experiments/verbs/tell_gpus.hpp"

#include <fmt/format.h>

#include <string>

#include "formats/base/amounts.hpp"

namespace tessera {
namespace {

std::string bytes_of(const Json& json, const char* name) {
  return bytes_text(json.at(name).get<double>());
}

void tell_exchange(const Json& exchange) {
  if (!exchange.contains("way")) return;
  std::string text =
      fmt::format("{}, {}", exchange["way"].get<std::string>(), bytes_of(exchange, "bytes"));
  if (exchange.contains("over_bound"))
    text +=
        fmt::format(", {:.3f} times the least that could be", exchange["over_bound"].get<double>());
  fmt::print("{:16} {}\n{:16} {}\n", "exchange", text, "", exchange["reason"].get<std::string>());
}

/// "NVIDIA H200, 1000 rows, 27000 nonzeros, receives 1.2 MB; own 120 us, exchange 30 us, ...".
std::string share_text(const Json& share) {
  std::string text = share.contains("gpu") ? share["gpu"].at("name").get<std::string>()
                                           : share.at("device").get<std::string>();
  text += fmt::format(", {} rows, {} nonzeros, receives {}", share.at("rows").get<std::int64_t>(),
                      share.at("nonzeros").get<std::int64_t>(), bytes_of(share, "received_bytes"));
  if (share.contains("own_us"))
    text += fmt::format("; own rows of B {}, exchange {}, received rows {}",
                        time_text(share["own_us"].get<double>()),
                        time_text(share["exchange_us"].get<double>()),
                        time_text(share["received_us"].get<double>()));
  return text;
}

}  // namespace

void tell_gpus(const Json& record) {
  if (!record.contains("gpus")) return;
  tell_exchange(record.at("exchange"));
  int rank = 0;
  for (const Json& share : record["gpus"])
    fmt::print("{:16} {}\n", fmt::format("GPU {}", rank++), share_text(share));
}

}  // namespace tessera
