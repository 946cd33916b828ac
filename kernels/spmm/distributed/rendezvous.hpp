// How the processes of a product find each other: who they are, from the environment that torchrun,
// srun or mpirun gives them, and one message from the first of them to all others.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// A process among those of one launch.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;                 // among the processes of its host
  std::string address = "127.0.0.1";  // of the host of rank 0
  int port = 29511;                   // on which rank 0 listens while processes connect
};

/// From RANK, WORLD_SIZE and LOCAL_RANK (torchrun), else SLURM_PROCID, SLURM_NTASKS and
/// SLURM_LOCALID (srun), else OMPI_COMM_WORLD_RANK, _SIZE and _LOCAL_RANK (mpirun), else PMI_RANK,
/// PMI_SIZE and MPI_LOCALRANKID (MPICH); the address from MASTER_ADDR, and the port from
/// TESSERA_PORT, else the one behind MASTER_PORT, on which torchrun itself listens. Nothing where
/// none of them is set, or where a scheduler started one process alone. Throws an Error that names
/// the variable for one that is missing beside the others, no number or out of range, and for
/// several hosts without MASTER_ADDR.
std::optional<World> world_from_environment();

/// Replaces `message` on every rank by that of rank 0; its size is the same on all of them. Waits
/// for all processes, until `limit` is over. Throws an Error, with address and port, when they do
/// not come, cannot be reached, or belong to a launch of another size.
void share(const World& world, std::vector<char>& message,
           std::chrono::seconds limit = std::chrono::seconds(60));

}  // namespace tessera
