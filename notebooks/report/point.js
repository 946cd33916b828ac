"use strict";
// Everything about one point: result, errors, counters, where its time went, provenance, command.

const pane = document.getElementById("point");
let returnTo = null;

// The record number `at` of a section, as it was written.
function recordAt(section, at) {
  const record = {};
  for (const [pointer, column] of Object.entries(section.records.columns)) {
    const value = reader(column)(at);
    if (value === null) continue;
    const keys = pointer.split("/").slice(1).map((k) => k.replace(/~1/g, "/").replace(/~0/g, "~"));
    let place = record;
    for (const key of keys.slice(0, -1)) {
      if (!Object.hasOwn(place, key))
        Object.defineProperty(place, key, {value: {}, enumerable: true, writable: true});
      place = place[key];
    }
    place[keys.at(-1)] = value;
  }
  return record;
}

// "bcsr(block_cols=8, block_rows=8)"
function callText(variant) {
  if (!variant) return "";
  const settings = Object.entries(variant).filter(([key]) => key !== "name")
    .map(([key, value]) => `${key}=${value}`);
  return variant.name + (settings.length ? `(${settings.join(", ")})` : "");
}

function pairs(title, entries, class_ = "") {
  const known = entries.filter(([, value]) => value !== undefined && value !== null && value !== "");
  if (!known.length) return null;
  return element("section", {class: class_}, element("h3", {}, title),
    element("dl", {}, known.flatMap(([name, value, note]) =>
      [element("dt", {title: note}, name), element("dd", {}, value)])));
}

// Bars for parts that have a length each; `unit` follows their numbers.
function partsChart(title, parts, unit, origin, note = "") {
  const known = parts.filter((part) => Number.isFinite(part.value));
  if (!known.length) return null;
  const most = Math.max(...known.map((part) => part.value), Number.MIN_VALUE);
  return element("section", {}, element("h3", {}, title),
    element("table", {class: "parts"}, known.map((part) =>
      element("tr", {title: part.reason},
        element("th", {scope: "row"}, part.name),
        element("td", {}, part.value === 0 ? null : element("i", {
          class: `bar ${isPredicted(origin) ? origin : "solid"}`,
          style: `width:${(100 * part.value) / most}%`})),
        element("td", {class: "number"}, `${number(part.value)} ${unit}`)))),
    note ? element("p", {class: "caption"}, note) : null);
}

function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

function commandBlock(title, command) {
  const button = element("button", {type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "selected";
    }
  }}, "copy");
  const code = element("code", {}, command);
  return element("div", {class: "command"}, element("h4", {}, title), button,
                 element("pre", {}, code));
}

function commands(record) {
  const {params} = record;
  const made = [commandBlock("This point again",
                             `tessera point --json ${quoted(JSON.stringify(params))}`)];
  if (params.backend === "simulate" && params.n !== undefined) {
    const settings = Object.entries(params.kernel).filter(([key]) => key !== "name")
      .map(([key, value]) => ` --set kernel.${key}=${value}`).join("");
    const order = params.reorder?.name === "none" ? "" : ` --reorder ${params.reorder.name}`;
    made.push(commandBlock("Its simulated timeline, which --timeline adds to this page",
      `tessera timeline ${quoted(params.matrix)} --n ${params.n} --kernel ${params.kernel.name}` +
      `${order} --device ${params.device}${settings}` +
      (params.measure?.l2 === "flush" ? " --cold" : "") + " --out out/timeline"));
  }
  return element("section", {}, element("h3", {}, "Reproduce"), made);
}

function resultOf(record) {
  const {time, prediction} = record, predicted = isPredicted(record.origin);
  const value = (v, unit) => v === undefined ? undefined
    : element("span", {class: predicted ? "predicted" : ""}, `${number(v)} ${unit}`);
  const spread = time ? ` (p5 ${number(time.p5_us)}, p95 ${number(time.p95_us)} µs; ` +
    `${time.n} samples${time.l2 ? `, L2 ${time.l2}` : ""})` : "";
  return pairs("Result", [
    ["time", time ? [value(time.median_us, "µs"), spread] : value(prediction?.time_us, "µs")],
    ["rate", value(record.gflops, "GFLOP/s")],
    ["bound by", prediction?.bound_by],
    ["from a pool", value(record.time_pool?.median_us, "µs")],
    ["values again", value(record.time_again?.median_us, "µs")],
    ["algorithm", record.winner],
    ["sampled", record.simulation?.sampled_share < 1
      ? `${number(100 * record.simulation.sampled_share)} %, time ± ` +
        `${number(record.simulation.time_error_pct)} %` : undefined],
    ["reason", record.reason],
  ]);
}

function errorsOf({check = {}, bits}) {
  const value = (name, unit = "") =>
    check[name] === undefined ? undefined : `${number(check[name])}${unit}`;
  const {worst, round_trip_exact: exact} = check;
  return pairs("Error against fp64", [
    ["SMAPE", value("smape_pct", " %")],
    ["largest error / bound", value("bound_ratio"), "at most 1 when C is right"],
    ["backward error, largest", value("backward_error")],
    ["backward error, median", value("backward_error_p50")],
    ["relative error, largest", value("max_rel")],
    ["condition, geometric mean", value("condition_geomean")],
    ["elements compared", value("compared")],
    ["beyond the bound", value("beyond_bound")],
    ["worst element", worst ? `C(${worst.row}, ${worst.col}) = ${shown(worst.computed)}, true ` +
      `${shown(worst.expected)}; ${worst.tile ?? ""}` : undefined],
    ["packing", exact === undefined ? undefined : exact ? "exact round trip" : "NOT exact"],
    ["bits against the emulation", bits ? `${number(bits.different)} of ${number(bits.compared)} ` +
      "differ" : undefined],
  ]);
}

function drawnTimeline(record) {
  const found = timelineOf(record);
  return found ? element("section", {}, element("h3", {}, "Timeline"), timelineView(found)) : null;
}

function timeParts(record) {
  const {stages, simulation, prediction, origin} = record;
  const parts = simulation?.parts ?? prediction?.parts;
  const warp = Object.entries(simulation?.warp_time ?? {}).sort((a, b) => b[1] - a[1]);
  const launch = simulation ? `${number(simulation.waves)} waves, ` +
    `${simulation.resident_thread_blocks} thread blocks an SM (limit: ` +
    `${simulation.occupancy_limit}), SM balance ${number(simulation.sm_balance)}, longest thread ` +
    `block ${number(simulation.longest_thread_block_us)} µs.` : "";
  return [
    stages ? partsChart("Stages", stages.map((s) => ({name: s.name, value: s.us})), "µs", origin)
      : null,
    parts ? partsChart("The time each resource needs alone",
      parts.map((p) => ({name: p.name, value: p.time_us, reason: p.reason})), "µs", origin, launch)
      : null,
    warp.length ? partsChart("Where warps spend their time",
      warp.map(([name, share]) => ({name, value: 100 * share})), "%", origin) : null,
  ];
}

function countersOf({counters, simulation, counters_source: source, counters_missing: missing,
                     origin}) {
  if (!counters) return missing ? pairs("Counters", [["none", missing]]) : null;
  const errors = simulation?.counter_errors ?? {};
  const rows = Object.entries(counters).map(([name, value]) => [name,
    element("span", {class: isPredicted(origin) ? "predicted" : ""}, number(value) +
      (errors[name] ? ` ± ${number(errors[name])}` : ""))]);
  return pairs(`Counters, ${source ?? origin}`, rows, "counters");
}

function provenance(section, record) {
  const env = section.environments[record.env_id] ?? {}, {build = {}, gpu = {}, host = {}} = env;
  const version = [["kernel", record.kernel_version], ["format", record.format_version],
                   ["order", record.reorder_version]].filter(([, v]) => v !== undefined)
    .map(([name, v]) => `${name} ${v}`).join(", ");
  return pairs("Provenance", [
    ["origin", record.origin],
    ["described device", record.params.device],
    ["GPU", gpu.available ? `${gpu.name}, ${gpu.clocks?.sm_mhz ?? "?"} MHz` : "none"],
    ["driver", gpu.driver ? `${gpu.driver}, CUDA ${gpu.cuda_runtime ?? "?"}` : undefined],
    ["host", [host.cpu, host.threads && `${host.threads} threads`, host.system].filter(Boolean).join(", ")],
    ["commit", build.commit ? build.commit + (build.dirty ? " with changes" : "") : undefined],
    ["compiler", [build.compiler, build.flags, build.cuda && `CUDA ${build.cuda}`].filter(Boolean).join(", ")],
    ["versions", version],
    ["finished", record.finished_at],
    ["took", record.attempt_s !== undefined ? `${number(record.attempt_s)} s` : undefined],
    ["experiment", record.experiment],
    ["config hash", record.config_hash],
    ["params hash", record.params_hash],
    ["point id", record.point_id],
  ]);
}

function pointView(section, record) {
  const {params, matrix = {}, prep = {}} = record;
  const name = matrix.name ?? params.matrix;
  const product = [params.n !== undefined ? `N = ${params.n}` : params.right ? `B: ${params.right}` : "",
                   callText(params.kernel ?? params.format)].filter(Boolean).join(", ");
  return [
    element("header", {},
      element("h2", {tabindex: -1}, name),
      element("p", {}, product),
      element("p", {}, element("span", {class: `status ${record.status}`}, record.status), " ",
              record.origin ? element("span", {class: `origin ${isPredicted(record.origin)
                ? "hollow" : "solid"}`}, record.origin) : null),
      element("button", {type: "button", class: "close", "aria-label": "Close",
                         onclick: closePoint}, "×")),
    resultOf(record), errorsOf(record), timeParts(record), drawnTimeline(record),
    countersOf(record),
    pairs("Point", [
      ["backend", params.backend], ["order", callText(params.reorder)],
      ["format", callText(params.format)], ["kernel", callText(params.kernel)],
      ["model", callText(params.model)], ["values", params.values],
      ["seed", params.seed !== undefined ? String(params.seed) : undefined],
      ["rows × columns", matrix.rows ? `${number(matrix.rows)} × ${number(matrix.cols)}` : undefined],
      ["nonzeros", matrix.nnz !== undefined ? number(matrix.nnz) : undefined],
      ["source", matrix.source], ["content hash", matrix.hash],
    ]),
    pairs("Preparation", Object.entries(prep).map(([key, value]) => [key, shown(value), meaning(key)])),
    provenance(section, record), commands(record),
    element("details", {}, element("summary", {}, "The record"),
            element("pre", {}, JSON.stringify(record, null, 1))),
  ].flat().filter(Boolean);
}

function openPoint(section, id, from = null) {
  const at = section.recordOf.get(id);
  if (at === undefined) return;
  returnTo = from;
  pane.replaceChildren(...pointView(section, recordAt(section, at)));
  pane.hidden = false;
  pane.scrollTop = 0;
  pane.querySelector("h2").focus({preventScroll: true});
  history.replaceState(null, "", `#point=${encodeURIComponent(section.id)}/${encodeURIComponent(id)}`);
}

function closePoint() {
  if (pane.hidden) return;
  pane.hidden = true;
  history.replaceState(null, "", location.pathname + location.search);
  returnTo?.focus?.();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closePoint();
});
