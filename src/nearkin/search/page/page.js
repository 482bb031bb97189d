(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const PAGE = matchMedia("(max-width: 720px)").matches ? 15 : 30;
  const all = data.suspects, n = all.length;
  const decisions = new Uint8Array(n), opened = new Set();
  const WORDS = ["", "keep", "wrong"];
  let shown = [], start = 0, key = "", direction = 1, isSaved = true;

  const nameOf = (kind, row) => visible(data[kind][row][0]);
  const textOf = (kind, row) => data[kind][row][1];
  const thousands = (number) => number.toLocaleString("en");
  const count = (number, noun) => `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;

  function named(kind, row, extra = "") {
    const words = make("span", { className: extra }, make("bdi", { textContent: nameOf(kind, row) }));
    if (textOf(kind, row)) words.append(" ", make("span", { className: "note", dir: "auto", textContent: visible(textOf(kind, row)) }));
    return words;
  }
  function cell(kind, row, title) {
    const words = make("div", {}, make("bdi", { textContent: nameOf(kind, row) }));
    if (textOf(kind, row)) words.append(make("p", { className: "text", dir: "auto", textContent: visible(textOf(kind, row)) }));
    return make("td", { "data-title": title, className: "wide" }, make("div", { className: "name" }, words));
  }
  function meter(value) {
    const bar = draw("svg", { width: 48, height: 8, "aria-hidden": "true" },
      draw("rect", { class: "back", width: 48, height: 8, rx: 4 }), draw("rect", { class: "front", width: Math.max(2, 48 * value), height: 8, rx: 4 }));
    return make("span", { className: "meter low" }, bar, value.toFixed(2));
  }
  function nearList(one) {
    const list = make("ul", { className: "near" });
    for (const [query, alike, items] of one.near) {
      const clicked = make("ul");
      for (const [item, times, cosine] of items) {
        clicked.append(make("li", {}, named("items", item, item === one.i ? "this" : ""), make("span", { className: "note", textContent: ` – ${count(times, "click")}, cosine to this item ${cosine.toFixed(2)}` })));
      }
      list.append(make("li", {}, named("queries", query), make("span", { className: "note", textContent: ` – cosine ${alike.toFixed(2)}` }), clicked));
    }
    return list;
  }
  function evidence(k) {
    const one = all[k], box = make("td", { className: "why wide", "data-title": "Evidence" });
    const same = one.near.filter(([, , items]) => items.some(([item]) => item === one.i)).length;
    const nearest = Math.max(-1, ...one.near.flatMap(([, , items]) => items.map(([, , cosine]) => cosine)));
    const short = !one.near.length ? "No query is near." : same ? `${same} of ${one.near.length} near queries clicked it too.` : `None of ${one.near.length} near queries clicked it; the most alike item that they clicked has cosine ${nearest.toFixed(2)}.`;
    const button = make("button", { type: "button", textContent: opened.has(k) ? "less" : "more" });
    button.setAttribute("aria-expanded", String(opened.has(k)));
    button.setAttribute("aria-label", `Evidence for query ${nameOf("queries", one.q)}, item ${nameOf("items", one.i)}`);
    button.addEventListener("click", () => {
      const isOpen = opened.has(k), line = box.parentElement;
      if (isOpen) { opened.delete(k); line.nextElementSibling.remove(); }
      else { opened.add(k); line.after(detail(k)); }
      line.classList.toggle("open", !isOpen);
      button.textContent = isOpen ? "more" : "less";
      button.setAttribute("aria-expanded", String(!isOpen));
    });
    box.append(short, " ", button);
    return box;
  }
  function detail(k) {
    const one = all[k], parts = make("div", { className: "parts" });
    if (one.near.length) parts.append(make("div", {}, make("h4", { textContent: "Near queries, and what they clicked most" }), nearList(one)));
    if (one.list.length > 1) {
      const list = make("ol", { className: "shown" });
      for (const [item, hit] of one.list) {
        const line = make("li", {}, named("items", item, item === one.i ? "this" : hit ? "hit" : ""));
        if (hit) line.append(make("span", { className: "note", textContent: item === one.i ? " – this click" : " – clicked" }));
        list.append(line);
      }
      parts.append(make("div", {}, make("h4", { textContent: "A list in which it was clicked" }), list));
    }
    return make("tr", { className: "detail" }, make("td", { colSpan: 7, className: "wide" }, parts));
  }
  function decision(k, line) {
    const choice = make("select", {}, ...["–", "keep", "wrong"].map((text, value) => make("option", { value: String(value), textContent: text })));
    choice.setAttribute("aria-label", `Decision for query ${nameOf("queries", all[k].q)}, item ${nameOf("items", all[k].i)}`);
    choice.value = String(decisions[k]);
    line.classList.toggle("decided", decisions[k] > 0);
    choice.addEventListener("change", () => {
      decisions[k] = Number(choice.value);
      isSaved = false;
      line.classList.toggle("decided", decisions[k] > 0);
      tell();
    });
    return make("td", { className: "decide wide", "data-title": "Decision" }, choice);
  }
  function oneRow(k) {
    const one = all[k], line = make("tr", { className: opened.has(k) ? "open" : "" });
    const rank = make("td", { className: "number", "data-title": "Rank before, after" }, thousands(one.before), make("span", { className: "moves", textContent: ` → ${thousands(one.after)}` }));
    line.append(
      cell("queries", one.q, "Query"), cell("items", one.i, "Clicked item"),
      make("td", { "data-title": "Plausibility" }, meter(one.p)),
      make("td", { className: "number", "data-title": "Clicks of times shown" }, thousands(one.clicks), make("span", { className: "moves", textContent: ` of ${thousands(one.shown)}` })),
      rank, evidence(k), decision(k, line));
    return line;
  }
  const haystack = all.map((one) => [...data.queries[one.q], ...data.items[one.i]].join("\n").toLowerCase());
  function refresh() {
    const wanted = at("query").value.trim().toLowerCase(), decided = at("by-decision").value, rank = at("by-rank").value;
    shown = [...all.keys()].filter((k) => (!wanted || haystack[k].includes(wanted)) && (decided === "" || decisions[k] === Number(decided))
      && (!rank || (rank === "near" ? all[k].before <= 10 : all[k].before > 100)));
    if (key) {
      const value = (k) => (key === "q" ? nameOf("queries", all[k].q) : key === "i" ? nameOf("items", all[k].i) : all[k][key]);
      const order = new Intl.Collator("en", { numeric: true });
      shown.sort((a, b) => direction * (typeof value(a) === "string" ? order.compare(value(a), value(b)) : value(a) - value(b)) || a - b);
    }
    start = 0;
    show();
  }
  function tell() {
    const decided = decisions.reduce((sum, one) => sum + (one > 0), 0);
    const some = shown.length === n ? `${thousands(n)}${key ? "" : ", the least plausible first"}` : `${thousands(shown.length)} of ${thousands(n)}`;
    at("count").textContent = decided ? `${some}; ${thousands(decided)} decided` : some;
    const wrong = decisions.reduce((sum, one) => sum + (one === 2), 0);
    at("done").textContent = decided ? `${thousands(wrong)} wrong, ${thousands(decided - wrong)} to keep.` : "Nothing is decided yet.";
  }
  function show() {
    at("body").replaceChildren(...shown.slice(start, start + PAGE).flatMap((k) => (opened.has(k) ? [oneRow(k), detail(k)] : [oneRow(k)])));
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
      direction = same ? -direction : ["clicks", "before"].includes(head.dataset.key) ? -1 : 1;
      key = head.dataset.key;
      for (const other of document.querySelectorAll("#table th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      refresh();
    });
  }
  for (const id of ["by-decision", "by-rank"]) at(id).addEventListener("change", refresh);
  at("query").addEventListener("input", refresh);
  at("bulk").addEventListener("change", () => {
    if (at("bulk").value !== "") for (const k of shown) decisions[k] = Number(at("bulk").value);
    at("bulk").value = "";
    isSaved = false;
    show();
  });
  addEventListener("beforeunload", (event) => { if (!isSaved) event.preventDefault(); });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("filters").addEventListener("reset", () => setTimeout(refresh));
  at("before").addEventListener("click", () => turn(-PAGE));
  at("after").addEventListener("click", () => turn(PAGE));

  function save(text, type, name) {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    isSaved = true;
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  const decided = () => [...all.keys()].filter((k) => decisions[k]).map((k) => [data.queries[all[k].q][0], data.items[all[k].i][0], WORDS[decisions[k]]]);
  at("download").addEventListener("click", () => save([["query", "item", "decision"], ...decided()].map((line) => line.map(quoted).join(",") + "\n").join(""), "text/csv", "decisions.csv"));
  at("download-json").addEventListener("click", () => save(decided().map(([query, item, decision]) => JSON.stringify({ query, item, decision }) + "\n").join(""), "application/jsonl", "decisions.jsonl"));

  for (const id of ["filters", "table", "actions", "rule"]) at(id).hidden = n === 0;
  if (n === 0) at("count").textContent = "There are none.";
  else refresh();
  document.documentElement.dataset.ready = "yes";
})();
