(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const PAGE = matchMedia("(max-width: 720px)").matches ? 20 : 50;
  const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
  const NONE = 4294967295; /* no row */

  async function inflate(text) {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }
  const inflateJson = async (text) => JSON.parse(new TextDecoder().decode(await inflate(text)));

  if (typeof DecompressionStream === "undefined") {
    at("count").textContent = "This browser is too old for the table; the CSV file holds the same rows.";
    return;
  }
  async function unpack(packed) {
    const buffer = await inflate(packed.data), found = {};
    let place = 0;
    for (const [name, kind, length] of packed.layout) {
      const size = Number(kind[1]) * length;
      found[name] = new KINDS[kind](buffer.slice(place, place + size));
      place += size;
    }
    return found;
  }
  const held = await unpack(data.packed);
  const told = data.features ? { ...data.features, ...(await unpack(data.features.packed)) } : { rows: 0 };
  if (told.rows) [told.names, told.texts] = (await inflateJson(told.words)).map((some) => some.map(visible));
  if (held.codes) held.given = held.codes.constructor.from(held.row, (row) => held.codes[row]);
  const ids = data.ids ? await inflateJson(data.ids) : null;
  const someIds = data.someIds ? await inflateJson(data.someIds) : {};
  const texts = data.texts ? await inflateJson(data.texts) : {};
  const cellNames = await inflateJson(data.cellNames), cells = await inflateJson(data.cells);
  const words = data.words ? await inflateJson(data.words) : [];
  const pictures = data.pictures || {};
  const classes = data.classes;
  const paragraphs = (text) => text.split(/([\n\t])/).map((one, i) => (i % 2 ? one : visible(one))).join("");
  const names = classes.map(visible);
  const n = data.suspects; /* other rows of the sample and of findings follow them */
  const share = (steps) => steps / data.steps;
  const number = (row) => (held.number ? held.number[row] : row); /* counts from 0 */
  const nameOf = (row) => visible(ids ? ids[row] : row in someIds ? someIds[row] : String(number(row)));

  const placeInTable = new Map();
  for (let i = 0; i < held.row.length; i++) placeInTable.set(held.row[i], i);
  const suggestionOf = (row) => (placeInTable.has(row) ? classes[held.best[placeInTable.get(row)]] : undefined);
  const ledger = makeLedger(`nearkin-audit-${data.fingerprint}-${data.rows || ""}`, suggestionOf, () => { refresh(); foretell(); check.show(); review.show(); });
  const tierOf = (i) => (i >= n ? "no suspect" : held.wrong[i] ? "wrong" : "worth a look");
  const fateAt = (i) => ledger.fateOf(held.row[i]);

  /* ---------------------------------------------------------------- table */

  const rank = new Uint32Array(classes.length);
  [...classes.keys()].sort((a, b) => classes[a].localeCompare(classes[b], undefined, { numeric: true })).forEach((code, i) => { rank[code] = i; });
  let shown = [], start = 0, key = "", direction = 1, picked = -1, among = null;
  const collator = new Intl.Collator(undefined, { numeric: true });
  const orders = {
    row: (a, b) => (data.idName ? collator.compare(nameOf(held.row[a]), nameOf(held.row[b])) : held.row[a] - held.row[b]),
    given: (a, b) => rank[held.given[a]] - rank[held.given[b]],
    best: (a, b) => rank[held.best[a]] - rank[held.best[b]],
    plausibility: (a, b) => held.plausibility[a] - held.plausibility[b],
    confidence: (a, b) => held.confidence[a] - held.confidence[b],
  };
  const thousands = (count) => count.toLocaleString("en");

  function refresh() {
    const words = at("query").value.trim().toLowerCase(), given = at("by-given").value, best = at("by-best").value, tier = at("by-tier").value;
    const least = Number(at("by-confidence").value) * data.steps, decided = at("by-decision").value;
    shown = [];
    for (let i = 0; i < n; i++) {
      if (picked >= 0 && i !== picked) continue;
      if (given !== "" && held.given[i] !== Number(given)) continue;
      if (best !== "" && held.best[i] !== Number(best)) continue;
      if (tier !== "" && held.wrong[i] !== Number(tier)) continue;
      if (held.confidence[i] < least) continue;
      if (decided !== "" && (fateAt(i) > 0) !== (decided === "1")) continue;
      if (among && !among.has(held.row[i])) continue;
      if (words) {
        const row = held.row[i];
        const all = [nameOf(row), names[held.given[i]], names[held.best[i]], texts[row] || ""];
        if (!all.some((one) => one.toLowerCase().includes(words))) continue;
      }
      shown.push(i);
    }
    at("told").textContent = "";
    if (key) shown.sort((a, b) => direction * orders[key](a, b) || a - b);
    start = 0;
    show();
  }
  const short = (value) => (value < 0.01 ? "< 0.01" : value > 0.99 ? "> 0.99" : value.toFixed(2));
  function meter(steps, isLow) {
    const value = share(steps), width = 36;
    const bar = draw("svg", { width, height: 6, "aria-hidden": "true" },
      draw("rect", { class: "back", width, height: 6, rx: 3 }),
      draw("rect", { class: "front", width: Math.max(2, width * value), height: 6, rx: 3 }));
    return make("span", { className: isLow ? "meter low" : "meter" }, bar, short(value));
  }
  function picture(row) {
    return make("img", { src: pictures[row], alt: "", width: 56, height: 56 });
  }
  function label(code, isBest) {
    return make("bdi", { className: isBest ? "label best" : "label", textContent: names[code], title: names[code] });
  }
  const percent = (steps) => { const value = 100 * share(steps); return `${value.toFixed(value < 9.95 ? 1 : 0)} %`; };
  /* What each voter says: its share, its votes for the given and for the suggested label. */
  function opinions(e, i) {
    const cell = (text) => make("td", { className: "number", textContent: text });
    const heads = ["Voter", "Share", names[held.given[i]], names[held.best[i]]].map((text, at) =>
      make("th", { scope: "col", className: at ? "number" : "" }, make("bdi", { className: "cut", textContent: text, title: text })));
    const lines = data.voters.map((name, v) => {
      const at = e * data.voters.length + v;
      return make("tr", {}, make("th", { scope: "row", textContent: name }), cell(`${held.voterShare[v]} %`),
        cell(percent(held.saidGiven[at])), cell(percent(held.saidBest[at])));
    });
    return make("table", { className: "mini opinions" }, make("caption", { className: "hidden", textContent: "Votes of each voter for the given and for the suggested label" }),
      make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines));
  }
  const explainedAt = (i) => (i < data.explained ? i : i >= n ? data.explained + i - n : -1);
  /* Columns that speak most for either label: the row's value beside the nearest trusted row and what is usual in both classes. */
  function features(e, i) {
    if (e >= told.rows) return null;
    const lines = [], k = told.perRow, near = [0, data.trusted / 2].map((at) => held.trusted[e * data.trusted + at]);
    const cut = (text) => make("bdi", { className: "cut", textContent: text, title: text });
    const half = (usual, beside) => make("td", { className: "number" }, beside ? cut(beside) : "", usual ? make("span", { className: "small usual" }, "usual ", cut(usual)) : "");
    for (let j = e * k; j < (e + 1) * k; j++) {
      if (told.column[j] >= told.names.length) continue;
      const [own, given, best, nearGiven, nearBest] = Array.from(told.cell.subarray(5 * j, 5 * j + 5), (code) => told.texts[code]);
      const score = told.score[j] / told.steps - told.most, isFor = score > 0, width = (32 * Math.abs(score)) / told.most;
      const bar = draw("svg", { width: 64, height: 8, "aria-hidden": "true" },
        draw("rect", { class: "back", width: 64, height: 8, rx: 2 }),
        draw("rect", { class: isFor ? "for" : "against", x: isFor ? 32 : 32 - width, width: Math.max(1, width), height: 8 }));
      const words = `${score > 0 ? "+" : "−"}${Math.abs(score).toFixed(1)}`;
      lines.push(make("tr", {}, make("th", { scope: "row" }, cut(told.names[told.column[j]])),
        make("td", { className: "number" }, make("b", {}, cut(own))), half(given, nearGiven), half(best, nearBest),
        make("td", { className: "number", title: isFor ? "speaks for the second label" : "speaks for the given label" }, bar, make("span", { className: "small", textContent: words }))));
    }
    if (!lines.length) return null;
    const head = (text, more, className) => make("th", { scope: "col", className }, cut(text), more ? make("span", { className: "small usual" }, cut(more)) : "");
    const beside = (row) => (row === NONE ? "" : `nearest: ${nameOf(row)}`);
    const caption = `Beside the nearest trusted rows, and what is usual in both classes. Score: logarithm of how many times more often rows of the second label look like that, at most ${told.most} either way.`;
    return make("table", { className: "mini opinions features" }, make("caption", { className: "small below", textContent: caption }),
      make("thead", {}, make("tr", {}, head("Column", "", ""), head("This row", "", "number"), head(names[held.given[i]], beside(near[0]), "number"), head(names[held.best[i]], beside(near[1]), "number"), head("Score", "", "number"))),
      make("tbody", {}, ...lines));
  }
  /* Words of the text that speak most for either label. */
  function wordList(e) {
    if (!words[e] || !words[e].length) return null;
    return make("ul", { className: "words" }, ...words[e].map(([word, score]) => make("li", { className: score > 0 ? "for" : "against" },
      make("bdi", { className: "cut", textContent: visible(word), title: score > 0 ? "speaks for the second label" : "speaks for the given label" }),
      make("span", { className: "small", textContent: ` ${score > 0 ? "+" : "−"}${Math.abs(score).toFixed(1)}` }))));
  }
  function rowItem(row, code, words) {
    const item = make("li");
    if (pictures[row]) item.append(picture(row));
    const text = make("span", {}, label(code, false), " ", make("bdi", { className: "small", textContent: nameOf(row) }), words && make("span", { className: "small cast", textContent: words }));
    if (texts[row]) text.append(make("p", { className: "text", dir: "auto", textContent: paragraphs(texts[row]) }));
    item.append(text);
    return item;
  }
  function neighbours(e) {
    const list = make("ul", { className: "near" });
    for (let j = e * data.near; j < (e + 1) * data.near; j++) {
      const by = data.neighbourVoters.filter((_, v) => held.nearBy[j] & (1 << v));
      list.append(rowItem(held.near[j], held.nearCodes[j], `${percent(held.nearShare[j])} of the votes, near in: ${by.join(", ")}${held.nearDoubt[j] ? "; itself a suspect" : ""}`));
    }
    return list;
  }
  function trusted(e, i) {
    const list = make("ul", { className: "near" }), half = data.trusted / 2;
    for (let j = 0; j < data.trusted; j++) {
      const row = held.trusted[e * data.trusted + j];
      if (row !== NONE) list.append(rowItem(row, j < half ? held.given[i] : held.best[i], ""));
    }
    return list.children.length ? list : null;
  }
  /* All that is known about a row. */
  function reasons(i) {
    const e = explainedAt(i), parts = [];
    if (e < 0) return [make("p", { textContent: "The evidence of this row is left out of the page; Python has it." })];
    const far = (value) => value.toPrecision(3);
    const part = (title, node, className = "") => {
      if (node) parts.push(make("section", { className }, make("h3", { textContent: title }), node));
    };
    part("Columns that speak most", features(e, i), "broad");
    part("Words that speak most", wordList(e));
    part("What every voter said", opinions(e, i));
    part("Rows that cast most of the votes", neighbours(e));
    part("Nearest trusted rows of both classes", trusted(e, i));
    parts.push(make("p", { className: "small" },
      "In the learned space the centre of ", make("bdi", { textContent: names[held.given[i]] }), ` lies ${far(held.toGiven[e])} away, that of `,
      make("bdi", { textContent: names[held.best[i]] }), ` ${far(held.toBest[e])}.`));
    return parts;
  }
  function look(i, words) {
    const button = make("button", { type: "button", textContent: words });
    button.setAttribute("aria-label", `Look closer at ${nameOf(held.row[i])}`);
    button.addEventListener("click", () => review.open(shown, shown.indexOf(i)));
    return button;
  }
  function evidence(i) {
    const cell = make("td", { className: "why wide", "data-title": "Evidence" }), e = explainedAt(i);
    if (e < 0) { cell.append("in the CSV; ", look(i, "look closer")); return cell; }
    let agree = 0;
    for (let j = e * data.near; j < (e + 1) * data.near; j++) agree += held.nearCodes[j] === held.best[i];
    cell.append(`${agree} of ${data.near} near rows are `, make("bdi", { className: "cut", textContent: names[held.best[i]], title: names[held.best[i]] }), " ", look(i, "why?"));
    return cell;
  }
  function decision(i, line) {
    const row = held.row[i], other = ledger.labelOf(row);
    const options = [["0", "–"], ["1", "suggested"], ["2", "given"], ["3", "drop"], ["4", other === undefined ? "other…" : visible(other).slice(0, 30)]];
    const choice = make("select", {}, ...options.map(([value, text]) => make("option", { value, textContent: text })));
    choice.setAttribute("aria-label", `Decision for ${nameOf(row)}`);
    choice.value = String(fateAt(i));
    line.classList.toggle("decided", fateAt(i) > 0);
    choice.addEventListener("change", () => {
      if (choice.value === "4") { choice.value = String(fateAt(i)); review.open(shown, shown.indexOf(i), true); return; }
      decide([i], Number(choice.value));
    });
    return make("td", { className: "decide wide", "data-title": "Decision" }, choice);
  }
  function oneRow(i) {
    const row = held.row[i], line = make("tr");
    const name = make("div", { className: "name" });
    if (pictures[row]) name.append(picture(row));
    line.dataset.row = String(row);
    const words = make("div", {}, make("bdi", { textContent: nameOf(row) }), make("span", { className: held.wrong[i] ? "tier bad" : "tier look", textContent: tierOf(i) }));
    if (texts[row]) words.append(make("p", { className: "text", dir: "auto", textContent: paragraphs(texts[row]) }));
    name.append(words);
    line.append(
      make("td", { className: "wide", "data-title": visible(data.idName || "Row") }, name),
      make("td", { "data-title": "Given" }, label(held.given[i], false)),
      make("td", { "data-title": "Suggested" }, label(held.best[i], held.wrong[i])),
      make("td", { "data-title": "Plausibility" }, meter(held.plausibility[i], true)),
      make("td", { "data-title": "Confidence" }, meter(held.confidence[i], false)),
      evidence(i), decision(i, line));
    return line;
  }
  function tell() {
    let decided = 0, wrong = 0;
    for (let i = 0; i < n; i++) { decided += fateAt(i) > 0; wrong += held.wrong[i]; }
    const all = `${thousands(wrong)} wrong, ${thousands(n - wrong)} worth a look${key ? "" : "; the most doubtful first"}`;
    const some = shown.length === n ? all : `${thousands(shown.length)} of ${thousands(n)} suspects`;
    at("count").textContent = decided ? `${some}, ${thousands(decided)} decided` : some;
    at("shown").textContent = shown.length === 1 ? "The one shown:" : `All ${thousands(shown.length)} shown:`;
    at("undo").disabled = !ledger.canUndo();
    const kept = ledger.canStore() ? "Decisions are kept in this browser as you make them." : "This browser cannot keep decisions: export them before you leave.";
    at("kept").textContent = kept;
    at("kept").classList.toggle("warn", !ledger.canStore());
  }
  function show() {
    const none = make("tr", {}, make("td", { className: "wide none", colSpan: 7, textContent: "Nothing matches. Clear shows all suspects." }));
    at("body").replaceChildren(...(shown.length ? shown.slice(start, start + PAGE).map(oneRow) : [none]));
    for (const button of document.querySelectorAll("#review, #bulk button[value]")) button.disabled = !shown.length;
    at("pager").hidden = shown.length <= PAGE;
    at("before").disabled = start === 0;
    at("after").disabled = start + PAGE >= shown.length;
    at("where").textContent = `${thousands(Math.min(start + 1, shown.length))}–${thousands(Math.min(start + PAGE, shown.length))} of ${thousands(shown.length)}`;
    tell();
  }
  function turn(by) {
    start += by;
    show();
    at("suspects").scrollIntoView();
    at("suspects").focus({ preventScroll: true });
  }

  for (const head of document.querySelectorAll("#table th[data-key]")) {
    head.querySelector("button").addEventListener("click", () => {
      const same = key === head.dataset.key;
      direction = same ? -direction : head.dataset.key === "confidence" ? -1 : 1;
      key = head.dataset.key;
      for (const other of document.querySelectorAll("#table th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      refresh();
    });
  }
  for (const [id, codes] of [["by-given", held.given], ["by-best", held.best]]) {
    const found = [...new Set(codes)].sort((a, b) => rank[a] - rank[b]);
    at(id).append(...found.map((code) => make("option", { value: String(code), textContent: names[code].length > 60 ? names[code].slice(0, 59) + "…" : names[code] })));
    at(id).addEventListener("change", () => { picked = -1; refresh(); });
  }
  for (const id of ["by-tier", "by-confidence", "by-decision"]) at(id).addEventListener("change", () => { picked = -1; refresh(); });
  at("query").addEventListener("input", () => { picked = -1; refresh(); });
  /* Decide for suspects by their places; a page of the table is drawn again only where a row of it changed. */
  function decide(places, how, other) {
    ledger.decide(places.map((i) => held.row[i]), how, other);
    redraw(places.map((i) => held.row[i]));
  }
  function redraw(rows) {
    const changed = new Set(rows.map(String));
    for (const line of at("body").children) {
      if (changed.has(line.dataset.row)) line.replaceWith(oneRow(placeInTable.get(Number(line.dataset.row))));
    }
    tell();
    foretell();
    check.show();
  }
  function undo() {
    const rows = ledger.undo();
    at("told").textContent = "";
    if (rows) redraw(rows);
    return rows;
  }
  for (const button of document.querySelectorAll("#bulk button[value]")) {
    button.addEventListener("click", () => {
      const how = Number(button.value), before = shown.filter((i) => fateAt(i) && fateAt(i) !== how).length;
      decide(shown, how);
      at("told").textContent = before ? `${thousands(before)} of ${thousands(shown.length)} had another decision before; undo brings ${before === 1 ? "it" : "them"} back.` : "";
    });
  }
  at("undo").addEventListener("click", undo);
  at("review").addEventListener("click", () => {
    const first = shown.findIndex((i) => !fateAt(i));
    review.open(shown, Math.max(0, first));
  });
  addEventListener("beforeunload", (event) => { if (!ledger.isSafe()) event.preventDefault(); });
  addEventListener("keydown", (event) => {
    const field = event.target.closest("input, select, textarea");
    if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !field) { event.preventDefault(); undo(); review.show(); }
  });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("filters").addEventListener("reset", () => { picked = -1; choose(null); setTimeout(refresh); });
  at("before").addEventListener("click", () => turn(-PAGE));
  at("after").addEventListener("click", () => turn(PAGE));

  /* ---------------------------------------------------------------- findings */

  /* Shows other suspects in the table, and nothing of what was filtered before. */
  function narrow(change) {
    at("filters").reset();
    setTimeout(() => { change(); refresh(); at("suspects").scrollIntoView(); at("suspects").focus({ preventScroll: true }); });
  }
  function choose(rows, title) {
    among = rows && new Set(rows);
    at("among").hidden = !rows;
    at("among").textContent = rows ? `Only suspects among the ${title}. Clear shows all.` : "";
  }
  document.querySelectorAll(".finding").forEach((part, k) => {
    const { named, more, suspects } = data.findings[k], [button, closer] = part.querySelectorAll("button");
    if (!button) return;
    const title = part.querySelector("summary bdi").textContent;
    /* Rows that share a name are told apart by their numbers. */
    const calls = named.map(nameOf), isShared = (name) => calls.indexOf(name) !== calls.lastIndexOf(name);
    named.forEach((row, i) => part.querySelector(".rows").append(i ? ", " : "Rows: ", make("bdi", { textContent: calls[i] }), data.idName && isShared(calls[i]) ? ` (row ${number(row)})` : ""));
    if (more) part.querySelector(".rows").append(` and ${thousands(more)} more`);
    closer.textContent = named.length === 1 ? "Look at the row" : more ? `Look at the first ${thousands(named.length)} rows` : `Look at the ${thousands(named.length)} rows`;
    closer.addEventListener("click", () => review.open(named.map((row) => placeInTable.get(row)), 0));
    closer.hidden = part.querySelector(".rows").hidden = !named.length;
    button.hidden = !suspects.length;
    const where = named.length ? "among them" : "of these classes";
    button.textContent = suspects.length === 1 ? `Show the suspect ${where}` : `Show the ${thousands(suspects.length)} suspects ${where}`;
    button.addEventListener("click", () => narrow(() => choose(suspects, title)));
  });
  for (const button of document.querySelectorAll(".some")) {
    button.addEventListener("click", () => narrow(() => {
      for (const [id, value] of [["by-given", "given"], ["by-best", "best"], ["by-tier", "tier"]]) at(id).value = button.dataset[value];
    }));
  }

  const { foretell } = makeFiles({ data, held, ids, someIds, number, classes, ledger, placeInTable, thousands, onImport: () => { refresh(); redraw([]); } });
  const review = makeReview({
    data, held, names, classes, nameOf, numberOf: number, pictures, texts, cellNames, cells, paragraphs, label, tierOf, meter, reasons, ledger, decide, redraw, undo, placeInTable, thousands,
  });
  const check = makeCheck({ data, held, ledger, placeInTable, review, thousands });
  for (const id of ["filters", "table", "actions", "rule"]) at(id).hidden = n === 0;
  if (data.cut) for (const id of ["actions", "rule"]) at(id).hidden = true; /* labels are not whole here */
  if (n === 0) at("count").textContent = "There are none.";
  else { refresh(); foretell(); }
  check.show();
  makeMap({
    held, names, nameOf,
    tell: (row) => {
      const i = placeInTable.get(row);
      return i === undefined || i >= n ? [] : [", suggested ", make("bdi", { className: "cut", textContent: names[held.best[i]] }), `; ${tierOf(i)}`];
    },
    pick: (row) => {
      const i = placeInTable.get(row);
      if (i === undefined || i >= n) return;
      narrow(() => { picked = i; });
    },
  });
  document.documentElement.dataset.ready = "yes";
})();
