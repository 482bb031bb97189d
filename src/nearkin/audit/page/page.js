(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const PAGE = matchMedia("(max-width: 720px)").matches ? 20 : 50;
  const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };

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
  const held = {};
  {
    const buffer = await inflate(data.packed.data);
    let place = 0;
    for (const [name, kind, length] of data.packed.layout) {
      const size = Number(kind[1]) * length;
      held[name] = new KINDS[kind](buffer.slice(place, place + size));
      place += size;
    }
  }
  if (held.codes) held.given = held.codes.constructor.from(held.row, (row) => held.codes[row]);
  const ids = data.ids ? await inflateJson(data.ids) : null;
  const someIds = data.someIds ? await inflateJson(data.someIds) : {};
  const texts = data.texts ? await inflateJson(data.texts) : {};
  const pictures = data.pictures || {};
  const classes = data.classes;
  const paragraphs = (text) => text.split(/([\n\t])/).map((one, i) => (i % 2 ? one : visible(one))).join("");
  const names = classes.map(visible);
  const n = held.row.length;
  const share = (steps) => steps / data.steps;
  const number = (row) => (held.number ? held.number[row] : row) + data.first;
  const nameOf = (row) => visible(ids ? ids[row] : row in someIds ? someIds[row] : String(number(row)));

  /* ---------------------------------------------------------------- colours */

  const HUES = [205, 28, 152, 280, 45, 330, 180, 95, 240, 8];
  const root = document.documentElement;
  const colour = (code) => {
    const hue = code < HUES.length ? HUES[code] : (code * 137.508) % 360;
    return isDark() ? `hsl(${hue} 55% 66%)` : `hsl(${hue} 52% 46%)`;
  };
  root.addEventListener("theme", () => { drawLegend(); drawMap(); });

  /* ---------------------------------------------------------------- map */

  const canvas = at("map"), tip = at("tip"), box = canvas.parentElement;
  let only = -1, hovered = -1;
  const placeOf = (i, width, height) => [
    14 + (held.mapX[i] / 4095) * (width - 28), 14 + (1 - held.mapY[i] / 4095) * (height - 28)];
  function drawMap() {
    const width = box.clientWidth, height = box.clientHeight, scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const rings = [null, "--look-mark", "--doubt"].map((name) => name && getComputedStyle(root).getPropertyValue(name).trim());
    const many = held.mapRow.length > 1500;
    for (const tier of [0, 1, 2]) {
      for (let i = 0; i < held.mapRow.length; i++) {
        if (held.mapTier[i] !== tier) continue;
        const [x, y] = placeOf(i, width, height), mine = only < 0 || held.mapGiven[i] === only;
        pen.globalAlpha = mine ? (tier ? 0.95 : 0.55) : 0.06;
        pen.fillStyle = colour(held.mapGiven[i]);
        pen.beginPath();
        pen.arc(x, y, tier ? (many ? 2.4 : 4) : many ? 2 : 2.8, 0, 7);
        pen.fill();
        if (tier) { pen.lineWidth = many ? 0.9 : 1.6; pen.strokeStyle = rings[tier]; pen.stroke(); }
      }
    }
    nameClasses(pen, width, height);
    if (hovered >= 0) {
      const [x, y] = placeOf(hovered, width, height);
      pen.globalAlpha = 1; pen.lineWidth = 2; pen.strokeStyle = getComputedStyle(root).getPropertyValue("--ink").trim();
      pen.beginPath(); pen.arc(x, y, 8, 0, 7); pen.stroke();
    }
    pen.globalAlpha = 1;
  }
  const middles = new Map(); /* of the rows of a class that are not suspects */
  if (classes.length <= 12) {
    for (let code = 0; code < classes.length; code++) {
      const mine = [...held.mapRow.keys()].filter((i) => held.mapGiven[i] === code && !held.mapTier[i]);
      const middle = (values) => mine.map((i) => values[i]).sort((a, b) => a - b)[mine.length >> 1];
      if (mine.length) middles.set(code, [middle(held.mapX) / 4095, middle(held.mapY) / 4095]);
    }
  }
  function nameClasses(pen, width, height) {
    const style = getComputedStyle(root);
    pen.font = "600 13px system-ui, sans-serif";
    pen.textAlign = "center"; pen.textBaseline = "middle"; pen.lineJoin = "round"; pen.lineWidth = 4;
    pen.strokeStyle = style.getPropertyValue("--fill").trim(); pen.fillStyle = style.getPropertyValue("--ink").trim();
    const taken = [];
    for (const [code, [x, y]] of middles) {
      const name = names[code].length > 18 ? names[code].slice(0, 17) + "…" : names[code];
      const half = pen.measureText(name).width / 2 + 6;
      let left = Math.min(Math.max(14 + x * (width - 28), half), width - half), top = 14 + (1 - y) * (height - 28);
      for (let tries = 0; tries < 12 && taken.some(([a, b, c]) => Math.abs(a - left) < c + half && Math.abs(b - top) < 17); tries++) top += 17;
      taken.push([left, top, half]);
      pen.globalAlpha = only < 0 || only === code ? 1 : 0.25;
      pen.strokeText(name, left, top); pen.fillText(name, left, top);
    }
  }
  function drawLegend() {
    const size = new Map();
    for (const code of held.mapGiven) size.set(code, (size.get(code) || 0) + 1);
    const shown = [...size.keys()].sort((a, b) => size.get(b) - size.get(a)).slice(0, 12).sort((a, b) => a - b);
    at("legend").replaceChildren(...shown.map((code) => {
      const dot = draw("svg", { width: 10, height: 10, "aria-hidden": "true" }, draw("circle", { cx: 5, cy: 5, r: 5, fill: colour(code) }));
      const button = make("button", { type: "button" }, dot, make("bdi", { className: "cut", textContent: names[code] }));
      button.setAttribute("aria-pressed", String(only === code));
      button.addEventListener("click", () => {
        only = only === code ? -1 : code;
        for (const other of at("legend").querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(only === code));
        drawMap();
      });
      return make("li", {}, button);
    }));
  }
  function nearest(event) {
    const here = canvas.getBoundingClientRect();
    const px = event.clientX - here.left, py = event.clientY - here.top;
    let best = -1, least = 144;
    for (let i = 0; i < held.mapRow.length; i++) {
      if (only >= 0 && held.mapGiven[i] !== only) continue;
      const [x, y] = placeOf(i, here.width, here.height);
      const far = (x - px) ** 2 + (y - py) ** 2 - (held.mapTier[i] ? 30 : 0);
      if (far < least) { least = far; best = i; }
    }
    return best;
  }
  const tierOf = (i) => (held.wrong[i] ? "wrong" : "worth a look");
  const placeInTable = new Map();
  for (let i = 0; i < n; i++) placeInTable.set(held.row[i], i);
  canvas.addEventListener("pointermove", (event) => {
    const found = nearest(event);
    if (found === hovered) return;
    hovered = found;
    tip.hidden = found < 0;
    if (found >= 0) {
      const row = held.mapRow[found], i = placeInTable.get(row);
      tip.replaceChildren(make("bdi", { textContent: nameOf(row) }), ": given ", make("bdi", { className: "cut", textContent: names[held.mapGiven[found]] }));
      if (i !== undefined) tip.append(", suggested ", make("bdi", { className: "cut", textContent: names[held.best[i]] }), `; ${tierOf(i)}`);
      const [x, y] = placeOf(found, box.clientWidth, box.clientHeight);
      tip.style.left = `${Math.min(x + 12, box.clientWidth - 160)}px`;
      tip.style.top = `${Math.max(0, y - 40)}px`;
    }
    drawMap();
  });
  canvas.addEventListener("pointerleave", () => { hovered = -1; tip.hidden = true; drawMap(); });
  canvas.addEventListener("click", (event) => {
    const found = nearest(event), i = found < 0 ? undefined : placeInTable.get(held.mapRow[found]);
    if (i === undefined) return;
    at("filters").reset();
    picked = i;
    refresh();
    at("suspects").scrollIntoView();
  });

  /* ---------------------------------------------------------------- table */

  const rank = new Uint32Array(classes.length);
  [...classes.keys()].sort((a, b) => classes[a].localeCompare(classes[b], undefined, { numeric: true })).forEach((code, i) => { rank[code] = i; });
  const decisions = new Uint8Array(n); /* 0 none yet, 1 suggested, 2 given, 3 drop */
  let isSaved = true; /* whether the last download holds all decisions */
  const opened = new Set();
  let shown = [], start = 0, key = "", direction = 1, picked = -1;
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
    const least = Number(at("by-confidence").value) * data.steps;
    shown = [];
    for (let i = 0; i < n; i++) {
      if (picked >= 0 && i !== picked) continue;
      if (given !== "" && held.given[i] !== Number(given)) continue;
      if (best !== "" && held.best[i] !== Number(best)) continue;
      if (tier !== "" && held.wrong[i] !== Number(tier)) continue;
      if (held.confidence[i] < least) continue;
      if (words) {
        const row = held.row[i];
        const all = [nameOf(row), names[held.given[i]], names[held.best[i]], texts[row] || ""];
        if (!all.some((one) => one.toLowerCase().includes(words))) continue;
      }
      shown.push(i);
    }
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
  function opinions(i) {
    const cell = (text) => make("td", { className: "number", textContent: text });
    const heads = ["Voter", "Share", names[held.given[i]], names[held.best[i]]].map((text, at) =>
      make("th", { scope: "col", className: at ? "number" : "" }, make("bdi", { className: "cut", textContent: text, title: text })));
    const lines = data.voters.map((name, v) => {
      const at = i * data.voters.length + v;
      return make("tr", {}, make("th", { scope: "row", textContent: name }), cell(`${held.voterShare[v]} %`),
        cell(percent(held.saidGiven[at])), cell(percent(held.saidBest[at])));
    });
    return make("table", { className: "mini opinions" }, make("caption", { className: "hidden", textContent: "Votes of each voter for the given and for the suggested label" }),
      make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines));
  }
  function evidence(i) {
    const cell = make("td", { className: "why wide", "data-title": "Evidence" });
    const explained = held.toGiven.length;
    if (i >= explained) { cell.append("in the CSV"); return cell; }
    const from = i * data.near, to = from + data.near;
    let agree = 0;
    for (let j = from; j < to; j++) agree += held.nearCodes[j] === held.best[i];
    const more = make("button", { type: "button", textContent: opened.has(i) ? "less" : "why?" });
    more.setAttribute("aria-expanded", String(opened.has(i)));
    more.setAttribute("aria-label", `${opened.has(i) ? "Less" : "More"} evidence for ${nameOf(held.row[i])}`);
    more.addEventListener("click", () => {
      if (opened.has(i)) opened.delete(i); else opened.add(i);
      const fresh = evidence(i);
      cell.parentElement.classList.toggle("open", opened.has(i));
      cell.replaceWith(fresh);
      fresh.querySelector("button").focus();
    });
    cell.append(`${agree} of ${data.near} near rows are `, make("bdi", { className: "cut", textContent: names[held.best[i]], title: names[held.best[i]] }), " ", more);
    if (!opened.has(i)) return cell;
    cell.append(opinions(i));
    const list = make("ul", { className: "near" });
    for (let j = from; j < to; j++) {
      const row = held.near[j];
      const item = make("li");
      if (pictures[row]) item.append(picture(row));
      const by = data.neighbourVoters.filter((_, v) => held.nearBy[j] & (1 << v));
      const words = make("span", {}, label(held.nearCodes[j], false), " ", make("bdi", { className: "small", textContent: nameOf(row) }),
        make("span", { className: "small cast", textContent: `${percent(held.nearShare[j])} of the votes, near in: ${by.join(", ")}${held.nearDoubt[j] ? "; itself a suspect" : ""}` }));
      if (texts[row]) words.append(make("p", { className: "text", dir: "auto", textContent: paragraphs(texts[row]) }));
      item.append(words);
      list.append(item);
    }
    const far = (value) => value.toPrecision(3);
    cell.append(list, make("p", { className: "text" },
      "In the learned space the centre of ", make("bdi", { textContent: names[held.given[i]] }), ` lies ${far(held.toGiven[i])} away, that of `,
      make("bdi", { textContent: names[held.best[i]] }), ` ${far(held.toBest[i])}.`));
    return cell;
  }
  function decision(i, line) {
    const options = [["0", "–"], ["1", "suggested"], ["2", "given"], ["3", "drop"]];
    const choice = make("select", {}, ...options.map(([value, text]) => make("option", { value, textContent: text })));
    choice.setAttribute("aria-label", `Decision for ${nameOf(held.row[i])}`);
    choice.value = String(decisions[i]);
    line.classList.toggle("decided", decisions[i] > 0);
    choice.addEventListener("change", () => {
      decisions[i] = Number(choice.value);
      isSaved = false;
      line.classList.toggle("decided", decisions[i] > 0);
      tell();
      foretell();
    });
    return make("td", { className: "decide wide", "data-title": "Decision" }, choice);
  }
  function oneRow(i) {
    const row = held.row[i], line = make("tr", { className: opened.has(i) ? "open" : "" });
    const name = make("div", { className: "name" });
    if (pictures[row]) name.append(picture(row));
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
    const decided = decisions.reduce((sum, one) => sum + (one > 0), 0);
    const wrong = held.wrong.reduce((sum, one) => sum + one, 0);
    const all = `${thousands(wrong)} wrong, ${thousands(n - wrong)} worth a look${key ? "" : "; the most doubtful first"}`;
    const some = shown.length === n ? all : `${thousands(shown.length)} of ${thousands(n)} suspects`;
    at("count").textContent = decided ? `${some}, ${thousands(decided)} decided` : some;
  }
  function show() {
    at("body").replaceChildren(...shown.slice(start, start + PAGE).map(oneRow));
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
  for (const id of ["by-tier", "by-confidence"]) at(id).addEventListener("change", () => { picked = -1; refresh(); });
  at("query").addEventListener("input", () => { picked = -1; refresh(); });
  at("bulk").addEventListener("change", () => {
    const how = Number(at("bulk").value);
    if (at("bulk").value !== "") for (const i of shown) decisions[i] = how;
    at("bulk").value = "";
    isSaved = false;
    show();
    foretell();
  });
  addEventListener("beforeunload", (event) => { if (!isSaved) event.preventDefault(); });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("filters").addEventListener("reset", () => { picked = -1; setTimeout(refresh); });
  at("before").addEventListener("click", () => turn(-PAGE));
  at("after").addEventListener("click", () => turn(PAGE));

  /* ---------------------------------------------------------------- cleaned labels */

  /* 1 suggested, 2 given, 3 drop; a row without a decision follows the rule of its tier below the table. */
  function fate(i) {
    if (decisions[i]) return decisions[i];
    const rest = Number(at(held.wrong[i] ? "rest" : "rest-look").value);
    return rest === 1 && held.confidence[i] < Number(at("least").value) * data.steps ? 3 : rest;
  }
  function outcome() {
    let changed = 0, dropped = 0;
    for (let i = 0; i < n; i++) {
      const how = fate(i);
      changed += how === 1;
      dropped += how === 3;
    }
    const all = held.codes ? data.n : n;
    const count = (number, noun) => `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;
    return `${count(all - dropped, "row")}, ${count(changed, "label")} changed, ${count(dropped, "row")} dropped`;
  }
  const certain = (row, i, how) => {
    if (i !== undefined) return String(share(how === 1 ? held.confidence[i] : held.plausibility[i]));
    return held.sure ? String(held.sure[row] / 100) : "";
  };
  function cleaned() {
    const whole = held.codes || null;
    const first = ids ? data.idName : "row";
    const lines = [[first, "label", "given_label", "confidence"].map(quoted).join(",")];
    const rows = whole ? [...Array(data.n).keys()] : [...held.row].sort((a, b) => a - b);
    for (const row of rows) {
      const i = placeInTable.get(row);
      const given = whole ? whole[row] : held.given[i];
      const how = i === undefined ? 2 : fate(i);
      if (how === 3) continue;
      const code = how === 1 ? held.best[i] : given;
      const name = ids ? ids[row] : String(number(row));
      lines.push([name, classes[code], classes[given], certain(row, i, how)].map(quoted).join(","));
    }
    return lines.join("\n") + "\n";
  }
  function foretell() {
    at("least-label").hidden = at("rest").value !== "1" && at("rest-look").value !== "1";
    at("done").textContent = `${outcome()}.`;
  }
  for (const id of ["rest", "rest-look", "least"]) at(id).addEventListener("change", foretell);
  at("download").addEventListener("click", () => {
    const link = make("a", { href: URL.createObjectURL(new Blob([cleaned()], { type: "text/csv" })), download: "cleaned-labels.csv" });
    link.click();
    isSaved = true;
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    at("done").textContent = `Downloaded: ${outcome()}.`;
  });

  for (const id of ["filters", "table", "actions", "rule"]) at(id).hidden = n === 0;
  if (data.cut) for (const id of ["actions", "rule"]) at(id).hidden = true; /* labels are not whole here */
  if (n === 0) at("count").textContent = "There are none.";
  else { refresh(); foretell(); }
  drawLegend();
  new ResizeObserver(drawMap).observe(box);
  root.dataset.ready = "yes";
})();
