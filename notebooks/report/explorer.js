"use strict";
// Any two columns of a table against each other, for the rows that pass its filters.

const MANY_SERIES = 21;
const FIRST_Y = ["gflops", "time_us", "median_us", "smape_pct", "mean_nnz_tc", "reorder_s", "pack_s",
                 "footprint_bytes"];
const FIRST_SERIES = ["case", "step", "kernel", "series", "reorder", "format"];

class Explorer {
  constructor(section, view, spec) {
    this.section = section;
    this.view = view;
    this.columns = section.columns;
    const all = [...this.columns.values()].filter((c) => c.distinct.length > 1);
    const numeric = all.filter((c) => c.numeric && c.name !== "seed").map((c) => c.name);
    const texts = all.filter((c) => !c.numeric && c.distinct.length <= 400).map((c) => c.name);
    const groups = all.filter((c) => c.distinct.length <= MANY_SERIES).map((c) => c.name);
    const first = (wanted, present) => wanted.find((name) => present.includes(name));
    this.choice = {
      x: first([spec.x, "matrix"], [...texts, ...numeric]) ?? texts[0] ?? numeric[0],
      y: first([spec.y, ...FIRST_Y], numeric) ?? numeric.at(-1),
      series: first([spec.series, ...FIRST_SERIES], groups) ?? "",
      panel: "",
    };
    const n = this.columns.get("n");
    if (n && n.distinct.length > 1 && n.distinct.length <= 6) this.choice.panel = "n";
    this.place = element("div");
    this.block = element("details", {class: "explorer", open: true},
      element("summary", {}, "Explore"),
      element("div", {class: "tools"}, this.select("y", numeric),
              this.select("x", [...texts.filter((name) => name !== "point_id"), ...numeric]),
              this.select("series", ["", ...groups]), this.select("panel", ["", ...groups])),
      this.place);
    if (!this.choice.y || !this.choice.x) this.block.hidden = true;
    else whenNear(this.place, () => this.update());
  }

  select(role, names) {
    const options = names.map((name) => element("option", {
      value: name, selected: name === this.choice[role]}, name || "none"));
    return element("label", {}, `${role} `, element("select", {
      "data-role": role, onchange: (event) => {
        this.choice[role] = event.target.value;
        this.update();
      }}, options));
  }

  update() {
    if (waiting.has(this.place)) makeNow.call(null, this.place);
    else this.draw();
  }

  draw() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.redraw(), 30);
  }

  redraw() {
    this.figure?.forget();
    const figure = this.data();
    this.place.replaceChildren();
    if (!figure) return;
    this.figure = new FigureView(figure, this.section.openPoint);
    this.place.append(this.figure.view);
    makeNow(this.figure.view);
  }

  data() {
    const of = (role) => this.columns.get(this.choice[role]);
    const [x, y, series, panel] = ["x", "y", "series", "panel"].map(of);
    const ids = this.columns.get("point_id");
    const panels = new Map();
    let low = Infinity, high = -Infinity, xLow = Infinity, xHigh = -Infinity;
    for (const row of this.view.passing()) {
      const value = y.read(row), at = x.read(row);
      if (typeof value !== "number" || at === null || Math.abs(value) >= INFINITE) continue;
      const title = panel ? `${panel.name}: ${shown(panel.read(row))}` : "";
      const name = series ? shown(series.read(row)) : y.name;
      const origin = y.origin(row) ?? "";
      if (!panels.has(title)) panels.set(title, new Map());
      const all = panels.get(title), key = `${name}\n${origin}`;
      if (!all.has(key)) all.set(key, {name, origin, points: []});
      all.get(key).points.push({x: x.numeric ? at : shown(at), y: value,
                                point: ids ? ids.read(row) : undefined});
      [low, high] = [Math.min(low, value), Math.max(high, value)];
      if (x.numeric) [xLow, xHigh] = [Math.min(xLow, at), Math.max(xHigh, at)];
    }
    if (!panels.size) return null;
    const scale = (least, most) => least > 0 && most > 50 * least ? "log" : "linear";
    return {
      id: "explore", kind: "scatter", title: `${y.name} by ${x.name}`,
      caption: [meaning(y.name) && `${y.name}: ${meaning(y.name)}.`,
                meaning(x.name) && `${x.name}: ${meaning(x.name)}.`].filter(Boolean).join(" "),
      x: {label: x.name, scale: x.numeric ? scale(xLow, xHigh) : "category"},
      y: {label: y.name, scale: scale(low, high)},
      panels: [...panels].map(([title, all]) => ({title, series: [...all.values()]})),
    };
  }
}
