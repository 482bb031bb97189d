/* Checked by sample: the formulas of nearkin/audit/sample.py, which says why they hold. No access to the page.
   draws: {row, guess, rank}; facts: {depth, mean, least, most, spread}; answers: {row: "right" | "wrong" | "unsure"}. */

function refuteMean(values, at, floor, size, spread, plan) {
  const n = at.length, stakes = [], sums = [];
  let total = 0, squares = 3 * spread;
  for (let t = 0; t < n; t++) {
    stakes.push(Math.sqrt((2 * Math.log(40)) / ((plan * squares) / (3 + t))));
    sums.push(total);
    total += values[at[t]];
    squares += (values[at[t]] - total / (t + 1)) ** 2;
  }
  let low = 0, high = 1;
  for (let halving = 0; halving < 40; halving++) {
    const middle = 0.5 * (low + high);
    let capital = 1, most = 1;
    for (let t = 0; t < n; t++) {
      const centre = Math.max((size * middle - sums[t]) / Math.max(size - t, 1), floor);
      const stake = Math.min(stakes[t], 0.9 / Math.max(centre - floor, 1e-12));
      capital *= Math.max(1 + stake * (values[at[t]] - centre), 0);
      most = Math.max(most, capital);
    }
    if (most >= 40) low = middle; else high = middle;
  }
  return low;
}

function checkedPrefix(draws, answers) {
  let n = 0;
  while (n < draws.row.length && answers[draws.row[n]]) n++;
  return n;
}

function checkedShare(draws, answers, facts, d) {
  const n = checkedPrefix(draws, answers), size = facts.depth[d], mean = facts.mean[d], at = [], few = [], many = [];
  let sure = 0, open = 0, gaps = 0;
  for (let t = 0; t < n; t++) {
    const said = answers[draws.row[t]], guess = draws.guess[t];
    const least = said === "wrong" ? 1 : 0, most = said === "right" ? 0 : 1;
    few.push(least - guess + mean);
    many.push(1 - (most - guess + mean));
    if (draws.rank[t] >= size) continue;
    at.push(t);
    sure += least;
    open += 1 - most;
    gaps += (least + most) / 2 - guess;
  }
  const plan = Math.max(1, (draws.row.length * size) / facts.depth[facts.depth.length - 1]);
  const spread = Math.max(facts.spread[d], 1e-6);
  const low = Math.max(refuteMean(few, at, mean - facts.most[d], size, spread, plan), sure / size);
  const high = Math.min(1 - refuteMean(many, at, facts.least[d] - mean, size, spread, plan), 1 - open / size);
  return { depth: size, low, high, estimate: Math.min(Math.max(mean + gaps / (at.length + 3), low), high) };
}

function checkedRate(draws, answers, facts) {
  const { estimate, low, high } = checkedShare(draws, answers, facts, facts.depth.length - 1);
  const answered = checkedPrefix(draws, answers), all = Object.values(answers).filter(Boolean).length;
  let wrong = 0;
  for (let t = 0; t < answered; t++) if (answers[draws.row[t]] === "wrong") wrong++;
  return { rate: estimate, low, high, answered, wrong, ignored: all - answered };
}

function checkedPrecision(draws, answers, facts) {
  return Array.from(facts.depth, (_, d) => checkedShare(draws, answers, facts, d));
}

function checkedStop(precision) {
  let stop = 0, lead = 0;
  for (const { depth, estimate } of precision) {
    if (depth * (2 * estimate - 1) > lead) [stop, lead] = [depth, depth * (2 * estimate - 1)];
  }
  return stop;
}
