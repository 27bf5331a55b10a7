"use strict";
{
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const store = `marmix audit ${data.plan}`;
  const n = data.ids.length;
  const UNSURE = -1;
  const PAUSE = 400; // milliseconds after a new row in which an answer is taken for one of the row before
  const empty = () => ({ answers: {}, notes: {}, done: [], downloaded: true }); // by the number of the row; done: the order of the answers
  let state = empty();
  let at = 0;
  let since = -Infinity;

  try {
    state = JSON.parse(localStorage.getItem(store)) || state;
  } catch {
    byId("said").textContent = "This browser keeps nothing: download the answers before you close the page.";
  }
  const keep = () => {
    try {
      localStorage.setItem(store, JSON.stringify(state));
    } catch {
      // the warning before the page closes remains
    }
  };

  const node = (tag, text = "") => Object.assign(document.createElement(tag), { textContent: text });
  const answered = () => Object.keys(state.answers).length;
  const named = (answer) => (answer === UNSURE ? "can't tell" : data.classes[answer]);

  const buttons = data.classes.map((name, k) => {
    const button = node("button", name);
    if (data.keys[k]) button.append(node("kbd", data.keys[k]));
    button.addEventListener("click", () => answer(k));
    byId("classes").append(button);
    return button;
  });

  const show = (said = "") => {
    const done = at === n;
    byId("row").hidden = done;
    byId("done").hidden = !done;
    byId("progress").value = answered();
    byId("count").textContent = `${answered()} of ${n} answered`;
    let first = 0; // rows that are answered without a gap
    while (first in state.answers) first += 1;
    const told = Object.values(state.answers).every((answer) => answer !== UNSURE);
    byId("width").textContent = "";
    if (first < answered()) byId("width").textContent = `Row ${first + 1} has no answer yet, though a later one has.`;
    else if (first > 0 && told && data.widths.length > 0)
      byId("width").textContent = `If you stop here, the share of wrong labels is known to about ±\u00a0${(100 * data.widths[first - 1]).toFixed(0)}\u00a0% or better.`;
    for (const button of [...buttons, byId("unsure"), byId("note"), byId("forth")]) button.disabled = done;
    byId("back").disabled = at === 0;
    byId("undo").disabled = state.done.length === 0;
    const [last] = state.done.at(-1) || [];
    byId("undo").firstChild.data = last === undefined ? "Undo " : `Undo row ${last + 1}: ${named(state.answers[last])} `;
    byId("forget").disabled = !state.downloaded || answered() === 0;
    byId("download").disabled = answered() === 0;
    if (!done) {
      const given = state.answers[at];
      byId("title").textContent = `Row ${at + 1} of ${n}`;
      byId("answer").textContent = given === undefined ? "" : `Your answer: ${named(given)}`;
      buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(given === k)));
      byId("unsure").setAttribute("aria-pressed", String(given === UNSURE));
      byId("note").value = state.notes[at] || "";
      const shown = [];
      const features = [];
      data.columns.forEach(({ name, kind }, j) => {
        const cell = data.cells[at][j];
        if (kind === "feature") {
          const pair = node("div");
          pair.append(node("dt", name), node("dd", cell === "" ? "–" : cell));
          features.push(pair);
        } else if (kind === "image" && cell !== "") {
          const figure = node("figure");
          figure.append(Object.assign(node("img"), { src: cell, alt: `${name} of this row` }), node("figcaption", name));
          shown.push(figure);
        } else {
          shown.push(node("h3", name), node("p", cell === "" ? "–" : cell));
        }
      });
      byId("shown").replaceChildren(...shown);
      byId("features").replaceChildren(...features);
    }
    byId("said").textContent = `${said}${said && ". "}${done ? "Every row is answered." : byId("title").textContent}`;
  };

  const go = (place, said) => {
    at = place;
    since = Date.now();
    show(said);
    scrollTo(0, 0);
    byId(at === n ? "end" : "title").focus({ preventScroll: true });
  };

  // The next row without an answer after a place, then from the start.
  const next = (place) => {
    for (let step = 1; step <= n; step += 1) if (!((place + step) % n in state.answers)) return (place + step) % n;
    return n;
  };

  const answer = (k) => {
    if (at === n || Date.now() - since < PAUSE) return;
    state.done.push([at, state.answers[at]]);
    state.answers[at] = k;
    state.downloaded = false;
    keep();
    go(next(at), named(k));
  };

  const undo = () => {
    if (state.done.length === 0) return;
    const [place, before] = state.done.pop();
    if (before === undefined || before === null) delete state.answers[place];
    else state.answers[place] = before;
    state.downloaded = false;
    keep();
    go(place, "Undone");
  };

  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  const download = () => {
    const rows = [...data.ids.keys()].filter((i) => i in state.answers);
    const lines = rows.map((i) => [data.ids[i], state.answers[i] === UNSURE ? "?" : data.classes[state.answers[i]], state.notes[i] || ""]);
    const text = [data.header, ...lines].map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
    const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
    Object.assign(node("a"), { href: url, download: "audit-labels.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
    state.downloaded = true;
    keep();
    show();
    byId("said").textContent = "Downloaded audit-labels.csv";
  };

  const forget = () => {
    state = empty();
    keep();
    go(0, "Deleted");
  };

  byId("unsure").addEventListener("click", () => answer(UNSURE));
  byId("undo").addEventListener("click", undo);
  byId("download").addEventListener("click", download);
  byId("forget").addEventListener("click", forget);
  byId("back").addEventListener("click", () => go(at - 1));
  byId("forth").addEventListener("click", () => go(at + 1));
  byId("note").addEventListener("input", () => {
    state.notes[at] = byId("note").value;
    state.downloaded = false;
    byId("forget").disabled = true;
    keep();
  });
  addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (event.target === byId("note")) {
      if (key === "Escape" || key === "Enter") byId("title").focus();
      return;
    }
    const place = data.keys.indexOf(key);
    if (place >= 0) answer(place);
    else if (key === "0") answer(UNSURE);
    else if (key === "u") undo();
    else if (key === "n" && at < n) byId("note").focus();
    else if (key === "ArrowLeft" && at > 0) go(at - 1);
    else if (key === "ArrowRight" && at < n) go(at + 1);
    else return;
    event.preventDefault();
  });
  addEventListener("beforeunload", (event) => {
    if (!state.downloaded) event.preventDefault();
  });

  at = next(n - 1);
  show();
}
