"use strict";
// Figures on a canvas, by Chart.js: one chart for each panel, read by mouse, finger or keyboard.

const HATCH = {modelled: "slash", simulated: "cross", emulated: "dots"};

// A fill that no measured number has.
function hatched(color, origin) {
  const size = 6, tile = element("canvas", {width: size, height: size});
  const pen = tile.getContext("2d");
  pen.fillStyle = cssColor("--page");
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = pen.fillStyle = color;
  pen.lineWidth = 1;
  pen.beginPath();
  if (HATCH[origin] === "dots") {
    pen.fillRect(1, 1, 1.6, 1.6);
    pen.fillRect(4, 4, 1.6, 1.6);
  } else {
    for (const shift of [-size, 0, size]) {
      pen.moveTo(shift, size);
      pen.lineTo(shift + size, 0);
      if (HATCH[origin] === "cross") {
        pen.moveTo(shift, 0);
        pen.lineTo(shift + size, size);
      }
    }
    pen.stroke();
  }
  return pen.createPattern(tile, "repeat");
}

// Whiskers from low to high, and boxes of quartiles, over what the chart has drawn.
const spreadPlugin = {
  id: "spread",
  afterDatasetsDraw(chart) {
    const pen = chart.ctx, y = chart.scales.y;
    pen.save();
    pen.beginPath();
    pen.rect(chart.chartArea.left, chart.chartArea.top, chart.chartArea.width,
             chart.chartArea.height);
    pen.clip();
    chart.data.datasets.forEach((dataset, index) => {
      if (!dataset.points || !chart.isDatasetVisible(index)) return;
      const marks = chart.getDatasetMeta(index).data;
      pen.strokeStyle = dataset.ink;
      pen.lineWidth = 1;
      dataset.points.forEach((point, at) => {
        if (!point || point.low === undefined || !marks[at]) return;
        const x = marks[at].x, low = y.getPixelForValue(point.low);
        const high = y.getPixelForValue(point.high);
        if (Math.abs(low - high) < 2) return;
        pen.beginPath();
        pen.moveTo(x, low);
        pen.lineTo(x, high);
        pen.stroke();
      });
      if (dataset.box) drawBox(chart, dataset);
    });
    pen.restore();
  },
};

function drawBox(chart, dataset) {
  const pen = chart.ctx, {x, y} = chart.scales, box = dataset.box;
  const at = (value) => y.getPixelForValue(value);
  const left = x.getPixelForValue(box.x - 0.3), right = x.getPixelForValue(box.x + 0.02);
  const middle = (left + right) / 2;
  pen.lineWidth = 1;
  pen.setLineDash(dataset.borderDash ?? []);
  pen.strokeRect(left, at(box.q3), right - left, at(box.q1) - at(box.q3));
  pen.beginPath();
  for (const [from, to] of [[box.q3, box.p95], [box.q1, box.p5]]) {
    pen.moveTo(middle, at(from));
    pen.lineTo(middle, at(to));
  }
  pen.stroke();
  pen.setLineDash([]);
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(left, at(box.median));
  pen.lineTo(right, at(box.median));
  pen.stroke();
}

function quantile(sorted, share) {
  const at = (sorted.length - 1) * share, below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

// The number that an axis prints at a tick: on a log axis decades, or 1, 2 and 5 where it is short.
function tick(value) {
  if (this.type !== "logarithmic") return number(value);
  const digit = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
  const marked = this.max > 100 * this.min ? [1] : [1, 2, 5];
  return marked.some((mark) => Math.abs(digit - mark) < 1e-6) ? number(value) : "";
}

function axisOptions(axis, scale) {
  const ink = cssColor("--ink"), grid = cssColor("--grid");
  return {
    type: scale === "log" ? "logarithmic" : scale === "category" ? "category" : "linear",
    title: {display: Boolean(axis.label), text: axis.label, color: ink, font: {size: 11},
            padding: 2},
    grid: {color: grid, borderColor: cssColor("--muted"), tickLength: 3},
    ticks: {color: cssColor("--muted"), font: {size: 10.5}, padding: 2,
            maxRotation: scale === "category" ? 60 : 0, ...(scale === "category" ? {autoSkip: false} : {callback: tick})},
  };
}

// The look of one series; every kind of chart reads from it what it needs.
function lookOf(series, color) {
  const predicted = isPredicted(series.origin);
  return {
    label: seriesLabel(series.name, series.origin),
    ink: color,
    borderColor: color,
    backgroundColor: predicted ? hatched(color, series.origin) : color,
    pointBackgroundColor: predicted ? cssColor("--page") : color,
    pointBorderColor: color,
    borderDash: DASHES[series.origin],
  };
}

// One chart for one panel. `figure` is as figures.js has prepared it: kind, x, y, categories,
// colours by series label, lowest and highest y of all panels, hidden labels.
class PanelChart {
  constructor(canvas, figure, panel, tell) {
    this.canvas = canvas;
    this.figure = figure;
    this.panel = panel;
    this.tell = tell;
    this.at = null;  // [dataset, index] of the point that the keyboard is on
    this.draw();
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.leave());
  }

  draw() {
    this.chart?.destroy();
    const {figure} = this;
    const datasets = this.datasets();
    const categories = figure.x.scale === "category";
    const x = axisOptions(figure.x, categories && figure.kind !== "bars" ? "linear"
                                                                        : figure.x.scale);
    const y = axisOptions(figure.y, figure.y.scale);
    Object.assign(y, figure.yRange);
    if (figure.kind === "box")
      this.nameTicks(x, this.panel.series.map((s) => seriesLabel(s.name, s.origin)));
    else if (categories && figure.kind !== "bars") this.nameTicks(x, figure.categories);
    if (figure.kind === "bars") x.grid.display = false;
    this.chart = new Chart(this.canvas, {
      type: figure.kind === "bars" ? "bar" : figure.kind === "lines" ? "line" : "scatter",
      data: {labels: categories ? figure.categories : undefined, datasets},
      plugins: [spreadPlugin,
                {id: "reference", beforeDatasetsDraw: (chart) => this.drawReference(chart)}],
      options: {
        animation: false, maintainAspectRatio: false, responsive: true,
        devicePixelRatio: figure.forPaper ? 3 : window.devicePixelRatio,
        interaction: {mode: "nearest", intersect: false, axis: figure.kind === "bars" ? "x" : "xy"},
        scales: {x, y},
        plugins: {legend: {display: false}, tooltip: this.tooltip()},
        onHover: (event, active) => {
          if (active.length) this.tell(this.pointAt(active[0].datasetIndex, active[0].index));
        },
        onClick: (event, active) => {
          if (active.length) this.open(active[0].datasetIndex, active[0].index);
        },
      },
    });
  }

  // Names at 0, 1, 2, ... of a linear axis.
  nameTicks(x, names) {
    Object.assign(x, {min: -0.6, max: names.length - 0.4});
    if (this.figure.kind === "box") x.title.display = false;
    x.grid.display = false;
    x.afterBuildTicks = (axis) => { axis.ticks = names.map((_, value) => ({value})); };
    x.ticks.callback = (value) => names[value] ?? "";
    x.ticks.autoSkip = names.length > 60;
    x.ticks.maxRotation = 60;
  }

  datasets() {
    const {figure} = this, sets = [];
    this.panel.series.forEach((series, rank) => {
      const look = lookOf(series, figure.colors.get(series.name));
      look.hidden = figure.hidden.has(look.label);
      sets.push(this.dataset(series, rank, look));
      const bounds = series.points.filter((point) => point.bound !== undefined);
      if (bounds.length && figure.kind === "lines")
        sets.push({...look, type: "line", borderDash: [], borderWidth: 1, pointRadius: 0,
                   pointHitRadius: 0, isBound: true, label: `${look.label}: bound`,
                   data: bounds.map((point) => ({x: figure.x.scale === "category"
                     ? figure.categories.indexOf(String(point.x)) : point.x, y: point.bound}))});
    });
    return sets;
  }

  dataset(series, rank, look) {
    const {figure} = this;
    const points = figure.kind !== "lines" ? series.points
      : [...series.points].sort(figure.x.scale === "category"
        ? (a, b) => figure.categories.indexOf(String(a.x)) - figure.categories.indexOf(String(b.x))
        : (a, b) => a.x - b.x);
    if (figure.kind === "bars") {
      const byX = new Map(points.map((point) => [String(point.x), point]));
      const slots = figure.categories.map((x) => byX.get(x) ?? null);
      return {...look, borderDash: undefined, borderWidth: 1, points: slots,
              data: slots.map((point) => point?.y ?? null), categoryPercentage: 0.86,
              barPercentage: 0.94, base: figure.foot};
    }
    const many = figure.count > 2000;
    const marker = {pointStyle: MARKERS[figure.ranks.get(series.name) % MARKERS.length],
                    pointRadius: many ? 2 : 3.4, pointHoverRadius: many ? 4 : 6,
                    pointBorderWidth: 1.2, borderWidth: 1.5};
    if (figure.kind === "box") {
      const sorted = points.map((p) => p.y).filter((y) => y !== null).sort((a, b) => a - b);
      const at = (share) => quantile(sorted, share);
      return {...look, ...marker, pointRadius: 2.2, points,
              box: sorted.length ? {x: rank, q1: at(0.25), q3: at(0.75), median: at(0.5),
                                    p5: at(0.05), p95: at(0.95)} : null,
              data: points.map((p, i) => ({x: rank + 0.1 + 0.025 * ((i * 7) % 9), y: p.y}))};
    }
    const labels = [...figure.labels.keys()];
    const aside = figure.kind === "lines" ? 0
      : (0.7 * (labels.indexOf(look.label) + 0.5)) / labels.length - 0.35;
    const places = new Map(figure.categories.map((name, place) => [name, place + aside]));
    const category = figure.x.scale === "category";
    const data = points.map((p) => ({x: category ? places.get(String(p.x)) : p.x, y: p.y}));
    return {...look, ...marker, points, data, showLine: figure.kind === "lines"};
  }

  tooltip() {
    return {
      filter: (item) => !item.dataset.isBound,
      displayColors: false, animation: false,
      backgroundColor: cssColor("--ink"), titleColor: cssColor("--page"),
      bodyColor: cssColor("--page"), padding: 8, cornerRadius: 2,
      titleFont: {size: 11.5}, bodyFont: {size: 11.5},
      callbacks: {
        title: (items) => items.length ? items[0].dataset.label : "",
        label: (item) => {
          const point = item.dataset.points[item.dataIndex];
          return point ? this.figure.describe(point).slice(1) : "";
        },
      },
    };
  }

  drawReference({ctx, chartArea, scales}) {
    const {reference} = this.figure;
    if (!reference) return;
    const y = scales.y.getPixelForValue(reference.y);
    if (y < chartArea.top || y > chartArea.bottom) return;
    ctx.save();
    ctx.strokeStyle = cssColor("--muted");
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(chartArea.left, y);
    ctx.lineTo(chartArea.right, y);
    ctx.stroke();
    ctx.restore();
  }

  pointAt(set, index) {
    const dataset = this.chart.data.datasets[set];
    const point = dataset.points?.[index];
    return point ? {...point, label: dataset.label, panel: this.panel.title} : null;
  }

  open(set, index) {
    const point = this.pointAt(set, index);
    if (point) this.figure.open(point, this.canvas);
  }

  // Left and right: along a series; up and down: to the next series; Enter: everything about it.
  key(event) {
    const moves = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 0], ArrowDown: [-1, 0]};
    if (event.key === "Enter" && this.at) {
      this.open(...this.at);
    } else if (moves[event.key]) {
      this.move(...moves[event.key]);
    } else {
      return;
    }
    event.preventDefault();
  }

  move(sets, steps) {
    const usable = this.chart.data.datasets.map((dataset, index) => [dataset, index])
      .filter(([dataset, index]) => dataset.points && this.chart.isDatasetVisible(index));
    if (!usable.length) return;
    let rank = usable.findIndex(([, index]) => this.at && index === this.at[0]);
    rank = rank < 0 ? 0 : (rank + sets + usable.length) % usable.length;
    const [dataset, set] = usable[rank];
    let index = this.at && !(rank < 0) ? this.at[1] + steps : 0;
    const has = (i) => dataset.points[i] && dataset.points[i].y !== null;
    const step = steps || 1, count = dataset.points.length;
    for (let tries = 0; tries < count && !has((index + count) % count); tries++) index += step;
    this.at = [set, (index + count) % count];
    this.show();
  }

  show() {
    const active = [{datasetIndex: this.at[0], index: this.at[1]}];
    const mark = this.chart.getDatasetMeta(this.at[0]).data[this.at[1]];
    this.chart.setActiveElements(active);
    this.chart.tooltip.setActiveElements(active, {x: mark?.x, y: mark?.y});
    this.chart.update("none");
    this.tell(this.pointAt(...this.at), true);
  }

  leave() {
    this.at = null;
    this.chart.setActiveElements([]);
    this.chart.tooltip.setActiveElements([], {});
    this.chart.update("none");
  }
}
