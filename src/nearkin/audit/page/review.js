/* One row at a time, large, with its evidence: one key decides and goes on. The same room serves the sample, where the
   question is only whether the label is right. */
function makeReview({ data, held, names, classes, nameOf, numberOf, pictures, texts, cellNames, cells, paragraphs, label, tierOf, meter, reasons, ledger, decide, redraw, undo, placeInTable, thousands }) {
  const at = (id) => document.getElementById(id), room = at("room");
  let places = [], now = 0, isSample = false, isClose = false, showsAll = false;
  const AT_ONCE = 40; /* columns */

  const KEYS = {
    a: () => settle(1), Enter: () => settle(1), k: () => settle(2), d: () => settle(3), c: () => settle(0),
    o: () => askLabel(),
    r: () => answer(1), w: () => answer(2), s: () => answer(3),
    n: () => go(1), ArrowRight: () => go(1), p: () => go(-1), ArrowLeft: () => go(-1),
    l: lookCloser, u: back,
  };
  /* More of what is known, with its first part in sight. */
  function lookCloser() {
    isClose = !isClose;
    show();
    if (isClose) (room.querySelector(".all-values") || room.querySelector(".parts")).scrollIntoView({ block: "start" });
  }
  /* All values of a row; of very many columns the first, and a button for the others. */
  function valuesOf(row) {
    if (!cells[row]) return null;
    const lines = cellNames.map((name, c) => {
      const value = cells[row][c];
      return make("div", { className: value.length > 60 ? "long" : "" }, make("dt", {}, make("bdi", { textContent: visible(name) })), make("dd", {}, make("bdi", { dir: "auto", textContent: paragraphs(value) })));
    });
    if (!lines.length) return null;
    const list = make("dl", { className: "row-cells" }, ...lines), part = make("div", { className: "values" }, list);
    const rest = lines.slice(AT_ONCE);
    if (rest.length && !showsAll) {
      for (const line of rest) line.hidden = true;
      const more = make("button", { type: "button", className: "quiet", textContent: `Show the other ${thousands(rest.length)} columns` });
      more.addEventListener("click", () => { showsAll = true; for (const line of rest) line.hidden = false; more.remove(); room.focus(); });
      part.append(more);
    }
    if (data.cellsMore) part.append(make("p", { className: "small", textContent: `The data has ${thousands(data.cellsMore)} more columns; this is row ${thousands(numberOf(row))} of it.` }));
    return part;
  }
  function settle(how) {
    if (isSample || (how === 1 && places[now] >= data.suspects)) return; /* only suspects have a suggestion */
    decide([places[now]], how);
    if (how) go(1);
    else show();
  }
  function answer(which) {
    if (!isSample) return;
    const i = places[now], row = held.row[i], was = ledger.answerOf(row), how = ledger.fateOf(row);
    /* A label that is right is kept, one that is wrong is dropped unless the right one is known. What followed from an
       answer goes when nobody can tell after all. */
    const followed = (was === 1 && how === 2) || (was === 2 && how === 3);
    const then = which === 1 ? (i < data.suspects ? 2 : 0) : which === 2 ? (how === 0 || how === 2 ? 3 : how) : followed ? 0 : how;
    ledger.answer(row, which, then, ledger.labelOf(row));
    redraw([row]);
    goOn(was);
  }
  /* To the first row without an answer; whoever looks at answers again goes through all of them. */
  function goOn(was) {
    const next = places.findIndex((j) => !ledger.answerOf(held.row[j]));
    if (next < 0 && was) { go(1); return; }
    if (next < 0) { room.close(); return; }
    now = next;
    isClose = false; /* every row is judged without the votes first */
    show();
  }
  function back() {
    const rows = undo();
    if (!rows) return;
    const first = places.indexOf(placeInTable.get(rows[0]));
    if (rows.length === 1 && first >= 0) now = first;
    show();
  }
  function go(by) {
    if (now + by < 0 || now + by >= places.length) { show(); at("room-state").append(by > 0 ? " This is the last one." : " This is the first one."); return; }
    now += by;
    if (isSample) isClose = false;
    show();
  }
  function askLabel() {
    const form = at("room-other");
    form.hidden = false;
    at("room-label").value = ledger.labelOf(held.row[places[now]]) || "";
    at("room-label").focus();
  }
  function show() {
    if (!room.open) return;
    const i = places[now], row = held.row[i], how = ledger.fateOf(row), was = ledger.answerOf(row);
    at("room-other").hidden = true;
    at("room-title").textContent = `${visible(data.idName || "Row")} ${nameOf(row)}`;
    const done = isSample ? places.filter((j) => ledger.answerOf(held.row[j])).length : places.filter((j) => ledger.fateOf(held.row[j])).length;
    const said = isSample ? ["", "Answered: right.", "Answered: wrong.", "Answered: cannot tell."][was]
      : ["", "Decided: suggested.", "Decided: given.", "Decided: drop.", `Decided: ${visible(ledger.labelOf(row) || "")}.`][how];
    /* Who cannot see the row hears which one it is. */
    const heard = `${at("room-title").textContent}: given ${names[held.given[i]]}${isSample ? "" : `, ${i < data.suspects ? "suggested" : "best other label"} ${names[held.best[i]]}`}. `;
    at("room-state").replaceChildren(make("span", { className: "hidden", textContent: heard }), `${thousands(now + 1)} of ${thousands(places.length)}; ${thousands(done)} ${isSample ? "answered" : "decided"}. ${said}`);
    const subject = make("div", { className: "subject" });
    if (pictures[row]) subject.append(make("img", { src: pictures[row], alt: "", width: 192, height: 192 }));
    if (texts[row]) subject.append(make("p", { className: "whole", dir: "auto", textContent: paragraphs(texts[row]) }));
    const labels = make("dl", { className: "stats" }, make("div", {}, make("dt", { textContent: "Given" }), make("dd", {}, label(held.given[i], false))));
    const fact = (name, ...values) => make("div", {}, make("dt", { textContent: name }), make("dd", {}, ...values));
    const isSuspect = i < data.suspects, plausible = fact("Plausibility", meter(held.plausibility[i], isSuspect));
    if (!isSample && isSuspect) {
      labels.append(fact("Suggested", label(held.best[i], true)), plausible, fact("Confidence", meter(held.confidence[i], false)), fact("Tier", tierOf(i)));
    } else if (!isSample) {
      labels.append(fact("Best other label", label(held.best[i], false)), plausible, fact("Tier", tierOf(i)));
    }
    const values = valuesOf(row), isBelow = values && isSuspect && !isSample; /* then the evidence comes first */
    if (values && !isBelow) subject.append(values);
    const below = [];
    if (isBelow) {
      const all = make("details", { className: "all-values", open: isClose }, make("summary", {}, `All ${thousands(cellNames.length)} values of the row`), values);
      all.firstChild.addEventListener("click", () => { isClose = !all.open; /* from row to row */ room.querySelector(".parts").classList.toggle("close", isClose); });
      below.push(all);
    }
    const why = reasons(i);
    at("room-body").replaceChildren(labels, subject, make("div", { className: isClose ? "parts close" : "parts" }, ...(isSample && !isClose ? [] : why)), ...below);
    for (const one of document.querySelectorAll("#room [data-for]")) one.hidden = one.dataset.for !== (isSample ? "sample" : "suspects");
    if (!isSuspect) room.querySelector("[data-key=a]").hidden = true;
    room.scrollTop = 0;
  }
  room.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && event.target.closest("button")) return; /* the button is pressed */
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  for (const button of document.querySelectorAll("#room button[data-key]")) {
    button.addEventListener("click", () => KEYS[button.dataset.key]());
  }
  at("room-other").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = at("room-label").value;
    if (!text.trim()) return;
    const row = held.row[places[now]];
    room.focus();
    if (isSample) {
      const was = ledger.answerOf(row);
      ledger.answer(row, text === classes[held.given[places[now]]] ? 1 : 2, 4, text);
      redraw([row]);
      goOn(was);
      return;
    }
    decide([places[now]], 4, text);
    go(1);
  });
  at("room-close").addEventListener("click", () => room.close());
  /* The browser goes back to what had opened the room, unless that line of the table was drawn again. */
  room.addEventListener("close", () => {
    if (document.activeElement !== document.body && !room.contains(document.activeElement)) return;
    const line = document.querySelector(`#body tr[data-row="${held.row[places[now]]}"] .why button`);
    if (isSample) at(at("check-again").hidden ? "check-begin" : "check-again").focus();
    else (line || at("review")).focus();
  });
  at("room-labels").append(...classes.filter((text) => visible(text) === text).slice(0, 500).map((text) => make("option", { value: text })));
  return {
    show,
    /* With `asks` the field for another label is open at once. */
    open: (which, first, asks) => {
      if (!which.length) return;
      places = which.slice(); now = first; isSample = false;
      room.showModal();
      show();
      room.focus();
      if (asks) askLabel();
    },
    openSample: (which) => {
      places = which; isSample = true; isClose = false;
      now = Math.max(0, which.findIndex((j) => !ledger.answerOf(held.row[j])));
      room.showModal();
      show();
      room.focus();
    },
  };
}
