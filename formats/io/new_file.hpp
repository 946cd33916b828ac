// A file that is written beside its place and then takes it at once, whole.
#pragma once

#include <string>

namespace tessera {

/// The new content of a file, until keep() in a folder of its own beside the file. Nobody else can
/// put a link there: the folder is made anew under a name that nobody can guess, and only this user
/// enters it. A process that is killed leaves the folder; the next one that writes beside it
/// removes it.
class NewFile {
 public:
  /// Throws an Error that names the path when its folder cannot be written.
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// The name under which to write; its last part is that of the final path.
  const std::string& path() const { return beside_; }

  /// Moves the file to its final path. Throws an Error that names the path when it cannot.
  void keep();

 private:
  std::string final_;
  std::string folder_;
  std::string beside_;
  int lock_ = -1;  // held on the folder: it is in use
};

}  // namespace tessera
