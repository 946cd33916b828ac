"use strict";
// The page: a section for each experiment or text, the bar above them, theme, printing, links.

function counted(counts) {
  return Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ");
}

function unique(values) {
  return [...new Set(values.filter(Boolean))].join("; ");
}

function facts(section) {
  const envs = Object.values(section.environments ?? {});
  if (!section.records || !section.records.length) return null;
  const total = section.records.length;
  const dates = distinct(section.records.columns["/finished_at"], total).sort();
  const first = dates[0]?.slice(0, 10), last = dates.at(-1)?.slice(0, 10);
  const entries = [
    ["Points", (section.planned ? `${total} of ${section.planned}: ` : `${total}: `) +
      counted(section.statuses)],
    ["Origins", counted(section.origins_count)],
    ["GPU", unique(envs.map((e) => e.gpu?.available
      ? `${e.gpu.name}, driver ${e.gpu.driver}, CUDA ${e.gpu.cuda_runtime}` : "")) || "none"],
    ["Host", unique(envs.map((e) => e.host?.cpu))],
    ["Commit", unique(envs.map((e) => e.build?.commit && e.build.commit +
      (e.build.dirty ? " with changes" : "")))],
    ["Finished", first === last ? first : `${first} to ${last}`],
    ["Paper", section.paper],
    ["Config", section.path ? `${section.path}, hash ${section.hash}` : ""],
    ["Records", section.folder],
    ["Again", section.path ? `tessera run ${section.path.replace(/\.toml$/, "")}` : ""],
  ];
  const devices = section.columns.get("device");
  if (devices) entries.splice(3, 0, ["Devices", devices.distinct.join(", ")]);
  return element("dl", {class: "facts"}, entries.filter(([, value]) => value)
    .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

// Says it when nothing here was measured.
function warning(section) {
  const origins = Object.keys(section.origins_count ?? {});
  if (!origins.length || origins.includes("measured")) return null;
  return element("p", {class: "warning"}, `No time on this page was measured: its points are ` +
    `${origins.join(", ")}.`);
}

const RELATIONS = {at_least: "at least", at_most: "at most", within: "about"};

function verdicts(section) {
  if (!section.verdicts?.length) return null;
  const rows = section.verdicts.map((v) => element("tr", {title: v.text},
    element("td", {}, element("span", {class: `verdict ${v.verdict.replace(" ", "-")}`}, v.verdict)),
    element("th", {scope: "row"}, v.name),
    element("td", {class: "number"}, v.found === undefined ? "" : number(v.found)),
    element("td", {class: "number"}, `${RELATIONS[v.trend]} ${number(v.expected)}` +
      (v.tolerance ? ` ± ${number(100 * v.tolerance)} %` : "")),
    element("td", {}, `${v.statistic} of ${v.column}${v.with ? ` with ${v.with}` : ""}` +
      (v.ratio ? ", ratio" : "")),
    element("td", {class: "number"}, String(v.values)),
    element("td", {class: "number"}, v.matrices === undefined ? ""
      : `${v.matrices}, needs ${v.needed_matrices}`),
    element("td", {}, v.source)));
  const heads = ["Verdict", "Claim", "Found", "Expected", "Statistic", "Values", "Matrices", "Source"];
  return element("section", {id: `${section.anchor}-verdicts`}, element("h3", {}, "Verdicts"),
    element("div", {class: "table-scroll"}, element("table", {class: "verdicts"},
      element("thead", {}, element("tr", {}, heads.map((h) => element("th", {scope: "col"}, h)))),
      element("tbody", {}, rows))));
}

function notOk(section) {
  const {reasons = [], skips = []} = section;
  if (!reasons.length && !skips.length) return null;
  return element("section", {id: `${section.anchor}-missing`},
    element("h3", {}, "Points without a result"),
    element("ul", {class: "skips"}, skips.map((text) => element("li", {}, text))),
    element("table", {class: "verdicts"}, reasons.map((r) => element("tr", {},
      element("td", {class: "number"}, String(r.count)),
      element("td", {}, element("span", {class: `status ${r.status}`}, r.status)),
      element("td", {}, r.reason)))));
}

function figures(section) {
  const left = section.figures.filter((figure) => !section.placed?.has(figure.id));
  const views = left.map((figure) => new FigureView(figure, section.openPoint).view);
  views.push(...(section.pictures ?? []).map((picture) => element("figure", {},
    element("figcaption", {}, element("h4", {}, picture.title)),
    element("img", {src: picture.url, alt: picture.title, loading: "lazy"}))));
  const empty = section.empty_figures ?? [];
  if (!views.length && !empty.length) return null;
  return element("section", {id: `${section.anchor}-figures`},
    element("h3", {}, section.html ? "Further figures" : "Figures"),
    element("div", {class: "figures"}, views),
    empty.length ? element("p", {class: "caption"}, "Without rows so far: " +
      empty.map((figure) => figure.title || figure.id).join("; ") + ".") : null);
}

// The text of a results folder. It is committed text, turned into HTML when the page was made; the
// places for figures in it are filled here.
function prose(section) {
  if (!section.html) return null;
  const text = element("div", {class: "prose"});
  text.innerHTML = section.html;
  section.placed = new Set();
  for (const place of text.querySelectorAll("[data-figure]")) {
    const figure = section.figures.find((f) => f.id === place.dataset.figure);
    section.placed.add(figure.id);
    place.replaceWith(new FigureView(figure, section.openPoint).view);
  }
  for (const table of text.querySelectorAll("table"))
    table.replaceWith(element("div", {class: "table-scroll"}, table.cloneNode(true)));
  return text;
}

// A table becomes one of DataTables when it comes near the window.
function tables(section) {
  return section.tables.map((spec) => {
    const place = element("div", {class: "later", id: `${section.anchor}-${spec.id}`},
                          element("h3", {}, spec.title));
    const rows = spec.frame ? {...section, rows: spec.frame, groups: null, origins: null} : section;
    whenNear(place, () => {
      if (spec.frame) Object.assign(rows, {columns: csvColumns(spec)});
      place.replaceWith(new SectionTable(rows, spec, (row, from) =>
        openPoint(section, section.columns.get("point_id").read(row), from)).block);
    });
    return place;
  });
}

// The columns of a committed CSV file: the origin is a column of its own, or part of the name.
function csvColumns(spec) {
  const columns = columnsOf({rows: spec.frame});
  const origin = columns.get("origin");
  for (const [name, column] of columns) {
    const byName = name.match(/^(simulated|predicted|modelled)_/)?.[1];
    column.origin = (row) => byName ?? (name.startsWith("counted") ? "counted" : origin?.read(row));
  }
  return columns;
}

function makeSection(section, index) {
  section.anchor = `s${index}`;
  section.columns = section.rows ? columnsOf(section) : new Map();
  section.recordOf = new Map();
  if (section.records) {
    const id = reader(section.records.columns["/point_id"]);
    for (let at = 0; at < section.records.length; at++) section.recordOf.set(id(at), at);
  }
  section.openPoint = (id, from) => openPoint(section, id, from);
  return element("article", {id: section.anchor},
    section.html ? null : element("h2", {}, section.title),
    section.question ? element("p", {class: "question"}, section.question) : null,
    warning(section), facts(section),
    prose(section), verdicts(section), notOk(section), figures(section),
    tables(section),
    section.config ? element("details", {class: "config", id: `${section.anchor}-config`},
      element("summary", {}, `What was asked: ${section.path}`),
      element("pre", {}, section.config)) : null);
}

function setTheme(name, forPaper = false) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  redrawFigures(forPaper);
}

function bar() {
  const made = DATA.made ?? {};
  const link = ({href, text, here}) => element("a", {href, "aria-current": here ? "page" : null}, text);
  const own = DATA.sections.length > 1 || !DATA.links.length
    ? DATA.sections.map((s) => ({href: `#${s.anchor}`, text: s.id})) : [];
  document.getElementById("bar").append(
    element("strong", {}, "tessera"),
    element("nav", {"aria-label": "Pages and sections"}, [...DATA.links, ...own].map(link)),
    element("span", {class: "made"}, `made ${made.at?.slice(0, 16).replace("T", " ") ?? ""} by ` +
      `commit ${made.build?.commit ?? "?"}`),
    element("label", {class: "theme"}, "Theme ", element("select", {
      onchange: (event) => setTheme(event.target.value)},
      ["auto", "light", "dark"].map((name) => element("option", {value: name}, name)))));
}

function printing(on) {
  if (on) {
    document.documentElement.dataset.shown = document.documentElement.dataset.theme ?? "auto";
    for (const target of [...waiting.keys()]) makeNow(target);
    for (const target of [...waiting.keys()]) makeNow(target);  // what these have brought
  }
  setTheme(on ? "light" : document.documentElement.dataset.shown ?? "auto", on);
  for (const view of views.values()) if (view.element.isConnected) view.print(on);
}

function followLink() {
  const match = location.hash.match(/^#point=([^/]*)\/(.*)$/);
  if (!match) return;
  const [id, point] = match.slice(1).map(decodeURIComponent);
  const section = DATA.sections.find((s) => s.id === id);
  if (section) openPoint(section, point);
}

function start() {
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  const content = document.getElementById("content");
  content.append(...DATA.sections.map(makeSection), ...[timelinesArticle()].filter(Boolean));
  bar();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redrawFigures());
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
  addEventListener("hashchange", followLink);
  followLink();
  // Everything in the window has been drawn in the frame after the observers' first report.
  requestAnimationFrame(() => setTimeout(() => {
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  }, 60));
}

start();
