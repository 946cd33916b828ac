"use strict";
// Heat maps as tables: a row for each series, a column for each category, the value in the cell.

// Cividis (Nunez, Anderton and Renslow 2018), nine of its colours.
const CIVIDIS = ["#00224e", "#1a386f", "#404c6b", "#5d5f6d", "#777776", "#938e77", "#b2a570",
                 "#d4be5f", "#fee838"];

function cividis(share) {
  const at = Math.min(0.9999, Math.max(0, share)) * (CIVIDIS.length - 1), below = Math.floor(at);
  return mixed(CIVIDIS[below], CIVIDIS[below + 1], at - below);
}

// At most four characters and a sign.
function short(value) {
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size < 0.9995 * limit) continue;
    const scaled = value / limit;
    return (Math.abs(scaled) < 9.95 ? scaled.toFixed(1) : scaled.toFixed(0)) + unit;
  }
  if (size >= 99.95 || value === 0) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  return size >= 0.01 ? value.toFixed(2) : value.toExponential(0);
}

class HeatMap {
  constructor(holder, figure, panel, tell) {
    this.holder = holder;
    this.figure = figure;
    this.panel = panel;
    this.tell = tell;
    this.draw();
  }

  draw() {
    const {figure, panel} = this, columns = figure.categories;
    const log = figure.y.scale === "log", [low, high] = figure.extent;
    const share = (value) => high === low ? 0.5 : log
      ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    this.cells = panel.series.map((series) => {
      const byX = new Map(series.points.map((point) => [String(point.x), point]));
      return columns.map((x) => this.cell(series, byX.get(x), share));
    });
    const rows = panel.series.map((series, index) =>
      element("tr", {}, element("th", {scope: "row"}, seriesLabel(series.name, series.origin)),
              this.cells[index]));
    const head = element("tr", {}, element("td"), columns.map((name) =>
      element("th", {scope: "col"}, element("span", {}, name))));
    this.holder.replaceChildren(
      element("table", {class: "heat", onkeydown: (event) => this.key(event)},
              element("caption", {}, panel.title), element("thead", {}, head),
              element("tbody", {}, rows)),
      this.scale(low, high));
    this.cells.flat().find((cell) => cell.point)?.setAttribute("tabindex", "0");
  }

  cell(series, point, share) {
    if (!point || point.y === null || point.y === undefined)
      return element("td", {class: "none"}, "×");
    const at = share(point.y);
    const cell = element("td", {
      class: isPredicted(series.origin) ? `predicted ${series.origin}` : "", tabindex: -1,
      style: `background-color:${cividis(at)};color:${at < 0.55 ? "#fff" : "#000"}`,
      onmouseenter: () => this.tell(cell.point), onfocus: () => this.tell(cell.point, true),
      onclick: () => this.figure.open(cell.point, cell),
    }, element("span", {}, short(point.y)));
    cell.point = {...point, label: seriesLabel(series.name, series.origin),
                  panel: this.panel.title};
    return cell;
  }

  scale(low, high) {
    const stops = CIVIDIS.join(",");
    return element("p", {class: "colour-scale"}, short(low),
                   element("i", {style: `background:linear-gradient(90deg,${stops})`}), short(high),
                   ` ${this.figure.y.label}${this.figure.y.scale === "log" ? ", log scale" : ""}`);
  }

  key(event) {
    const moves = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const row = this.cells.findIndex((cells) => cells.includes(event.target));
    if (row < 0) return;
    const column = this.cells[row].indexOf(event.target);
    if (event.key === "Enter") this.figure.open(event.target.point, event.target);
    else if (moves[event.key]) this.move(row, column, ...moves[event.key]);
    else return;
    event.preventDefault();
  }

  // To the next cell that holds a value in this direction.
  move(row, column, down, right) {
    for (let r = row + down, c = column + right; this.cells[r]?.[c]; r += down, c += right) {
      if (!this.cells[r][c].point) continue;
      this.cells[row][column].setAttribute("tabindex", "-1");
      this.cells[r][c].setAttribute("tabindex", "0");
      this.cells[r][c].focus();
      return;
    }
  }
}
