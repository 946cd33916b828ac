"use strict";
// Reading the page's data, and numbers, names and elements as people see them.

const DATA = JSON.parse(document.getElementById("data").textContent);

// A column of a frame (frame.py) as a function of the row.
function reader(column) {
  if (!column) return () => null;
  if ("c" in column) return () => column.c;
  if ("v" in column) return (row) => column.v[row];
  return (row) => (column.i[row] < 0 ? null : column.d[column.i[row]]);
}

// The distinct values of a column, in the order in which they first appear.
function distinct(column, length) {
  const read = reader(column), seen = new Set();
  for (let row = 0; row < length; row++) if (read(row) !== null) seen.add(read(row));
  return [...seen];
}

// An element with attributes and children; text children stay text.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function escapeHtml(text) {
  const entities = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"};
  return String(text).replace(/[&<>"']/g, (letter) => entities[letter]);
}

const INFINITE = 1e300;  // how records write infinity

// Four significant digits; whole numbers as they are, with thin spaces from 10,000 on.
function number(value) {
  const size = Math.abs(value);
  if (size >= INFINITE) return value < 0 ? "−∞" : "∞";
  let text;
  if (Number.isInteger(value) && size < 1e15) {
    text = size < 10000 ? String(value) : value.toLocaleString("en").replace(/,/g, "\u2009");
  } else if (size >= 1e6 || size < 1e-3) {
    text = value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
  } else {
    text = String(Number(value.toPrecision(4)));
  }
  return text.replace("-", "−");
}

function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// Where a number comes from decides how it looks. Only measured and counted numbers are solid.
const ORIGINS = ["measured", "counted", "modelled", "simulated", "emulated"];
const DASHES = {modelled: [5, 3], simulated: [7, 2, 1.5, 2], emulated: [1.5, 2]};
const isPredicted = (origin) => Boolean(origin) && origin !== "measured" && origin !== "counted";

// "acc_spmm (simulated)": the origin of a prediction is part of its name.
function seriesLabel(name, origin) {
  return isPredicted(origin) && name !== origin ? `${name} (${origin})` : name;
}

const meaning = (column) => DATA.columns[column] ?? "";

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
  element("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// RFC 4180.
function csv(header, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [header, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

// Calls make() when the element comes near the window, or before printing.
const waiting = new Map();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) makeNow(entry.target);
}, {rootMargin: "500px"});

function makeNow(target) {
  const make = waiting.get(target);
  watcher.unobserve(target);
  waiting.delete(target);
  if (make) make();
}

function whenNear(target, make) {
  waiting.set(target, make);
  watcher.observe(target);
}

const MARKERS = ["circle", "rect", "triangle", "rectRot", "cross", "star", "crossRot"];

function theme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function mixed(color, other, share) {
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const a = parts(color), b = parts(other);
  const mix = a.map((value, index) => Math.round(value * (1 - share) + b[index] * share));
  return "#" + mix.map((value) => value.toString(16).padStart(2, "0")).join("");
}

// The share of full brightness that a colour reflects (WCAG 2).
function luminance(color) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// The colour of the series number `rank`, from the cycle of notebooks/tessera.mplstyle: lighter on
// a dark page, and paler in a second round.
function colorOf(rank) {
  const dark = theme() === "dark", round = Math.floor(rank / DATA.palette.length);
  let color = DATA.palette[rank % DATA.palette.length];
  while (dark && luminance(color) < 0.22) color = mixed(color, "#ffffff", 0.12);
  return round === 0 ? color : mixed(color, dark ? "#000000" : "#ffffff",
                                     Math.min(0.75, 0.4 * round));
}

// The steps of an ablation: shades of one hue in their order.
function stepColor(rank, count) {
  const share = count < 2 ? 0 : rank / (count - 1);
  return theme() === "dark" ? mixed("#1f4e79", "#bfe0fa", share)
                            : mixed("#b3d0e8", "#05306b", share);
}
