// How processes of one launch find each other: the environments of launchers, and a message that
// reaches every process.
#include "kernels/spmm/distributed/rendezvous.hpp"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "formats/base/check.hpp"
#include "kernels/spmm/distributed/thread_communicator.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr const char* kNames[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "SLURM_PROCID",
                                  "SLURM_NTASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_NNODES",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "MPI_LOCALRANKID",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TESSERA_PORT"};

using Variables = std::vector<std::pair<const char*, const char*>>;

/// An environment of a launcher's variables alone, until it goes out of scope.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const char* name : kNames)
      kept_.push_back(std::make_unique<EnvironmentVariable>(name, "")), unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name, value, 1);
  }

 private:
  std::vector<std::unique_ptr<EnvironmentVariable>> kept_;
};

/// A port of this host that nobody has.
int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  close(listener);
  return ntohs(address.sin_port);
}

}  // namespace

TEST_CASE("the environments of torchrun, srun and mpirun say who a process is") {
  {
    const Environment none(Variables{});
    CHECK(!world_from_environment());
  }
  {
    const Environment torchrun(Variables{{"RANK", "3"},
                                         {"WORLD_SIZE", "4"},
                                         {"LOCAL_RANK", "1"},
                                         {"MASTER_ADDR", "node7"},
                                         {"MASTER_PORT", "29500"}});
    const auto world = world_from_environment();
    REQUIRE(world);
    CHECK(world->rank == 3);
    CHECK(world->size == 4);
    CHECK(world->local_rank == 1);
    CHECK(world->address == "node7");
    CHECK(world->port == 29501);
  }
  {
    const Environment srun(Variables{{"SLURM_PROCID", "1"},
                                     {"SLURM_NTASKS", "2"},
                                     {"SLURM_LOCALID", "1"},
                                     {"SLURM_NNODES", "1"},
                                     {"TESSERA_PORT", "4242"}});
    const auto world = world_from_environment();
    REQUIRE(world);
    CHECK(world->rank == 1);
    CHECK(world->address == "127.0.0.1");
    CHECK(world->port == 4242);
  }
  {
    const Environment mpirun(Variables{{"OMPI_COMM_WORLD_RANK", "0"},
                                       {"OMPI_COMM_WORLD_SIZE", "2"},
                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
    CHECK(world_from_environment()->size == 2);
  }
  {
    const Environment alone(
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_LOCALID", "0"}});
    CHECK(!world_from_environment());
  }
}

TEST_CASE("an environment that contradicts itself is refused with the variable") {
  {
    const Environment missing(Variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}});
    CHECK_THROWS_WITH_AS(world_from_environment(), "$RANK is set, but $LOCAL_RANK is not", Error);
  }
  {
    const Environment beyond(Variables{{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}});
    CHECK_THROWS_WITH_AS(world_from_environment(), "$RANK is 2, but $WORLD_SIZE is 2", Error);
  }
  {
    const Environment text(Variables{{"RANK", "first"}});
    CHECK_THROWS_WITH_AS(world_from_environment(), "$RANK is 'first', not a number from 0 on",
                         Error);
  }
  {
    const Environment hosts(Variables{{"SLURM_PROCID", "0"},
                                      {"SLURM_NTASKS", "2"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_NNODES", "2"}});
    CHECK_THROWS_WITH_AS(world_from_environment(),
                         "2 hosts need $MASTER_ADDR, the address of the one with rank 0", Error);
  }
}

TEST_CASE("the message of rank 0 reaches every process, whatever else connects to its port") {
  World world{.size = 4, .port = free_port()};
  std::vector<std::string> heard(4);
  run_ranks(
      5,
      [&](int rank) {
        if (rank == 4) {  // not of the launch
          for (int i = 0; i < 20; ++i) {
            const int stranger = socket(AF_INET, SOCK_STREAM, 0);
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_port = htons(static_cast<std::uint16_t>(world.port));
            address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            if (connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
              (void)!write(stranger, "GET / HTTP/1.1\r\n\r\n", 18);
            close(stranger);
          }
          return;
        }
        World own = world;
        own.rank = rank;
        const std::string text = rank == 0 ? "the id of a launch" : std::string(18, '-');
        std::vector<char> message(text.begin(), text.end());
        share(own, message, std::chrono::seconds(20));
        heard[static_cast<std::size_t>(rank)] = {message.begin(), message.end()};
      },
      [](int) {});
  for (const std::string& text : heard) CHECK(text == "the id of a launch");
}

TEST_CASE("processes that are missing, and launches of another size, are told apart") {
  World world{.size = 3, .port = free_port()};
  std::vector<char> message(4);
  CHECK_THROWS_WITH_AS(
      share(world, message, std::chrono::seconds(0)),
      fmt::format("1 of 3 processes came to 127.0.0.1:{} in time", world.port).c_str(), Error);
  World second = world;
  second.rank = 1;
  CHECK_THROWS_AS(share(second, message, std::chrono::seconds(0)), Error);
  CHECK_THROWS_AS(run_ranks(
                      2,
                      [&](int rank) {
                        World own{.rank = rank, .size = rank == 0 ? 3 : 2, .port = world.port};
                        std::vector<char> four(4);
                        share(own, four, std::chrono::seconds(2));
                      },
                      [](int) {}),
                  Error);
}

}  // namespace tessera
