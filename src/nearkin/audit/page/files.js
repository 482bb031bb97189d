/* What leaves the page and comes back: cleaned labels as CSV, decisions and answers as JSON. */
function makeFiles({ data, held, ids, someIds, number, classes, ledger, placeInTable, thousands, onImport }) {
  const at = (id) => document.getElementById(id), n = data.suspects;
  const share = (steps) => steps / data.steps, fateAt = (i) => ledger.fateOf(held.row[i]);
  const count = (many, noun, nouns) => `${thousands(many)} ${many === 1 ? noun : nouns || `${noun}s`}`;

  /* 1 suggested, 2 given, 3 drop, 4 another label; a suspect without a decision follows the rule of its tier below the
     table, any other row keeps its label. */
  function fate(i) {
    if (fateAt(i)) return fateAt(i);
    if (i >= n) return 2;
    const rest = Number(at(held.wrong[i] ? "rest" : "rest-look").value);
    return rest === 1 && held.confidence[i] < Number(at("least").value) * data.steps ? 3 : rest;
  }
  function outcome() {
    let changed = 0, dropped = 0;
    for (let i = 0; i < (held.codes ? held.row.length : n); i++) {
      const how = fate(i);
      changed += how === 1 || (how === 4 && ledger.labelOf(held.row[i]) !== classes[held.given[i]]);
      dropped += how === 3;
    }
    const all = held.codes ? data.n : n;
    return `${count(all - dropped, "row")}, ${count(changed, "label")} changed, ${count(dropped, "row")} dropped`;
  }
  const certain = (row, i, how) => {
    if (how === 4) return "";
    if (i !== undefined && i < n) return String(share(how === 1 ? held.confidence[i] : held.plausibility[i]));
    return held.sure ? String(held.sure[row] / 100) : "";
  };
  function cleaned() {
    const whole = held.codes || null;
    const first = ids ? data.idName : "row";
    const lines = [[first, "label", "given_label", "confidence"].map(quoted).join(",")];
    const rows = whole ? [...Array(data.n).keys()] : [...held.row.slice(0, n)].sort((a, b) => a - b);
    for (const row of rows) {
      const i = placeInTable.get(row);
      const given = whole ? whole[row] : held.given[i];
      const how = i === undefined ? 2 : fate(i);
      if (how === 3) continue;
      const label = how === 4 ? ledger.labelOf(row) : classes[how === 1 ? held.best[i] : given];
      const name = ids ? ids[row] : String(number(row));
      lines.push([name, label, classes[given], certain(row, i, how)].map(quoted).join(","));
    }
    return lines.join("\n") + "\n";
  }
  function foretell() {
    at("least-label").hidden = at("rest").value !== "1" && at("rest-look").value !== "1";
    at("done").textContent = `${outcome()}.`;
  }
  for (const id of ["rest", "rest-look", "least"]) at(id).addEventListener("change", foretell);
  /* Files of different audits have different names, where the page knows its data. */
  const stem = (data.source[0] || "").replace(/(\.gz)?$/i, "").replace(/\.[^.]*$/, "");
  const named = (what, kind) => stem && `${stem}.${what}.${kind}`;
  function download(text, kind, name) {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  at("download").addEventListener("click", () => {
    download(cleaned(), "text/csv", named("cleaned", "csv") || "cleaned-labels.csv");
    ledger.exported();
    at("done").textContent = `Downloaded: ${outcome()}.`;
  });

  function decisionsFile() {
    const one = (row, how, isDecided) => {
      const i = placeInTable.get(row);
      const final = how === 4 ? ledger.labelOf(row) : how === 1 ? classes[held.best[i]] : how === 2 ? classes[held.given[i]] : undefined;
      const id = ids ? ids[row] : someIds[row];
      return { row: number(row), ...(id === undefined ? {} : { id }), given: classes[held.given[i]], decision: FATES[how],
        ...(final === undefined ? {} : { label: final }), ...(isDecided ? {} : { by_rule: true }) };
    };
    const rows = [...ledger.decisions.keys()].filter((row) => placeInTable.has(row)).sort((a, b) => a - b);
    const left = [...Array(n).keys()].filter((i) => !fateAt(i)).map((i) => held.row[i]).sort((a, b) => a - b);
    return {
      nearkin: "decisions", format: 1, audit: data.fingerprint, title: document.title, n_rows: data.n, id_name: data.idName || null, data: data.source[0], label: data.source[1], digest: data.source[2], rows: data.rows,
      rules: { wrong: FATES[at("rest").value], look: FATES[at("rest-look").value], min_confidence: Number(at("least").value) },
      decisions: rows.map((row) => one(row, ledger.fateOf(row), true)),
      undecided: left.map((row) => one(row, fate(placeInTable.get(row)), false)),
      sample: [...ledger.answers].sort((a, b) => a[0] - b[0]).map(([row, answer]) => ({ row: number(row), answer: ANSWERS[answer] })),
    };
  }
  at("export").addEventListener("click", () => {
    download(JSON.stringify(decisionsFile(), null, 1), "application/json", named("decisions", "json") || "decisions.json");
    ledger.exported();
    at("done").textContent = `Exported: ${thousands(ledger.decisions.size)} decisions.`;
  });
  at("import").addEventListener("click", () => at("import-file").click());
  at("import-file").addEventListener("change", async () => {
    const file = at("import-file").files[0];
    at("import-file").value = "";
    if (!file) return;
    try {
      at("done").textContent = bringIn(JSON.parse(await file.text()));
    } catch (error) {
      at("done").textContent = `${file.name} holds no decisions of this audit: ${error.message}`;
    }
  });
  /* Takes the decisions of a file; where both differ the file wins, and the reader is told. */
  function bringIn(found) {
    if (found === null || typeof found !== "object" || found.nearkin !== "decisions") throw new Error("it is another kind of file.");
    if (found.format !== 1) throw new Error("it was written by a newer nearkin.");
    if (found.audit !== data.fingerprint) throw new Error("its labels are not those of this page.");
    if (found.rows && data.rows && found.rows !== data.rows) throw new Error("its rows are not those of this page.");
    const byNumber = new Map(Array.from(held.row, (row) => [number(row), row]));
    const decided = [], answered = [];
    let differ = 0, unknown = 0, unread = 0;
    for (const one of found.decisions || []) {
      const row = byNumber.get(one.row), how = FATES.indexOf(one.decision);
      if (row === undefined) { unknown++; continue; }
      const i = placeInTable.get(row), isWhole = how > 0 && (how !== 4 || typeof one.label === "string");
      if (!isWhole || (i !== undefined && one.given !== classes[held.given[i]])) { unread++; continue; }
      const before = ledger.fateOf(row);
      differ += before > 0 && (before !== how || (how === 4 && ledger.labelOf(row) !== one.label));
      decided.push([row, how, typeof one.label === "string" && (how === 1 || how === 4) ? one.label : undefined]);
    }
    for (const one of found.sample || []) {
      const row = byNumber.get(one.row), answer = ANSWERS.indexOf(one.answer);
      if (row === undefined) unknown++;
      else if (answer < 1) unread++;
      else answered.push([row, answer]);
    }
    ledger.merge({ decisions: decided, answers: answered });
    onImport();
    const words = [`Imported ${count(decided.length, "decision")} and ${count(answered.length, "answer")}`];
    if (differ) words.push(`${thousands(differ)} of them replaced another decision (undo brings it back)`);
    if (unknown) words.push(`left out ${count(unknown, "entry", "entries")} about rows that are not in this page`);
    if (unread) words.push(`left out ${count(unread, "entry", "entries")} that cannot be read or name another label`);
    return `${words.join("; ")}.`;
  }

  return { foretell };
}
