"use strict";
// Simulated timelines: thread blocks on SMs, and the operations of the warps of one of them.

// Spans as floating bars, hollow since they are simulated. A kind has a colour of its own.
class SpanChart {
  constructor(canvas, {rows, row, rowLabel, kind, describe}) {
    Object.assign(this, {canvas, rows, row, rowLabel, kind, describe});
    this.draw();
  }

  draw() {
    this.chart?.destroy();
    const column = (name) => reader(this.rows.columns[name]);
    const [row, start, end] = [this.row, "start_us", "end_us"].map(column);
    const kind = this.kind ? column(this.kind) : () => this.rowLabel;
    const kinds = new Map();
    let last = 0;
    for (let at = 0; at < this.rows.length; at++) {
      if (!kinds.has(kind(at))) kinds.set(kind(at), []);
      kinds.get(kind(at)).push({x: [start(at), end(at)], y: row(at), at});
      last = Math.max(last, row(at));
    }
    // Many rows leave no room for outlines; what lies one over the other is darker there.
    this.canvas.parentElement.style.height = last > 32 ? "440px" : `${120 + 22 * last}px`;
    const thin = last > 32, height = thin ? 370 / (last + 1) : 14;
    const datasets = [...kinds].map(([label, data], rank) => ({
      label, data, grouped: false, barThickness: height, borderWidth: thin ? 0 : 1,
      borderSkipped: false, borderColor: colorOf(rank),
      backgroundColor: thin ? `${colorOf(rank)}44`
                            : mixed(colorOf(rank), cssColor("--page"), 0.75)}));
    const x = axisOptions({label: "µs"}, "linear"), y = axisOptions({label: this.rowLabel}, "linear");
    Object.assign(y, {min: -0.7, max: last + 0.7, reverse: true, offset: false});
    Object.assign(y.ticks, {precision: 0, callback: (value) => Number.isInteger(value) ? value : ""});
    this.chart = new Chart(this.canvas, {type: "bar", data: {datasets}, options: {
      animation: false, maintainAspectRatio: false, responsive: true, indexAxis: "y",
      interaction: {mode: "nearest", intersect: true, axis: "xy"}, scales: {x, y},
      plugins: {
        legend: {display: kinds.size > 1, labels: {boxWidth: 10, color: cssColor("--ink")}},
        tooltip: {displayColors: false, animation: false, callbacks: {
          title: () => "", label: (item) => this.describe(item.raw.at)}}},
    }});
  }
}

function timelineText({about}) {
  const {params} = about;
  return `${about.matrix}, N = ${params.n}, ${params.kernel.name}, order ${params.reorder.name}, ` +
    `simulated on ${params.device}`;
}

// The timeline of a record, if the page has it.
function timelineOf(record) {
  const {params} = record;
  return DATA.timelines.find(({about}) => record.origin === "simulated" &&
    [record.matrix?.name, record.matrix?.source, params.matrix].includes(about.matrix) &&
    ["n", "device"].every((key) => about.params[key] === params[key]) &&
    ["kernel", "reorder", "format"].every((key) =>
      callText(about.params[key]) === callText(params[key])));
}

function timelineView(timeline) {
  const {about, thread_blocks: blocks, operations} = timeline;
  const read = (frame, name, at) => reader(frame.columns[name])(at);
  const span = (frame, at) => `${number(read(frame, "start_us", at))} to ` +
    `${number(read(frame, "end_us", at))} µs`;
  const chart = (title, options) => {
    const canvas = element("canvas", {role: "img", "aria-label": title});
    const view = element("div", {class: "panel"}, element("h5", {}, title),
                         element("div", {class: "canvas"}, canvas));
    whenNear(view, () => allFigures.add({charts: [new SpanChart(canvas, options)], draw() {
      this.charts[0].draw();
    }}));
    return view;
  };
  const left = timeline.thread_blocks_left + timeline.operations_left;
  return element("figure", {class: "timeline wide"},
    element("figcaption", {}, element("h4", {}, timelineText(timeline))),
    chart("Thread blocks on SMs", {rows: blocks, row: "sm", rowLabel: "SM", kind: "",
      describe: (at) => `thread block ${read(blocks, "thread_block", at)}, SM ` +
        `${read(blocks, "sm", at)}: ${span(blocks, at)}`}),
    chart(`Operations of thread block ${about.thread_block}`, {rows: operations, row: "warp",
      rowLabel: "warp", kind: "operation",
      describe: (at) => `warp ${read(operations, "warp", at)}, ` +
        `${read(operations, "operation", at)}: ${span(operations, at)}`}),
    element("p", {class: "caption"}, `Not measured: simulated. ${number(about.time_us)} µs, bound ` +
      `by ${about.bound_by}; ${number(about.waves)} waves, SM balance ${number(about.sm_balance)}.` +
      " Thread blocks on one SM at one time lie over each other: the darker, the more." +
      (left ? ` The last ${number(left)} spans are left out.` : "")));
}

function timelinesArticle() {
  if (!DATA.timelines.length) return null;
  return element("article", {id: "timelines"}, element("h2", {}, "Timelines"),
                 DATA.timelines.map(timelineView));
}
