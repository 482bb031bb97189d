/* Checked by sample: the formulas of nearkin/audit/sample.py, which says why they hold. No access to the page.
   draws: {row, guess, rank}; facts: {depth, mean, least, most, spread}; answers: {row: "right" | "wrong" | "unsure"}. */

function followAnswers(wrong, guess, size, mean, spread) {
  spread = Math.max(spread, 1e-6);
  const known = 4 * Math.max(mean * (1 - mean) - spread, 1e-6), course = [];
  let total = 0, seen = 0, common = 0, squares = 0, guessed = 0, unexplained = 3 * spread;
  for (let t = 0; t <= wrong.length; t++) {
    const left = Math.max(size - seen, 1), usual = (size * mean - guessed) / left;
    const trust = Math.min(Math.max((known + common) / (known + squares), 0), 1);
    course.push({ total, left, usual, trust, variance: unexplained / (3 + seen) });
    if (t === wrong.length) break;
    const beyond = wrong[t] - (total + 3 * mean) / (seen + 3), above = guess[t] - mean;
    unexplained += (beyond - trust * (guess[t] - usual)) ** 2;
    common += beyond * above;
    squares += above * above;
    total += wrong[t];
    guessed += guess[t];
    seen += 1;
  }
  return course;
}

function refuteShare(wrong, guess, size, mean, most, spread, plan) {
  const course = followAnswers(wrong, guess, size, mean, spread);
  let low = 0, high = 1;
  for (let halving = 0; halving < 40; halving++) {
    const middle = 0.5 * (low + high);
    let capital = 1, largest = 1;
    for (let t = 0; t < wrong.length; t++) {
      const { total, left, usual, trust, variance } = course[t];
      const share = Math.max((size * middle - total) / left, 0);
      const stake = Math.min(Math.sqrt((2 * Math.log(40)) / (Math.max(plan, t + 1) * variance)), 0.9 / Math.max(share + trust * (most - usual), 1e-6));
      capital *= Math.max(1 + stake * (wrong[t] - share - trust * (guess[t] - usual)), 0);
      largest = Math.max(largest, capital);
    }
    if (largest >= 40) low = middle; else high = middle;
  }
  return low;
}

function checkedPrefix(draws, answers) {
  let n = 0;
  while (n < draws.row.length && answers[draws.row[n]]) n++;
  return n;
}

function checkedShare(draws, answers, facts, d) {
  const n = checkedPrefix(draws, answers), size = facts.depth[d], mean = facts.mean[d], spread = facts.spread[d];
  const guess = [], few = [], many = [], judged = [], judgedGuess = [];
  for (let t = 0; t < n; t++) {
    if (draws.rank[t] >= size) continue;
    const said = answers[draws.row[t]];
    guess.push(draws.guess[t]);
    few.push(said === "wrong" ? 1 : 0);
    many.push(said === "right" ? 0 : 1);
    if (said === "unsure") continue; /* estimates rest on what could be told */
    judged.push(few.at(-1));
    judgedGuess.push(draws.guess[t]);
  }
  const sum = (values) => values.reduce((a, b) => a + b, 0), opposite = (values) => values.map((one) => 1 - one);
  const plan = Math.max(1, (50 * size) / facts.depth[facts.depth.length - 1]);
  const proven = sum(few) / size, open = 1 - sum(opposite(many)) / size, clip = (value) => Math.min(Math.max(value, proven), open);
  const ends = [clip(refuteShare(few, guess, size, mean, facts.most[d], spread, plan)),
    clip(1 - refuteShare(opposite(many), opposite(guess), size, 1 - mean, 1 - facts.least[d], spread, plan))];
  const low = Math.min(...ends), high = Math.max(...ends);
  const { trust } = followAnswers(judged, judgedGuess, size, mean, spread).at(-1);
  const shares = sum(judged.map((one, t) => one - trust * (judgedGuess[t] - mean)));
  /* What the audit expects of a part counts as far as it was right about the whole. */
  const whole = d === facts.depth.length - 1 ? null : checkedShare(draws, answers, facts, facts.depth.length - 1);
  const expected = whole ? Math.min(Math.max(whole.free + whole.trust * (mean - facts.mean.at(-1)), 0), 1) : mean;
  const free = (3 * expected + shares) / (judged.length + 3);
  return { depth: size, low, high, estimate: Math.min(Math.max(free, low), high), free, trust };
}

function checkedRate(draws, answers, facts) {
  const { estimate, low, high } = checkedShare(draws, answers, facts, facts.depth.length - 1);
  const answered = checkedPrefix(draws, answers), all = Object.values(answers).filter(Boolean).length;
  const count = (what) => draws.row.slice(0, answered).filter((row) => answers[row] === what).length;
  return { rate: estimate, low, high, answered, wrong: count("wrong"), unsure: count("unsure"), ignored: all - answered };
}

/* About how many answers in all bring the interval to 5 points either side; 0 where it is there already. */
function checkedUseful({ low, high, answered }, size) {
  const times = ((high - low) / 0.1) ** 2;
  return times <= 1 ? 0 : Math.min(size, 10 * Math.ceil((answered * times) / 10));
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
