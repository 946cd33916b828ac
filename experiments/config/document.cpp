#include "experiments/config/document.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/escaped.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int kMostKeyParts = 100;
constexpr std::size_t kMostNestedIncludes = 100;

SourceLocation place_of(const toml::source_region& region, const std::string& file) {
  return fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column);
}

/// Refuses what steers a terminal: titles, labels and columns go into messages, tables and figures.
void check_text(const std::string& text, const SourceLocation& place) {
  std::string without_tabs = text;
  std::erase(without_tabs, '\t');
  require(escaped_lines(without_tabs) == without_tabs,
          "{}: '{}' holds control characters, which mean nothing here", place, escaped(text));
}

Node to_node(const toml::node& from, const std::string& file) {
  Node node;
  node.place = place_of(from.source(), file);
  if (const toml::table* table = from.as_table()) {
    std::vector<std::pair<const toml::key*, const toml::node*>> members;
    for (const auto& [key, value] : *table) members.emplace_back(&key, &value);
    std::ranges::sort(members, {}, [](const auto& member) {
      const toml::source_position& at = member.first->source().begin;
      return std::pair(at.line, at.column);
    });
    for (const auto& [key, value] : members) {
      Node& member = node.items.emplace_back(to_node(*value, file));
      member.key = key->str();
      member.key_place = place_of(key->source(), file);
      check_text(member.key, member.key_place);
    }
    return node;
  }
  if (const toml::array* array = from.as_array()) {
    node.kind = Node::Kind::kArray;
    for (const toml::node& item : *array) node.items.push_back(to_node(item, file));
    return node;
  }
  node.kind = Node::Kind::kScalar;
  if (const auto* text = from.as_string()) {
    check_text(text->get(), node.place);
    node.scalar = text->get();
  } else if (const auto* integer = from.as_integer())
    node.scalar = integer->get();
  else if (const auto* flag = from.as_boolean())
    node.scalar = flag->get();
  else if (const auto* number = from.as_floating_point(); number && std::isfinite(number->get()))
    node.scalar = number->get();
  else
    throw Error(fmt::format("{}: a date, a time, inf or nan means nothing here", node.place));
  return node;
}

/// The place behind the string that opens at `begin`, or the end of the text.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string_view three = text.substr(begin, 3);
  const bool is_long = three == "\"\"\"" || three == "'''";
  const std::string_view close = is_long ? three : three.substr(0, 1);
  for (std::size_t at = begin + close.size(); at < text.size(); ++at) {
    if (text.substr(at, close.size()) == close) return at + close.size();
    if (text[at] == '\n' && !is_long) return at;
    if (text[at] == '\\' && quote == '"') ++at;
  }
  return text.size();
}

/// Refuses keys of very many parts, a.b.c: every part is a level of tables, and whatever walks
/// through them, the parser's destructors too, uses the stack.
void check_key_parts(std::string_view text, const std::string& file) {
  int line = 1, dots = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const std::size_t end = end_of_string(text, at);
      line += static_cast<int>(std::ranges::count(text.substr(at, end - at), '\n'));
      at = end - 1;
    } else if (c == '#') {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else if (c == '.') {
      require(++dots < kMostKeyParts, "{}:{}: a key has at most {} parts", file, line,
              kMostKeyParts);
    } else if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) {
      dots = 0;
      line += c == '\n' ? 1 : 0;
    }
  }
}

Node parse(const std::string& text, const std::string& file) {
  check_key_parts(text, file);
  try {
    return to_node(toml::parse(text, file), file);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}: {}", place_of(error.source(), file), error.description()));
  }
}

Node* find_member(Node& table, std::string_view key) {
  const auto found = std::ranges::find(table.items, key, &Node::key);
  return found == table.items.end() ? nullptr : &*found;
}

Node take_member(Node& table, std::string_view key) {
  const auto found = std::ranges::find(table.items, key, &Node::key);
  if (found == table.items.end()) return {};
  Node member = std::move(*found);
  table.items.erase(found);
  return member;
}

bool is_table_array(const Node& node) {
  return node.kind == Node::Kind::kArray && !node.items.empty() &&
         std::ranges::all_of(node.items,
                             [](const Node& item) { return item.kind == Node::Kind::kTable; });
}

/// The element of a list whose number, id or name that is; null when there is none.
Node* find_element(Node& list, const std::string& key) {
  std::size_t index = 0;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data(), end, index);
  if (error == std::errc() && stop == end)
    return index < list.items.size() ? &list.items[index] : nullptr;
  for (const char* naming : {"id", "name"})
    for (Node& item : list.items)
      if (const Node* name = item.find(naming); name != nullptr && name->scalar == Json(key))
        return &item;
  return nullptr;
}

Node& element(Node& list, const std::string& key, const SourceLocation& place) {
  Node* found = find_element(list, key);
  require(found != nullptr,
          "{}: '{}' is neither the number nor the name of one of the {} elements of '{}'", place,
          key, list.items.size(), list.key);
  return *found;
}

/// `append_tables`: [[arrays of tables]] at this level are appended to instead of replaced, and a
/// table for one of them has elements of it.
void merge(Node& base, Node over, bool append_tables) {
  for (Node& member : over.items) {
    Node* present = find_member(base, member.key);
    if (present == nullptr)
      base.items.push_back(std::move(member));
    else if (present->kind == Node::Kind::kTable && member.kind == Node::Kind::kTable)
      merge(*present, std::move(member), false);
    else if (append_tables && is_table_array(*present) && is_table_array(member))
      std::ranges::move(member.items, std::back_inserter(present->items));
    else if (append_tables && is_table_array(*present) && member.kind == Node::Kind::kTable)
      for (Node& change : member.items) {
        Node& changed = element(*present, change.key, change.key_place);
        merge(changed, std::move(change), false);
      }
    else
      *present = std::move(member);
  }
}

/// Reads files depth first into one document.
class Loader {
 public:
  void load(const std::string& path, const std::string& blame) {
    const std::string identity = fs::weakly_canonical(path).string();
    const auto open = std::ranges::find(chain_, identity, &Link::identity);
    if (open != chain_.end()) {
      std::string names;
      for (auto link = open; link != chain_.end(); ++link) names += link->path + " -> ";
      throw Error(fmt::format("{}circular include: {}{}", blame, names, path));
    }
    if (std::ranges::find(done_, identity) != done_.end()) return;
    require(chain_.size() < kMostNestedIncludes, "{}more than {} files include each other", blame,
            kMostNestedIncludes);
    require(fs::is_regular_file(path), "{}{}: there is no such file", blame, path);
    chain_.push_back({identity, path});
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    require(!file.bad(), "{}{}: it cannot be read", blame, path);
    add(parse(text, path), path);
    chain_.pop_back();
    done_.push_back(identity);
  }

  Document document;

 private:
  struct Link {
    std::string identity;
    std::string path;
  };

  void add(Node root, const std::string& path) {
    const Node* schema = root.find("schema");
    require(schema != nullptr, "{}:1:1: 'schema = 1' is missing", path);
    require(schema->kind == Node::Kind::kScalar && schema->scalar == Json(1),
            "{}: schema has to be 1, not {}", schema->place, schema->describe());
    Node include = take_member(root, "include");
    require(include.kind == Node::Kind::kArray || include.key.empty(),
            "{}: include takes a list of files, not {}", include.place, include.describe());
    for (const Node& item : include.items) {
      require(item.scalar.is_string(), "{}: include takes the path of a file, not {}", item.place,
              item.describe());
      load((fs::path(path).parent_path() / item.scalar.get<std::string>()).string(),
           item.place + ": include: ");
    }
    Node set = take_member(root, "set");
    if (!set.key.empty()) document.sets.push_back(std::move(set));
    merge(document.root, std::move(root), true);
  }

  std::vector<Link> chain_;        // files being read, the outermost first
  std::vector<std::string> done_;  // files read
};

/// Descends from `node` into what the chain of keys in `path` names, adding tables on the way, and
/// puts `value` there.
void put(Node& node, const Node& path, Node value, const SourceLocation& place) {
  const Node& step = path.items.front();
  Node* next = nullptr;
  if (node.kind == Node::Kind::kArray) {
    next = &element(node, step.key, place);
  } else {
    require(node.kind == Node::Kind::kTable,
            "{}: '{}' holds {}, so there is no '{}' in it (a key with a dot needs quotes)", place,
            node.key, node.describe(), step.key);
    next = find_member(node, step.key);
    if (next == nullptr) next = &node.items.emplace_back();
  }
  const bool last = step.kind == Node::Kind::kScalar;
  const bool is_new = next->key.empty() && node.kind == Node::Kind::kTable;
  if (last)
    *next = std::move(value);
  else
    put(*next, step, std::move(value), place);
  if (node.kind == Node::Kind::kTable) next->key = step.key;
  if (last || is_new) next->key_place = next->place = place;
}

void set_places(Node& node, const SourceLocation& place) {
  node.key_place = node.place = place;
  for (Node& item : node.items) set_places(item, place);
}

/// The value of a --set: TOML, or a bare word as text.
Node parse_value(const std::string& value, const std::string& blame) {
  const bool is_word =
      value.empty() || std::string_view("[{\"'+-.0123456789").find(value[0]) == std::string::npos;
  const auto parsed = [&](const std::string& toml) {
    Node table = parse("value = " + toml, blame);
    return take_member(table, "value");
  };
  if (value == "true" || value == "false") return parsed(value);
  if (!is_word) {
    try {
      return parsed(value);
    } catch (const Error&) {
      // A word may start like a number: "2cubes_sphere", "../data/a.mtx".
      if (std::string_view("[{\"'").find(value[0]) != std::string::npos) throw;
    }
  }
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return parsed(quoted + "\"");
}

}  // namespace

const Node* Node::find(std::string_view member) const {
  const auto found = std::ranges::find(items, member, &Node::key);
  return kind != Kind::kTable || found == items.end() ? nullptr : &*found;
}

Json Node::to_json() const {
  if (kind == Kind::kScalar) return scalar;
  Json json = kind == Kind::kArray ? Json::array() : Json::object();
  for (const Node& item : items) {
    if (kind == Kind::kArray)
      json.push_back(item.to_json());
    else
      json[item.key] = item.to_json();
  }
  return json;
}

std::string Node::describe() const {
  if (kind == Kind::kTable) return "a table";
  if (kind == Kind::kArray) return items.empty() ? "an empty list" : "a list";
  return scalar.is_string() ? fmt::format("'{}'", scalar.get<std::string>()) : scalar.dump();
}

Document load_document(const std::string& path) {
  Loader loader;
  loader.load(path, "");
  return std::move(loader.document);
}

void apply_without(Node& root, const std::string& lack) {
  const Node* without = root.find("without");
  const Node* changes = without == nullptr ? nullptr : without->find(lack);
  if (changes == nullptr) return;
  require(changes->kind == Node::Kind::kTable, "{}: [without.{}] takes a table, not {}",
          changes->place, lack, changes->describe());
  merge(root, Node(*changes), true);
}

void apply_set(Node& root, const std::string& set) {
  const std::size_t equals = set.find('=');
  require(equals != std::string::npos && equals > 0 && set.find('\n') == std::string::npos,
          "--set {}: 'key=value' was expected", set);
  const SourceLocation place = "--set " + set.substr(0, equals);
  Node path = parse(set.substr(0, equals) + " = 0", place);
  require(path.items.size() == 1, "{}: a key was expected", place);
  Node value = parse_value(set.substr(equals + 1), place);
  require(!value.key.empty(), "{}: a value was expected", place);
  set_places(value, place);
  put(root, path, std::move(value), place);
}

}  // namespace tessera
