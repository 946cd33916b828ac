"use strict";
// Tables that sort and filter, by DataTables.

const PAGE_LENGTH = 25;
const PRINTED_ROWS = 500;  // a table with more of them prints the page that is open
const views = new Map();   // by the id of the table's element

// A filter of one column: "> 10", "<= 5", "2..8", "= 64", "!rcm", or a part of the text.
function filterOf(text) {
  const plain = text.trim().toLowerCase();
  if (!plain) return null;
  const toNumber = (word) => Number(word.replace("−", "-"));
  const compare = plain.match(/^(<=|>=|<|>|=|!=)\s*(.+)$/);
  if (compare && !Number.isNaN(toNumber(compare[2]))) {
    const limit = toNumber(compare[2]);
    const tests = {"<": (v) => v < limit, ">": (v) => v > limit, "<=": (v) => v <= limit,
                   ">=": (v) => v >= limit, "=": (v) => v === limit, "!=": (v) => v !== limit};
    return (value) => typeof value === "number" && tests[compare[1]](value);
  }
  const range = plain.match(/^([-−\d.e+]+)\.\.([-−\d.e+]+)$/);
  if (range) {
    const [low, high] = [toNumber(range[1]), toNumber(range[2])];
    return (value) => typeof value === "number" && value >= low && value <= high;
  }
  const content = (value) => shown(value).toLowerCase();
  if (plain.startsWith("=")) return (value) => content(value) === plain.slice(1).trim();
  if (plain.startsWith("!")) return (value) => !content(value).includes(plain.slice(1));
  return (value) => content(value).includes(plain);
}

$.fn.dataTable.ext.errMode = "throw";
$.fn.dataTable.ext.search.push((settings, texts, index, row) => {
  const view = views.get(settings.nTable.id);
  return !view || view.filters.every(([read, test]) => test(read(row.at)));
});

// A table of rows, which are numbers. A column has a name, read(row) and origin(row).
class TableView {
  constructor(holder, {file, columns, rows, open = null, changed = null}) {
    Object.assign(this, {holder, file, columns, rows, open, changed});
    this.filters = [];
    this.texts = new Map();  // of the filters, by column name
    this.search = "";
    this.element = element("div", {class: "table-scroll"});
    holder.append(this.element);
    this.build();
  }

  build() {
    this.api?.destroy();
    const id = `table-${views.size}`;
    this.filters = [];
    const head = element("thead", {},
      element("tr", {}, this.columns.map((c) => element("th", {title: meaning(c.name)}, c.name))),
      element("tr", {class: "filters"}, this.columns.map((c) => this.filterCell(c))));
    const table = element("table", {id, class: "data"}, head);
    this.element.replaceChildren(table);
    views.set(id, this);
    this.readFilters();
    this.api = $(table).DataTable({
      data: this.rows.map((at) => ({at})), columns: this.columns.map((c) => this.columnOptions(c)),
      deferRender: true, autoWidth: false, order: [], orderCellsTop: true, dom: "tlip",
      pageLength: PAGE_LENGTH, lengthMenu: [[25, 100, 500, -1], [25, 100, 500, "all"]],
      search: {search: this.search},
      language: {info: "_START_ to _END_ of _TOTAL_", infoFiltered: "(of _MAX_)", infoEmpty: "none",
                 zeroRecords: "no row passes the filters", lengthMenu: "_MENU_ rows a page",
                 paginate: {previous: "‹", next: "›"}},
      createdRow: (tr, row) => this.makeOpen(tr, row.at),
    });
    this.api.on("draw.dt", () => this.changed?.());
  }

  columnOptions(column) {
    const numeric = column.numeric;
    return {
      type: numeric ? "num" : "string", className: numeric ? "number" : "",
      data: (row, type) => {
        const value = column.read(row.at);
        if (type === "display") return this.display(value, column.origin(row.at), column.name);
        // DataTables decodes what it searches as HTML, which would load a picture in a name.
        if (!numeric) return type === "filter" ? escapeHtml(shown(value)) : shown(value);
        return typeof value === "number" ? value : type === "sort" ? -Infinity : "";
      },
    };
  }

  display(value, origin, name) {
    const text = escapeHtml(shown(value));
    if (typeof value === "number" && isPredicted(origin))
      return `<span class="predicted" title="${escapeHtml(origin)}">${text}</span>`;
    if (name === "origin" && value)
      return `<span class="origin ${isPredicted(value) ? "hollow" : "solid"}">${text}</span>`;
    return name === "status" ? `<span class="status ${text}">${text}</span>` : text;
  }

  makeOpen(tr, row) {
    if (!this.open) return;
    tr.tabIndex = 0;
    tr.addEventListener("click", () => this.open(row, tr));
    tr.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.open(row, tr);
    });
  }

  filterCell(column) {
    const values = column.distinct;
    const label = `Filter ${column.name}`;
    const apply = (event) => {
      this.texts.set(column.name, event.target.value);
      clearTimeout(this.timer);
      this.timer = setTimeout(() => { this.readFilters(); this.api.draw(); }, 120);
    };
    const old = this.texts.get(column.name) ?? "";
    if (!column.numeric && values && values.length > 1 && values.length <= 16) {
      const options = values.map((v) => element("option", {value: `=${shown(v)}`,
        selected: old === `=${shown(v)}`}, shown(v)));
      return element("th", {}, element("select", {"aria-label": label, onchange: apply},
                                       element("option", {value: ""}, "all"), options));
    }
    return element("th", {}, element("input", {
      type: "text", "aria-label": label, placeholder: column.numeric ? "> 0" : "text",
      title: "text, !text, =text, > 10, <= 5, 2..8", value: old, oninput: apply}));
  }

  readFilters() {
    this.filters = this.columns.map((c) => [c.read, filterOf(this.texts.get(c.name) ?? "")])
      .filter(([, test]) => test);
  }

  find(text) {
    this.search = text;
    this.api.search(text).draw();
  }

  show(columns) {
    this.columns = columns;
    this.build();
    this.changed?.();
  }

  // The rows that pass the filters, in the order of the table.
  passing() {
    return this.api.rows({search: "applied"}).data().toArray().map((row) => row.at);
  }

  save() {
    const rows = this.passing().map((row) => this.columns.map((c) => c.read(row)));
    download(this.file, csv(this.columns.map((c) => c.name), rows));
  }

  print(on) {
    if (this.api.rows({search: "applied"}).count() > PRINTED_ROWS) return;
    if (on) this.length = this.api.page.len();
    this.api.page.len(on ? -1 : this.length ?? PAGE_LENGTH).draw(false);
  }
}

function searchTools(view) {
  let timer;
  return [
    element("input", {type: "search", placeholder: "Search all columns",
      "aria-label": "Search all columns", oninput: (event) => {
        clearTimeout(timer);
        timer = setTimeout(() => view.find(event.target.value), 120);
      }}),
    element("button", {type: "button", title: "Save the rows that pass the filters",
                       onclick: () => view.save()}, "CSV"),
  ];
}

// A table of arrays, such as the values of a figure.
function plainTable(holder, file, names, rows, origins) {
  const columns = names.map((name, at) => {
    const values = [...new Set(rows.map((row) => row[at]).filter((v) => v !== undefined))];
    return {name, read: (row) => rows[row][at] ?? null, origin: (row) => origins[row],
            distinct: values, numeric: values.every((v) => v === null || typeof v === "number")};
  });
  const tools = element("div", {class: "tools"});
  holder.append(tools);
  const view = new TableView(holder, {file, columns, rows: rows.map((_, row) => row)});
  tools.append(...searchTools(view));
}

// The columns of a section's rows, ready for tables and explorers.
function columnsOf(section) {
  const {rows, groups, origins} = section, made = new Map();
  for (const [name, column] of Object.entries(rows.columns)) {
    const values = distinct(column, rows.length);
    made.set(name, {
      name, read: reader(column), distinct: values,
      numeric: values.length > 0 && values.every((value) => typeof value === "number"),
      origin: (row) => groups ? origins[groups[row]][name] : "",
    });
  }
  return made;
}

// A section's table with its tools: search, choice of columns, CSV.
class SectionTable {
  constructor(section, spec, open) {
    this.all = section.columns;
    const shownColumns = spec.columns.filter((name) => this.all.has(name));
    const constant = shownColumns.filter((name) => this.isConstant(section, name));
    this.chosen = new Set(shownColumns.length > 4
      ? shownColumns.filter((name) => !constant.includes(name)) : shownColumns);
    if (!spec.explore) this.chosen = new Set(shownColumns);
    this.rows = spec.rows ?? Array.from({length: section.rows.length}, (_, row) => row);
    this.holder = element("div", {class: "table-block"});
    this.tools = element("div", {class: "tools"});
    this.spec = spec;
    this.section = section;
    this.open = open;
    this.block = element("section", {class: "table", id: `${section.anchor}-${spec.id}`},
      element("h3", {}, spec.title, element("small", {}, ` ${this.rows.length} rows`)),
      this.note(section, constant), this.tools, this.holder,
      element("p", {class: "caption"}, "Upright numbers are measured or counted; ",
              element("span", {class: "predicted"}, "slanted and dotted"),
              " ones are predicted. A row opens everything about its point."));
    if (!section.groups) this.block.lastChild.remove();
    this.start();
  }

  isConstant(section, name) {
    return "c" in section.rows.columns[name] && section.rows.length > 1;
  }

  note(section, constant) {
    if (!this.spec.explore || !constant.length || section.rows.length < 2) return null;
    const texts = constant.map((name) => `${name} = ${shown(section.rows.columns[name].c)}`);
    return element("p", {class: "caption"}, `The same in every row: ${texts.join(", ")}.`);
  }

  start() {
    const {section, spec} = this;
    this.view = new TableView(this.holder, {
      file: `${section.id}_${spec.id}.csv`.replace(/[^\w.+-]/g, "_"), columns: this.columns(),
      rows: this.rows, open: section.groups ? this.open : null,
      changed: () => this.explorer?.update()});
    this.tools.append(...searchTools(this.view), this.chooser());
    if (spec.explore) {
      this.explorer = new Explorer(section, this.view, this.spec);
      this.block.insertBefore(this.explorer.block, this.tools);
    }
  }

  columns() {
    return [...this.chosen].map((name) => this.all.get(name));
  }

  chooser() {
    const list = element("div", {class: "choices"});
    const details = element("details", {class: "chooser"},
      element("summary", {}, `Columns: ${this.all.size}`), list);
    details.addEventListener("toggle", () => {
      if (list.firstChild) return;
      list.append(...[...this.all.keys()].sort().map((name) =>
        element("label", {title: meaning(name)}, element("input", {
          type: "checkbox", checked: this.chosen.has(name), onchange: (event) => {
            if (event.target.checked) this.chosen.add(name);
            else this.chosen.delete(name);
            this.view.show(this.columns());
          }}), name)));
    });
    return details;
  }
}
