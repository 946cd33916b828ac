// `tessera matrix fetch` resolves names and sets, shows the sizes of the downloads, and downloads.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct FetchRequest {
  std::vector<std::string> names;  // GROUP/NAME, snap/NAME, a name of the shipped sets, or @SET
  std::string sha256;              // of the only file, where the user knows it
  std::string mirror;              // base URL in place of the collections' own
  bool dry_run = false;            // shows the list only
};

/// Lists what each name is, with the bytes to download, then downloads one after another; a file
/// that fails does not keep the others from being fetched. Returns the exit code. Throws an Error
/// for a name or a set that nobody knows.
int fetch_matrices(const FetchRequest& request);

}  // namespace tessera
