#include "experiments/config/keys.hpp"

#include <algorithm>
#include <stdexcept>

#include "experiments/config/figure_kinds.hpp"
#include "experiments/points/point.hpp"

namespace tessera {
namespace {

using enum KeyType;

constexpr ConfigKey kRoot[] = {
    {"schema", kInteger, "required", "", "1: the version of this schema"},
    {"include", kTexts, "", "",
     "files that are read first, by paths relative to this one; keys here override theirs, and "
     "[[lists of tables]] are appended to theirs"},
    {"experiment", kTable, "required", "", "what the experiment is"},
    {"without", kTable, "", "", "changes for a machine that lacks a GPU or the files of matrices"},
    {"grid", kTable, "", "", "axes of which every combination runs"},
    {"zip", kTables, "", "", "axes that move together"},
    {"case", kTables, "", "", "named settings, one after the other"},
    {"ablation", kTable, "", "", "a base and named steps"},
    {"check", kTable, "", "", "the comparison of C with fp64"},
    {"statistics", kTable, "", "", "what packed matrices also count"},
    {"measure", kTable, "", "", "how launches are timed"},
    {"simulate", kTable, "", "", "how launches are simulated"},
    {"counters", kTable, "", "", "hardware counters that are read"},
    {"join", kTables, "", "", "columns of other rows of the same case"},
    {"derive", kTables, "", "", "columns computed from others"},
    {"unfold", kTables, "", "", "rows of the bins of a histogram"},
    {"reduce", kTables, "", "", "the best row of a group"},
    {"table", kTable, "", "", "the table at the end of a run"},
    {"figure", kTables, "", "", "the figures that `tessera figure` draws"},
    {"expect", kTables, "", "", "published numbers that the rows are held against"},
};

constexpr ConfigKey kExperiment[] = {
    {"id", kText, "required", "", "name of the experiment and of its folder in `out/`"},
    {"title", kText, "(the id)", "", "its title, for people"},
    {"question", kText, "", "", "the question that it answers, one sentence"},
    {"paper", kText, "", "", "the paper that it follows"},
    {"figure", kText, "", "", "the figure or table of the paper: \"Figure 15\""},
    {"minutes", kNumber, "0.0", "min",
     "time that `tessera run` takes on two cores without a GPU and without files of matrices"},
    {"gpu_only", kText, "", "", "why nothing can stand in for a GPU, where that is so"},
    {"seed", kInteger, "42", "", "seed of B and of all drawn values"},
    {"timeout_s", kNumber, "600.0", "s", "time after which a point counts as failed"},
    {"launch_timeout_s", kNumber, "60.0", "s",
     "time after which a launch on a GPU counts as hanging, and its point as failed"},
    {"backends", kTexts, "required", "", "backends that run every point (`tessera list backends`)"},
};

constexpr ConfigKey kWithout[] = {
    {"gpu", kTable, "", "", "applied where no GPU can run the backends that need one"},
    {"data", kTable, "", "", "applied where none of the config's files of matrices is found"},
};

constexpr ConfigKey kGrid[] = {
    {"matrix", kSetting, "required", "",
     "file, bare name of one in a folder of `$TESSERA_DATA`, generator `rmat(scale=10)`, or "
     "`\"@set\"`, a file of `experiments/configs/sets/`"},
    {"n", kInteger, "128", "",
     "columns of the dense operands: of B, or of the X and Y of an SDDMM (its K)"},
    {"seed", kInteger, "(experiment.seed)", "", "seed of B, or X and Y, and of all drawn values"},
    {"right", kSetting, "\"self\"", "",
     "a sparse B, for kernels of two sparse factors: `\"self\"` (C = A A), `\"transpose\"` (C = A "
     "A^T) or another matrix"},
    {"mask", kSetting, "(none)", "",
     "the cells that a sparse C has, for the same kernels: those of `\"self\"`, A, or of another "
     "matrix"},
    {"values", kSetting, "\"auto\"", "", "value family of all operands (`tessera list values`)"},
    {"reorder", kSetting, "\"none\"", "", "order of A (`tessera list reorderings`)"},
    {"format", kSetting, "(the kernel's)", "", "format of A (`tessera list formats`)"},
    {"kernel", kSetting, "required", "",
     "kernel of a product (`tessera list kernels`); `\"auto\"` takes the advisor's choice, which "
     "the record names"},
    {"as", kSetting, "\"default\"", "",
     "`\"published\"`: the kernel with the choices of its paper below those that the config gives"},
    {"device", kSetting, "\"h200\"", "", "described device, a file of `model/devices/`"},
    {"model", kSetting, "\"roofline\"", "", "model of the backend `model` (`tessera list models`)"},
    {"l2", kSetting, "(measure.l2)", "", "state of the L2 cache before a launch"},
    {"threads", kInteger, "0", "", "CPU threads of the backend `reorder`; 0 for all"},
};

constexpr ConfigKey kNamed[] = {
    {"name", kText, "required", "", "its label, in the column `case` or `step`"},
};

constexpr ConfigKey kAblation[] = {
    {"mode", kText, "\"cumulative\"", "",
     "`cumulative`: base, base + s1, base + s1 + s2, ...; `one_at_a_time`: base, base + s1, base + "
     "s2, ...; `leave_one_out`: all steps, then all but each",
     [] {
       return std::vector<std::string>{"cumulative", "leave_one_out", "one_at_a_time"};
     }},
    {"base", kTable, "required", "", "named settings that every step starts from"},
    {"step", kTables, "required", "", "named settings that are added"},
};

constexpr ConfigKey kSet[] = {
    {"name", kText, "required", "", "its name, that of the file: used as `\"@name\"`"},
    {"title", kText, "", "", "its title, for people"},
    {"matrix", kTexts, "", "",
     "its matrices, sets among them taken apart; every set needs this or `query`"},
    {"query", kText, "", "",
     "its matrices are those of the SuiteSparse Matrix Collection's index that meet this "
     "condition, "
     "the smallest first"},
    {"source", kText, "", "", "paper and section that state the condition or name the matrices"},
    {"count", kInteger, "0", "", "number of matrices that the paper had; 0: it says none"},
    {"beyond", kText, "", "", "conditions of the paper that the index cannot tell"},
    {"stand_in", kTexts, "", "",
     "matrices by formula for a machine on which none of a config's files is found"},
};

constexpr ConfigKey kCatalogue[] = {
    {"schema", kInteger, "required", "", "1: the version of this schema"},
    {"fetch", kTable, "", "", "matrix -> its name at its collection, GROUP/NAME"},
    {"elsewhere", kTable, "", "", "matrix -> why it is in no collection"},
    {"sha256", kTable, "", "", "matrix of [fetch] -> the SHA-256 that its file has to have"},
};

constexpr ConfigKey kCheck[] = {
    {"enabled", kFlag, "true", "",
     "C is compared with fp64 inside the bound of its kernel's arithmetic"},
    {"against_fp32", kFlag, "false", "", "C is also compared with FP32 sums"},
    {"overflow_fails", kFlag, "true", "",
     "`false`: a run succeeds though points are wrong by overflow alone, as a study of the range "
     "of "
     "number formats wants"},
};

constexpr ConfigKey kStatistics[] = {
    {"square", kFlag, "false", "", "packed matrices also count A A"},
};

constexpr ConfigKey kMeasure[] = {
    {"l2", kText, "\"warm\"", "",
     "`warm`: launches follow each other; `flush`: the L2 is emptied before each. The backend "
     "`simulate` follows it too",
     [] { return l2_choices(); }},
    {"launch", kText, "\"stream\"", "",
     "`stream`: the host submits every launch; `graph`: the launches of a sample are a CUDA graph, "
     "so that short ones do not wait for the host. Applies to SpMM and SDDMM with a warm L2",
     [] { return launch_choices(); }},
    {"warmup", kInteger, "5", "launches", "launches before the first timed one"},
    {"min_samples", kInteger, "20", "launches", "least number of timed launches"},
    {"max_samples", kInteger, "1000", "launches", "greatest number of timed launches"},
    {"noise", kNumber, "0.01", "",
     "timing stops when the standard error of the mean is below this share of it"},
    {"max_seconds", kNumber, "2.0", "s", "longest sum of timed launches"},
    {"unpermute", kFlag, "false", "",
     "also times restoring the rows of C to the order of the file"},
};

constexpr ConfigKey kSimulate[] = {
    {"sample", kText, "\"off\"", "",
     "`\"auto\"` simulates launches that request 32 GB and more in part: beginning, end and eight "
     "stretches between; a number requests that many stretches of any launch that they fit"},
};

constexpr ConfigKey kCounters[] = {
    {"source", kText, "\"auto\"", "",
     "`auto`: CUPTI, else Nsight Compute; `external`: a profiler that the program runs under",
     counter_sources},
    {"metrics", kTexts, "(those that `simulate` predicts)", "",
     "names of NVIDIA's tools; `tessera counters check METRIC` tells whether a chip has one"},
};

constexpr ConfigKey kJoin[] = {
    {"name", kText, "required", "", "the joined columns are named NAME_COLUMN"},
    {"from", kWhere, "required", "", "the rows whose columns are joined to the others of a case"},
    {"columns", kTexts, "required", "", "the columns that are joined"},
    {"on", kTexts,
     "[\"matrix\",\"right\",\"mask\",\"n\",\"seed\",\"values\",\"reorder\",\"format\",\"kernel\","
     "\"step\","
     "\"case\"]",
     "", "columns that have to agree"},
};

constexpr ConfigKey kDerive[] = {
    {"name", kText, "required", "", "the column's name"},
    {"expr", kText, "", "", "arithmetic expression over columns"},
    {"of", kText, "", "", "column that is cut into bins, in place of `expr`"},
    {"bins", kNumbers, "", "", "limits of the bins, ascending"},
    {"labels", kTexts, "", "", "their labels, one more than limits"},
};

constexpr ConfigKey kUnfold[] = {
    {"name", kText, "required", "", "column of the bin"},
    {"of", kText, "required", "", "column with a histogram, or `stages`"},
};

constexpr ConfigKey kReduce[] = {
    {"name", kText, "required", "", "the best row's value in `column`"},
    {"where", kWhere, "", "", "the rows that are compared"},
    {"column", kText, "\"kernel\"", "", "column that gets the name"},
    {"keep", kTexts, "[\"matrix\",\"right\",\"mask\",\"n\",\"origin\",\"device\"]", "",
     "columns in which compared rows agree"},
    {"by", kText, "\"time_us\"", "", "column by which they are compared"},
    {"best", kText, "\"min\"", "", "which value of `by` is the best",
     [] {
       return std::vector<std::string>{"min", "max"};
     }},
};

constexpr ConfigKey kTableKeys[] = {
    {"columns", kTexts, "required", "", "its columns (`tessera list columns`)"},
    {"where", kWhere, "", "", "its rows"},
    {"best", kWhere, "", "", "column -> `\"min\"` or `\"max\"`: the best of it is bold in LaTeX"},
};

constexpr ConfigKey kFigure[] = {
    {"kind", kText, "required", "", "a script of `notebooks/`", figure_kinds},
    {"id", kText, "(the kind)", "", "file name"},
    {"title", kText, "", "", "text above the figure"},
    {"caption", kText, "", "", "text below the figure"},
    {"x", kText, "required", "", "column along x"},
    {"y", kText, "required", "", "column along y"},
    {"series", kText, "required", "", "column with a series for each value"},
    {"panel", kText, "", "", "column with a panel for each value"},
    {"low", kText, "", "", "column with the lower end of whiskers"},
    {"high", kText, "", "", "column with the upper end of whiskers"},
    {"bound", kText, "", "", "column that y may not exceed, drawn for each series; `lines` only"},
    {"x_label", kText, "(the column's meaning and unit)", "", "label of the x axis"},
    {"y_label", kText, "(the column's meaning and unit)", "", "label of the y axis"},
    {"x_scale", kText, "(linear for numbers, else category)", "", "scale of the x axis",
     [] {
       return std::vector<std::string>{"category", "linear", "log"};
     }},
    {"y_scale", kText, "\"linear\"", "", "scale of the y axis",
     [] {
       return std::vector<std::string>{"linear", "log"};
     }},
    {"normalise", kText, "", "", "the series by which every other is divided, x by x"},
    {"relative_to", kWhere, "", "",
     "y is over that of these rows, matrix by matrix; not with `normalise`"},
    {"statistic", kText, "", "",
     "what is drawn of the rows that share panel, series and x; without it they are an error",
     [] {
       return std::vector<std::string>{"geomean", "mean", "median", "min", "max"};
     }},
    {"reference", kNumber, "(none)", "", "a horizontal line to compare with"},
    {"reference_label", kText, "", "", "its label; required with `reference`"},
    {"where", kWhere, "", "", "the rows drawn"},
};

constexpr ConfigKey kExpect[] = {
    {"name", kText, "required", "", "the claim"},
    {"source", kText, "required", "", "paper and section that the number is from"},
    {"column", kText, "required", "", "column of the statistic"},
    {"statistic", kText, "\"geomean\"", "",
     "statistic of the rows; `rank_correlation` is that of `column` and `with`",
     [] {
       return std::vector<std::string>{"geomean", "mean", "median",
                                       "min",     "max",  "rank_correlation"};
     }},
    {"with", kText, "", "", "the other column of a rank correlation"},
    {"where", kWhere, "", "", "the rows"},
    {"relative_to", kWhere, "", "",
     "the statistic is over the ratios to these rows, matrix by matrix"},
    {"value", kNumber, "required", "", "the published number"},
    {"tolerance", kNumber, "0.1", "", "relative distance that `within` allows"},
    {"matrices", kInteger, "(all of its matrices)", "",
     "number of its matrices that have to have results before it is judged: until then it is "
     "neither "
     "met nor refuted. All are those of the file as written that `where` selects, but for those to "
     "which an order, a format or a kernel does not apply"},
    {"trend", kText, "\"within\"", "", "how the statistic has to lie to the number",
     [] {
       return std::vector<std::string>{"at_least", "at_most", "within"};
     }},
};

constexpr ConfigKey kSite[] = {
    {"schema", kInteger, "required", "", "1: the version of this schema"},
    {"program", kText, "(this program)", "", "the `tessera` that the nodes run"},
    {"container", kText, "", "", "image that the program is in; `program` is then `tessera`"},
    {"container_command", kText, "\"apptainer exec --nv\"", "",
     "command that runs a program in the image: the image and the program follow it"},
    {"setup", kTexts, "", "", "lines of the shell before the program, as `module load cuda`"},
    {"slurm", kTable, "", "", "resources of a task under Slurm"},
    {"hyperqueue", kTable, "", "", "resources of a task under HyperQueue"},
};

constexpr ConfigKey kSlurm[] = {
    {"partition", kText, "", "", "`--partition` of sbatch"},
    {"merge_partition", kText, "(the partition)", "", "partition of the job that merges"},
    {"account", kText, "", "", "`--account`, also of the job that merges"},
    {"qos", kText, "", "", "`--qos`, also of the job that merges"},
    {"time", kText, "", "",
     "`--time`, as in `\"04:00:00\"`; what it cuts off is submitted again by the same command"},
    {"gres", kText, "", "", "`--gres`, as in `\"gpu:1\"`"},
    {"cpus", kInteger, "0", "", "`--cpus-per-task`; 0 for the cluster's default"},
    {"memory", kText, "", "", "`--mem`, as in `\"32G\"`"},
    {"constraint", kText, "", "", "`--constraint`: features that a node has to have"},
    {"at_once", kInteger, "0", "", "most tasks that run at the same time; 0 for any number"},
    {"options", kTexts, "", "", "further options of sbatch, as in `\"--exclusive\"`"},
};

constexpr ConfigKey kHyperQueue[] = {
    {"cpus", kInteger, "1", "", "CPUs of a task"},
    {"gpus", kInteger, "0", "", "GPUs of a task (the resource `gpus/nvidia`)"},
    {"time", kText, "", "", "time limit of a task, as in `\"4h\"`"},
};

constexpr ConfigTable kAllTables[] = {
    {"the config", "The top level of the file.", kRoot, ""},
    {"[experiment]", "What the experiment is, and the backends that run its points.", kExperiment,
     R"(`tessera list experiments` prints question, paper, figure, minutes, and what the plan shows to be needed: a GPU, files of matrices.

| backend | a point has | its result |
|---|---|---|
| `emulate` | matrix, order, kernel, B | C by the CPU, bit for bit as on the GPU, and its errors against fp64 |
| `model`, `simulate` | the same, and a `device` (`model`: a `model` too) | predicted time and what limits it; `simulate` also predicts hardware counters |
| `gpu` | the same without a device | measured time; C is checked against fp64 and against its emulation |
| `pack`, `pack_gpu` | matrix, order, `format` | bytes of each array, time, exact round trip, statistics of the reordered matrix |
| `reorder`, `reorder_gpu` | matrix, `reorder`, `threads` | time, peak memory beyond the matrix, the same statistics |
| `prepare_gpu` | the same | time to find the order and to pack A as `mosaic` in it, the same statistics |
)"},
    {"[without]", "The same experiment on a machine that lacks a GPU or the files of matrices.",
     kWithout,
     R"(Both hold keys of a config, as in `[without.data.grid] n = [32]`: tables are merged, values and lists are replaced, [[lists of tables]] are appended to, and one element of such a list
is named by its id, its name or its number (`[without.gpu.figure.speedup] normalise = "Sputnik"`). `--set` overrides them, and `--as-written` leaves them out. Two changes need no key:

* Without a GPU, backends that need one are left out, and `simulate` stands in where nothing else is left. Where the table or a figure asks for the rows of such a backend, it gets those of
  `simulate`, or of the first backend that there is.
* Where a config names files of matrices and none is found, a set with `stand_in` stands for those matrices. Where some are found, these run, and the points of the others are skipped.

`tessera run` says what it changed and why. A table or a figure of records that were made elsewhere follows the records: of the config as written and as changed, it takes the one that has more
of its points among them.
)"},
    {"[grid]", "Axes: a list of values each, or one value. Every combination runs.", kGrid,
     R"(Any parameter of the variants named is an axis too: `precision = ["tf32", "tf32x3"]`, or qualified, `[grid.kernel] precision = [...]`. A variant may be a table with its parameters:
`{ name = "bcsr", block_rows = 8 }`. `right = "self"` reorders both factors, so the order has to move rows and columns alike. Values of another `right` are drawn from another stream of the seed.
A `mask` other than `"self"` needs the order of the file.
)"},
    {"[[zip]]", "Axes whose lists have one length and move together.", {}, ""},
    {"[[case]]", "A name, and one value for each of any keys of a grid.", kNamed, ""},
    {"[ablation]", "Named steps on a base, in place of [[case]].", kAblation, ""},
    {"base", "The base of an ablation, and likewise each `step`.", kNamed, ""},
    {"step", "A step of an ablation.", kNamed, ""},
    {"[set]", "A set of matrices: a file of its own with `schema = 1`.", kSet,
     R"(A `query` is an expression over `rows`, `cols`, `nnz`, `real` (not complex), `binary`, `mesh` (a 2D or 3D problem), `posdef`, `pattern_symmetry` and `numerical_symmetry` (0 to 1), as in
`rows > 10000 && cols == rows`. The index (`ssstats.csv`, sparse.tamu.edu) is downloaded once, by `tessera matrix fetch @SET`; the variable `TESSERA_COLLECTION_INDEX` names another file to use.
)"},
    {"the catalogue",
     "Where matrices are published: `experiments/configs/catalogue/matrices.toml`.", kCatalogue,
     ""},
    {"[fetch]", "Matrices of collections.", {}, ""},
    {"[elsewhere]", "Matrices of no collection.", {}, ""},
    {"[sha256]", "Checksums of files of collections.", {}, ""},
    {"[check]", "The comparison of a computed C with the oracle.", kCheck, ""},
    {"[statistics]", "What packed matrices also count.", kStatistics, ""},
    {"[measure]", "How a launch on the GPU is timed.", kMeasure,
     R"(Sparse products take all their memory within their time and are timed twice: with the plain allocator (`time_us`) and from a pool (`pool_us`, `pool_gflops`). The pool's run also gives the
time of each stage (`stage_NAME_us`); `peak_mb` is the most memory held at once. `products` counts two operations each in `gflops`; `nnz_c` and `compression` describe C. Where C's structure
is kept (row_spgemm and tile_spgemm with `reuse = true`, cusparse_spgemm with `algorithm = "reuse"`), `again_us` is a product that computes C's values alone, into the same C. With
`keeps = "lists"` row_spgemm also keeps where the factors of each product are, in 4 bytes where they fit, with `keeps = "portions"` the segments of B's rows and where shared memory has each
product, in 2 bytes, with `keeps = "products"` the faster of the two by a cost model, and with `keeps = "positions"` where the sum of each product is, in 2 bytes.
With a `mask`, C has the cells of the mask and no others, and 0 where no product is.

Orders are cached. The backend `reorder` computes them, up to five times where that is short; every other backend reads the cache, and its record has the time and memory of the computation
(`reorder_s`, `reorder_threads`, `reorder_peak_bytes`, `reorder_from_cache`). `--fresh-orders` computes them again. An order that was cut short is never cached.
)"},
    {"[simulate]", "How a launch is simulated.", kSimulate,
     R"(Sampled points are other points than whole ones. Their records have the share that was simulated and half of the 95 % interval that this leaves, in percent: the columns `sampled_share`,
`time_error_pct`, `l2_read_error_pct`, `dram_read_error_pct`, `dram_write_error_pct`; `/simulation/counter_errors` has it for each counter, in the counter's unit. A share of 1 and errors of
0 mean that everything was simulated.
)"},
    {"[counters]", "Hardware counters, read of dense products after their timing.", kCounters,
     "Without this section none are read.\n"},
    {"[[join]]", "Adds columns of one row of a case to its other rows.", kJoin, ""},
    {"[[derive]]", "Adds a column computed from others of the same row.", kDerive,
     "A derived column may use those derived before it.\n"},
    {"[[unfold]]", "Adds a row for every bin of a histogram column.", kUnfold,
     R"(The rows have the bin in the column NAME, and `count` and `share`; of `stages`, there is a row for every stage. Only a `where` with `unfolded = NAME` selects them.
)"},
    {"[[reduce]]", "Adds the best row of those that agree in `keep`, under a name of its own.",
     kReduce, "The column `chosen` has what the row's `column` was before.\n"},
    {"[table]", "Printed at the end of a run, and written as CSV.", kTableKeys, ""},
    {"[[figure]]", "Drawn by `tessera figure`.", kFigure, ""},
    {"[[expect]]", "Compares a statistic of the rows with a published value.", kExpect, ""},
    {"the site file", "The cluster of `tessera submit`: a file of its own, `--site FILE`.", kSite,
     "Without one, or without a key, the defaults of the cluster hold.\n"},
    {"[slurm]", "The options of sbatch, in the site file.", kSlurm, ""},
    {"[hyperqueue]", "The resources of a task of HyperQueue, in the site file.", kHyperQueue, ""},
};

}  // namespace

std::span<const ConfigTable> config_tables() { return kAllTables; }

const ConfigTable& config_table(std::string_view name) {
  const auto found = std::ranges::find(kAllTables, name, &ConfigTable::name);
  if (found == std::end(kAllTables))
    throw std::logic_error("undocumented table of a config: " + std::string(name));
  return *found;
}

const ConfigKey& config_key(const ConfigTable& table, std::string_view name) {
  const auto found = std::ranges::find(table.keys, name, &ConfigKey::name);
  if (found == table.keys.end())
    throw std::logic_error("undocumented key in " + std::string(table.name) + ": " +
                           std::string(name));
  return *found;
}

}  // namespace tessera
