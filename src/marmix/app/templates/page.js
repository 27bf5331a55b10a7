"use strict";
{
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const count = (value) => value.toLocaleString("en");
  const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)}\u00a0%`);
  const rounded = (share) => `${Math.round(100 * share)}\u00a0%`;

  document.documentElement.classList.add("scripted");

  // The threshold slider.
  if (data.thresholds.length > 0) {
    const cut = byId("cut");
    const positive = byId("positive"); // only if there are several classes
    const svg = byId("curves");
    const scores = ["precision", "recall", "accuracy"];

    const drawn = (tag, attributes) => {
      const node = document.createElementNS(svg.namespaceURI, tag);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      return node;
    };

    // A curve breaks where its score is undefined.
    const path = (at, values) => {
      let pen = "M";
      return values
        .map((value, i) => {
          if (value === null) {
            pen = "M";
            return "";
          }
          const step = `${pen}${(100 * at[i]).toFixed(2)} ${(100 - 100 * value).toFixed(2)}`;
          pen = "L";
          return step;
        })
        .join("");
    };

    const chosen = () => data.thresholds[positive ? Number(positive.value) : 0];

    const draw = () => {
      const entry = chosen();
      const grid = [0, 25, 50, 75, 100].map((y) => drawn("path", { d: `M0 ${y}H100`, class: "grid" }));
      const curves = scores.map((key) => drawn("path", { d: path(entry.at, entry[key]), class: `curve ${key}` }));
      svg.replaceChildren(...grid, ...curves, drawn("path", { id: "mark", class: "mark" }));
      cut.max = String(entry.at.length - 1);
    };

    const update = () => {
      const entry = chosen();
      const i = Number(cut.value);
      const at = rounded(entry.at[i]);
      byId("mark").setAttribute("d", `M${100 * entry.at[i]} 0V100`);
      byId("cut-class").textContent = entry.positive;
      byId("cut-value").textContent = at;
      cut.setAttribute("aria-valuetext", at);
      for (const key of scores) byId(key).textContent = percent(entry[key][i]);
      for (const key of ["unlabelled", "all"]) {
        const { above, of } = entry[key];
        byId(`${key}-above`).textContent = count(above[i]);
        byId(`${key}-below`).textContent = count(of - above[i]);
        byId(`${key}-bar`).style.width = `${of ? (100 * above[i]) / of : 0}%`;
      }
      byId("cut-words").textContent =
        `At ${at}: precision ${percent(entry.precision[i])}, recall ${percent(entry.recall[i])}, accuracy ` +
        `${percent(entry.accuracy[i])}; ${count(entry.unlabelled.above[i])} of ${count(entry.unlabelled.of)} rows without a label ` +
        `and ${count(entry.all.above[i])} of ${count(entry.all.of)} rows at or above.`;
    };

    cut.addEventListener("input", update);
    positive?.addEventListener("change", () => {
      draw();
      update();
    });
    byId("slider").hidden = false;
    draw();
    update();
  }

  // The table of rows: `order` holds the sorted positions of the rows that pass the filters.
  const { columns, numeric, rows, shown, page, label, uncertainty } = data.table;
  if (rows.length > 0) {
    const body = byId("row-table").tBodies[0];
    const heads = [...byId("row-table").querySelectorAll("th")];
    const search = byId("search");
    const byClass = byId("by-class"); // only if the table has such a column
    const doubt = byId("doubt"); // likewise
    const more = byId("more");
    const collator = new Intl.Collator("en", { numeric: true });
    // Numbers may be written as text, as in the file.
    const asNumber = (cell) => (cell === null || String(cell).trim() === "" ? NaN : Number(cell));
    const texts = rows.map((row) => row.map((cell) => (cell === null ? "" : String(cell))).join("\n").toLowerCase());
    const doubts = uncertainty === null ? [] : rows.map((row) => asNumber(row[uncertainty])).filter((value) => !Number.isNaN(value));
    const [least, most] = [Math.min(...doubts), Math.max(...doubts)];
    const classes = label === null ? [] : [...new Set(rows.map((row) => row[label]))];
    let sorted = { column: null, sign: 1 };
    let order = [];
    let limit = page;

    const isEmpty = (cell, column) => (numeric[column] ? Number.isNaN(asNumber(cell)) : cell === null || cell === "");

    // Empty cells always come last; equal cells stay in order of uncertainty.
    const compare = (a, b) => {
      const { column, sign } = sorted;
      const [first, second] = [rows[a][column], rows[b][column]];
      const gaps = isEmpty(first, column) - isEmpty(second, column);
      if (gaps !== 0 || isEmpty(first, column)) return gaps || a - b;
      const difference = numeric[column]
        ? asNumber(first) - asNumber(second)
        : collator.compare(String(first), String(second));
      return sign * difference || a - b;
    };

    const bound = () => {
      if (!doubt || doubts.length === 0 || doubt.value === "0") return -Infinity;
      return doubt.value === "100" ? most : least + ((most - least) * Number(doubt.value)) / 100;
    };

    const passes = (i, words, low) =>
      (words === "" || texts[i].includes(words)) &&
      (!byClass || byClass.value === "" || rows[i][label] === classes[Number(byClass.value)]) &&
      (low === -Infinity || asNumber(rows[i][uncertainty]) >= low);

    const row = (i) => {
      const line = document.createElement("tr");
      line.append(
        ...shown[i].map((text, column) => {
          const cell = document.createElement("td");
          cell.className = numeric[column] ? "number" : "text";
          cell.textContent = text;
          return cell;
        }),
      );
      return line;
    };

    const update = () => {
      body.replaceChildren(...order.slice(0, limit).map(row));
      const left = order.length - limit;
      more.hidden = left <= 0;
      more.textContent = `Show ${count(Math.min(page, left))} more`;
      const matches = order.length === rows.length ? count(rows.length) : `${count(order.length)} of ${count(rows.length)}`;
      byId("shown").textContent =
        order.length === 0 ? "No row matches." : `${matches} rows; ${count(Math.min(limit, order.length))} shown.`;
    };

    const choose = () => {
      const [words, low] = [search.value.trim().toLowerCase(), bound()];
      order = [...rows.keys()].filter((i) => passes(i, words, low));
      if (sorted.column !== null) order.sort(compare);
      limit = page;
      if (doubt) byId("doubt-value").textContent = low === -Infinity ? "any" : low.toPrecision(3);
      update();
    };

    heads.forEach((head, column) => {
      head.firstElementChild.addEventListener("click", () => {
        sorted = { column, sign: sorted.column === column ? -sorted.sign : 1 };
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", sorted.sign > 0 ? "ascending" : "descending");
        choose();
      });
    });
    classes.forEach((name, i) => {
      const text = name === null || name === "" ? "(none)" : shown[rows.findIndex((cells) => cells[label] === name)][label];
      byClass.append(new Option(text, String(i)));
    });
    search.addEventListener("input", choose);
    byClass?.addEventListener("change", choose);
    doubt?.addEventListener("input", choose);
    more.addEventListener("click", () => {
      limit += page;
      update();
    });

    // RFC 4180. Cells that a spreadsheet would run as a formula get an apostrophe; numbers do not.
    const number = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
    const formula = /^[\t\r\n]|^[\s\p{Z}\p{C}]*[=+\-@\u2212\ufb29]/u;
    const field = (value) => {
      const text = value === null ? "" : String(value);
      const safe = (formula.test(text) || formula.test(text.normalize("NFKC"))) && !number.test(text) ? `'${text}` : text;
      return /[",\r\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
    };

    byId("download").addEventListener("click", () => {
      const lines = [columns, ...order.map((i) => rows[i])].map((cells) => cells.map(field).join(",") + "\r\n");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(["\ufeff", ...lines], { type: "text/csv;charset=utf-8" })); // marked as UTF-8
      link.download = "rows-to-label.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
    byId("tools").hidden = false;
    choose();
  }

  // The command.
  const copy = byId("copy");
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const command = byId("command");
    try {
      await navigator.clipboard.writeText(command.textContent);
    } catch {
      getSelection().selectAllChildren(command);
      document.execCommand("copy");
    }
    byId("copied").textContent = copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 2000);
  });
}
