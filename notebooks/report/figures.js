"use strict";
// A figure: title, legend, its panels as small multiples, the point read at present, its values.

const allFigures = new Set();

function panelsOf(figure) {
  return figure.panels ?? [{title: "", series: figure.series}];
}

function extentOf(points, log) {
  let low = Infinity, high = -Infinity;
  for (const point of points)
    for (const value of [point.y, point.low, point.high]) {
      if (value === null || value === undefined || (log && value <= 0)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  return low > high ? [0, 1] : [low, high];
}

class FigureView {
  // `open(point, from)` shows everything about a point; points without a record do not open.
  constructor(figure, open) {
    this.source = figure;
    this.openPoint = open;
    this.kind = {ablation_bars: "bars"}[figure.kind] ?? figure.kind;
    this.drawnAs = this.kind;
    this.panels = panelsOf(figure);
    this.hidden = new Set();
    const named = ["bars", "heatmap", "box"].includes(this.kind);
    this.x = {...figure.x, ...(named ? {scale: "category"} : {})};
    this.y = {...figure.y};
    this.reference = figure.reference;
    this.byValue = false;
    this.charts = [];
    this.prepare();
    this.view = this.build();
    allFigures.add(this);
    whenNear(this.view, () => this.draw());
  }

  prepare() {
    const points = this.panels.flatMap((panel) => panel.series.flatMap((s) => s.points));
    this.count = points.length;
    this.extent = extentOf(points, this.y.scale === "log");
    this.inOrder = [...new Set(points.map((point) => String(point.x)))];
    this.names = [...new Set(this.panels.flatMap((p) => p.series.map((s) => s.name)))];
    this.ranks = new Map(this.names.map((name, rank) => [name, rank]));
    this.labels = new Map();
    for (const panel of this.panels)
      for (const s of panel.series)
        this.labels.set(seriesLabel(s.name, s.origin), {name: s.name, origin: s.origin});
  }

  // What depends on the theme and on the reader's choices.
  refresh() {
    const steps = this.source.kind === "ablation_bars";
    this.colors = new Map(this.names.map((name, rank) =>
      [name, steps ? stepColor(rank, this.names.length) : colorOf(rank)]));
    this.categories = this.byValue ? this.sorted() : this.inOrder;
    const log = this.y.scale === "log", [low, high] = this.extent;
    this.foot = log && this.kind === "bars" ? low / 2 : undefined;
    this.yRange = log ? {min: this.foot ?? low / 1.3, max: high * 1.3}
      : {suggestedMin: this.kind === "bars" ? Math.min(0, low) : low,
         suggestedMax: high, grace: this.kind === "bars" ? 0 : "4%"};
  }

  // Categories by the mean of their values, largest first.
  sorted() {
    const sums = new Map();
    for (const panel of this.panels)
      for (const series of panel.series)
        for (const {x, y} of series.points) {
          if (y === null || y === undefined) continue;
          const sum = sums.get(String(x)) ?? [0, 0];
          sums.set(String(x), [sum[0] + (this.y.scale === "log" ? Math.log(y) : y), sum[1] + 1]);
        }
    const mean = (x) => sums.has(x) ? sums.get(x)[0] / sums.get(x)[1] : -Infinity;
    return [...this.inOrder].sort((a, b) => mean(b) - mean(a));
  }

  build() {
    const {source} = this;
    this.grid = element("div", {class: "panels"});
    this.legend = element("div", {class: "legend", role: "group", "aria-label": "Series"});
    this.readout = element("p", {class: "readout"}, "\u00a0");
    const wide = this.panels.length > 1 || this.kind === "heatmap" ||
      (this.x.scale === "category" && this.inOrder.length * this.names.length > 45) ||
      (this.kind === "box" && this.names.length > 5);
    return element("figure", {class: wide ? "wide" : "", id: source.anchor},
      element("figcaption", {}, element("h4", {}, source.title),
              element("div", {class: "tools"}, this.tools())),
      this.legend, this.grid, this.readout,
      element("p", {class: "caption"},
              [source.caption, source.facts].filter(Boolean).map((text) => `${text} `),
              element("span", {class: "provenance"}, this.footer())),
      this.values());
  }

  tools() {
    const button = (text, title, pressed, action) => element("button", {
      type: "button", title, "aria-pressed": String(pressed),
      onclick: (event) => {
        const now = event.currentTarget.getAttribute("aria-pressed") !== "true";
        event.currentTarget.setAttribute("aria-pressed", String(now));
        action(now);
        this.draw();
      }}, text);
    const made = [];
    if (this.extent[0] > 0)
      made.push(button("log", "Logarithmic y axis", this.y.scale === "log", (on) => {
        this.y.scale = on ? "log" : "linear";
      }));
    if (this.x.scale === "category" && this.kind !== "box" && this.inOrder.length > 2)
      made.push(button("by value", "Order the x axis by the mean of its values", false, (on) => {
        this.byValue = on;
      }));
    if (this.x.scale === "category" && ["bars", "scatter"].includes(this.kind) &&
        this.names.length > 1 && this.eachOnce())
      made.push(button("as table", "The values as coloured cells", false, (on) => {
        this.clear();
        this.kind = on ? "heatmap" : this.drawnAs;
      }));
    return made;
  }

  footer() {
    const origins = ORIGINS.filter((origin) =>
      [...this.labels.values()].some((label) => label.origin === origin));
    const solid = origins.filter((origin) => !isPredicted(origin));
    const text = solid.length === origins.length ? `All values ${origins.join(", ")}.`
      : solid.length === 0 ? `Not measured: all values ${origins.join(", ")}.`
      : `${origins.join(", ")}; hollow, dashed or hatched: not measured.`;
    const missing = this.source.missing?.length
      ? ` ${this.source.missing.length} values have no place on the axis.` : "";
    const known = origins.length ? text : "";
    return `${known} ${this.source.provenance ?? ""}${missing}`;
  }

  // Series that all have the same panel and origin need no columns for these.
  values() {
    const body = element("div");
    const details = element("details", {class: "values"},
      element("summary", {}, `${this.count} values`), body);
    details.addEventListener("toggle", () => {
      if (!details.open || body.firstChild) return;
      const rows = this.panels.flatMap((panel) => panel.series.flatMap((series) =>
        series.points.map((p) => [panel.title, series.name, series.origin, p.x, p.y, p.low, p.high,
                                  p.bound])));
      const names = ["panel", "series", "origin", this.x.label, this.y.label, "low", "high",
                     "bound"];
      const kept = names.map((_, i) => i).filter((i) =>
        rows.some((row) => row[i] !== undefined && row[i] !== "" && row[i] !== null));
      plainTable(body, `${this.source.id}.csv`, kept.map((i) => names[i]),
                 rows.map((row) => kept.map((i) => row[i])), rows.map((row) => row[2]));
    });
    return details;
  }

  describe(point) {
    const spread = point.low === undefined ? "" : ` (${number(point.low)} to ${number(point.high)})`;
    const lines = [point.label, `${this.x.label}: ${shown(point.x)}`,
                   `${this.y.label}: ${shown(point.y)}${spread}`];
    if (point.bound !== undefined) lines.push(`bound: ${number(point.bound)}`);
    if (this.kind === "heatmap" && this.x.label === point.x) lines.splice(1, 1);
    if (point.more) lines.push(point.more);
    return lines;
  }

  tell(point, aloud = false) {
    if (!point) return;
    const text = [point.panel, ...this.describe(point)].filter(Boolean).join(" · ");
    this.readout.textContent = text;
    if (aloud) document.getElementById("spoken").textContent = text;
  }

  open(point, from) {
    this.tell(point);
    if (point.point) this.openPoint(point.point, from);
  }

  draw() {
    this.refresh();
    this.drawLegend();
    if (this.charts.length) {
      for (const chart of this.charts) chart.draw();
      return;
    }
    const tell = (point, aloud) => this.tell(point, aloud);
    for (const panel of this.panels) {
      const title = panel.title.replace(" = ", ": ");
      if (this.kind === "heatmap") {
        const holder = element("div", {class: "panel heatmap"});
        this.grid.append(holder);
        this.charts.push(new HeatMap(holder, this, {...panel, title}, tell));
        continue;
      }
      const canvas = element("canvas", {tabindex: 0, role: "img",
        "aria-label": `${this.source.title}. ${title}. Arrow keys read its points.`});
      this.grid.append(element("div", {class: "panel"}, title ? element("h5", {}, title) : null,
                               element("div", {class: "canvas"}, canvas)));
      this.charts.push(new PanelChart(canvas, this, {...panel, title}, tell));
    }
    this.grid.style.setProperty("--panels", String(this.charts.length));
    this.grid.classList.toggle("crowded", this.x.scale === "category" && this.kind === "bars" &&
      this.inOrder.length * this.names.length > 40);
  }

  drawLegend() {
    this.legend.replaceChildren();
    if (this.kind === "heatmap" || this.kind === "box") return;
    const items = [...this.labels].map(([label, {name, origin}]) => {
      const color = this.colors.get(name);
      const look = isPredicted(origin) ? origin : "solid";
      const swatch = element("i", {class: `swatch ${this.kind} ${look}`,
                                   style: `--color:${color}`});
      return element("button", {type: "button", title: "Show or hide this series",
        "aria-pressed": String(!this.hidden.has(label)), onclick: () => {
          if (!this.hidden.delete(label)) this.hidden.add(label);
          this.draw();
        }}, swatch, label);
    });
    if (this.reference) items.push(element("span", {}, element("i", {class: "swatch rule"}),
                                           this.reference.label));
    this.legend.replaceChildren(...items);
  }

  // True when no series has two values in one category.
  eachOnce() {
    return this.panels.every((panel) => panel.series.every((series) =>
      new Set(series.points.map((point) => String(point.x))).size === series.points.length));
  }

  clear() {
    for (const chart of this.charts) chart.chart?.destroy();
    this.charts = [];
    this.grid.replaceChildren();
  }

  forget() {
    allFigures.delete(this);
    waiting.delete(this.view);
    this.clear();
  }
}

function redrawFigures(forPaper = false) {
  for (const figure of allFigures) {
    if (!figure.charts.every((chart) => (chart.canvas ?? chart.holder).isConnected)) {
      for (const chart of figure.charts) chart.chart?.destroy();
      allFigures.delete(figure);
      continue;
    }
    figure.forPaper = forPaper;
    if (figure.charts.length) figure.draw();
  }
}
