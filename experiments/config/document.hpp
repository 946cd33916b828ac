// A TOML document that remembers: where everything stands, and in which order it was written.
//
// toml++ parses; its tables are sorted by key, so the written order is recovered from the source
// positions. On top of it: `include` (depth first, relative to the including file) and --set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/points/point.hpp"

namespace tessera {

/// The place of a value in a file, for messages: "configs/quickstart.toml:12:3", or "--set a.b".
using SourceLocation = std::string;

struct Node {
  enum class Kind { kScalar, kArray, kTable };
  Kind kind = Kind::kTable;
  Json scalar = {};               // string, integer, double or bool; kScalar only
  std::vector<Node> items = {};   // of an array; members of a table, in written order
  std::string key = {};           // of a table's member
  SourceLocation key_place = {};  // of a table's member
  SourceLocation place = {};      // of the value

  const Node* find(std::string_view member) const;
  Json to_json() const;
  std::string describe() const;  // "a table", "a list", "'text'", "12": what was found instead
};

/// A document with its includes merged in.
struct Document {
  Node root;
  std::vector<Node> sets;  // the [set] tables of all files, which are not part of root
};

/// Reads a file and what it includes, each file once. Included keys come first; the including
/// file's own tables are merged over them, its scalars and lists replace theirs, and its
/// [[arrays of tables]] are appended to theirs; a [table.NAME] for an array of tables is merged
/// over the element of that id, name or number. Throws an Error "file:line:column: ..." for broken
/// TOML, a missing or circular include and a file that is not `schema = 1`.
Document load_document(const std::string& path);

/// Merges the table [without.<lack>] over the document, by the rules of includes.
void apply_without(Node& root, const std::string& lack);

/// "a.b=v": replaces or adds a single key, v as TOML; a bare word is text. An element of a list is
/// named by its number ("figure.0.title"), its id or its name, a key with a dot is quoted (as in
/// 'grid."kernel.n"=x').
void apply_set(Node& root, const std::string& set);

}  // namespace tessera
