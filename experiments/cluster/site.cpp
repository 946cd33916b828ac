#include "experiments/cluster/site.hpp"

#include "experiments/config/table_reader.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// A line break in a value would add a line of its own to a script.
void refuse_line_breaks(const Node& node) {
  if (node.scalar.is_string())
    require(node.scalar.get_ref<const std::string&>().find('\n') == std::string::npos,
            "{}: a value of a site file has one line", node.place);
  for (const Node& item : node.items) refuse_line_breaks(item);
}

void require_at_least(std::int64_t value, std::int64_t least, const TableReader& reader,
                      const char* key) {
  require(value >= least, "{}: {} takes {} or more, not {}", reader.place(), key, least, value);
}

SlurmSite read_slurm(const Node& node) {
  TableReader reader(node, "[slurm]");
  SlurmSite slurm;
  reader.read("partition", slurm.partition);
  reader.read("merge_partition", slurm.merge_partition);
  reader.read("account", slurm.account);
  reader.read("qos", slurm.qos);
  reader.read("time", slurm.time);
  reader.read("gres", slurm.gres);
  reader.read("cpus", slurm.cpus);
  reader.read("memory", slurm.memory);
  reader.read("constraint", slurm.constraint);
  reader.read("at_once", slurm.at_once);
  reader.read("options", slurm.options);
  reader.refuse_unknown();
  require_at_least(slurm.cpus, 0, reader, "cpus");
  require_at_least(slurm.at_once, 0, reader, "at_once");
  if (slurm.merge_partition.empty()) slurm.merge_partition = slurm.partition;
  return slurm;
}

HyperQueueSite read_hyperqueue(const Node& node) {
  TableReader reader(node, "[hyperqueue]");
  HyperQueueSite hyperqueue;
  reader.read("cpus", hyperqueue.cpus);
  reader.read("gpus", hyperqueue.gpus);
  reader.read("time", hyperqueue.time);
  reader.refuse_unknown();
  require_at_least(hyperqueue.cpus, 1, reader, "cpus");
  require_at_least(hyperqueue.gpus, 0, reader, "gpus");
  return hyperqueue;
}

}  // namespace

Site read_site(const std::string& path) {
  Site site;
  if (path.empty()) return site;
  const Document document = load_document(path);
  refuse_line_breaks(document.root);
  TableReader reader(document.root, "the site file");
  reader.find("schema");  // load_document() has read it
  reader.read("program", site.program);
  reader.read("container", site.container);
  reader.read("container_command", site.container_command);
  reader.read("setup", site.setup);
  if (const Node* slurm = reader.find("slurm")) site.slurm = read_slurm(*slurm);
  if (const Node* hyperqueue = reader.find("hyperqueue"))
    site.hyperqueue = read_hyperqueue(*hyperqueue);
  reader.refuse_unknown();
  return site;
}

}  // namespace tessera
