/* What the reader decided and answered, by row: undone step by step, kept in the browser, exported and imported. */
const FATES = ["", "suggested", "given", "drop", "label"];
const ANSWERS = ["", "right", "wrong", "unsure"];

/* A suggestion that was accepted is kept as text: another audit of the same rows may suggest another label. */
function makeLedger(key, suggestionOf, onOther) {
  const decisions = new Map(), answers = new Map(), steps = [];
  let isSafe = true; /* whether all of it is stored or exported */
  let canStore = true;
  const fateOf = (row) => (decisions.has(row) ? decisions.get(row)[0] : 0);
  const labelOf = (row) => (fateOf(row) === 4 ? decisions.get(row)[1] : undefined);

  function keep() {
    isSafe = false;
    try {
      localStorage.setItem(key, JSON.stringify({ decisions: [...decisions], answers: [...answers] }));
      isSafe = canStore = true;
    } catch {
      canStore = false;
    }
  }
  /* Changes are [map, row, value]; those made together are undone together. */
  function change(changes) {
    steps.push(changes.map(([map, row]) => [map, row, map.get(row)]));
    write(changes);
  }
  function write(changes) {
    for (const [map, row, value] of changes) {
      if (value === undefined) map.delete(row);
      else map.set(row, value);
    }
    keep();
  }
  function entry(row, how, label) {
    if (how === 1 && label !== undefined && label !== suggestionOf(row)) return [4, label];
    return how ? [how, how === 1 ? suggestionOf(row) : how === 4 ? label : undefined] : undefined;
  }
  const isEntry = (one) => Array.isArray(one) && one[0] > 0 && one[0] < FATES.length && (one[0] !== 4 || typeof one[1] === "string");

  /* Takes what is stored in place of what is held. */
  function read(text) {
    const found = JSON.parse(text || "{}");
    decisions.clear();
    answers.clear();
    for (const [row, one] of found.decisions || []) if (Number.isInteger(row) && isEntry(one)) decisions.set(row, entry(row, one[0], one[1] ?? undefined));
    for (const [row, one] of found.answers || []) if (Number.isInteger(row) && one > 0 && one < ANSWERS.length) answers.set(row, one);
  }
  try {
    read(localStorage.getItem(key));
  } catch {
    canStore = false;
  }
  /* Another tab with the same page decided: both hold the same from now on, and nothing older is undone. */
  addEventListener("storage", (event) => {
    if (event.key !== key) return;
    try { read(event.newValue); } catch { return; }
    steps.length = 0;
    onOther();
  });
  return {
    fateOf, labelOf, decisions, answers,
    answerOf: (row) => answers.get(row) || 0,
    decide: (rows, how, label) => change(rows.map((row) => [decisions, row, entry(row, how, label)])),
    answer: (row, answer, how, label) => change([[answers, row, answer || undefined], [decisions, row, entry(row, how, label)]]),
    /* Returns the rows that changed back, or null where there is nothing to undo. */
    undo: () => {
      const last = steps.pop();
      if (!last) return null;
      write(last);
      return last.map(([, row]) => row);
    },
    merge: (others) => change([
      ...others.decisions.map(([row, how, label]) => [decisions, row, entry(row, how, label)]),
      ...others.answers.map(([row, answer]) => [answers, row, answer])]),
    canUndo: () => steps.length > 0,
    canStore: () => canStore,
    isSafe: () => isSafe || (decisions.size === 0 && answers.size === 0),
    exported: () => { isSafe = true; },
  };
}
