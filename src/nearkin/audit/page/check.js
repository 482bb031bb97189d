/* The sample that chance has drawn: how far it is answered, and what follows from the answers. */
function makeCheck({ data, held, ledger, placeInTable, review, thousands }) {
  const at = (id) => document.getElementById(id), drawn = data.sample;
  const places = drawn.row.map((row) => placeInTable.get(row));
  const percent = (share) => { const value = 100 * share; return `${value.toFixed(value < 9.95 ? 1 : 0)} %`; };
  const before = at("headline").cloneNode(true);
  const isEnough = (found) => found.answered - found.unsure >= data.enough; /* then headline and advice rest on the answers */

  let told = ""; /* the answers that are shown */
  function show() {
    const given = JSON.stringify([...ledger.answers]);
    if (given === told) return; /* decisions change nothing here, and the headline is not read out again */
    told = given;
    const answers = Object.fromEntries([...ledger.answers].map(([row, answer]) => [row, ANSWERS[answer]]));
    const found = checkedRate(drawn, answers, drawn), done = places.filter((i) => ledger.answerOf(held.row[i])).length;
    at("check-state").textContent = done ? `${thousands(done)} of ${thousands(places.length)} answered` : "";
    at("check-begin").textContent = done ? "Go on" : "Begin";
    at("check-begin").hidden = done === places.length;
    at("check-again").hidden = done < places.length;
    at("checked").hidden = found.answered === 0;
    if (found.answered) tell(found, checkedPrecision(drawn, answers, drawn));
    headline(found);
  }
  function tell(found, ends) {
    const useful = isEnough(found) ? checkedUseful(found, ends.at(-1).depth) : 0;
    at("checked-words").replaceChildren(
      make("b", { textContent: `Checked: ${percent(found.rate)} of the labels are wrong, between ${percent(found.low)} and ${percent(found.high)}` }),
      ` (${thousands(found.answered - found.unsure)} rows judged, ${thousands(found.wrong)} of them wrong${found.unsure ? `; ${thousands(found.unsure)} nobody could tell` : ""}).`,
      useful ? ` About ${thousands(useful)} answers in all would bring the interval to ±5 points; review_sample(${useful}) in Python draws these rows and more.` : "");
    const stop = isEnough(found) ? checkedStop(ends) : 0;
    const x = (depth) => 40 + (550 * Math.log(depth / ends[0].depth + 1e-9)) / Math.log(ends.at(-1).depth / ends[0].depth + 1e-9), y = (value) => 160 - 150 * value;
    const band = [...ends.map((one) => `${x(one.depth)},${y(one.high)}`), ...ends.toReversed().map((one) => `${x(one.depth)},${y(one.low)}`)];
    const parts = [0, 0.5, 1].flatMap((value) => [draw("line", { class: "axis", x1: 40, x2: 590, y1: y(value), y2: y(value) }), words(34, y(value) + 4, `${100 * value} %`, "end")]);
    parts.push(draw("polygon", { class: "band", points: band.join(" ") }), draw("polyline", { class: "line", points: ends.map((one) => `${x(one.depth)},${y(one.estimate)}`).join(" ") }));
    if (stop > 0) parts.push(draw("line", { class: "stop", x1: x(stop), x2: x(stop), y1: 8, y2: 160 }));
    parts.push(words(40, 180, `first ${thousands(ends[0].depth)} rows`, "start"), words(590, 180, `all ${thousands(ends.at(-1).depth)}`, "end"));
    for (let depth = 100; depth < ends.at(-1).depth; depth *= 10) {
      if (x(depth) < 150 || x(depth) > 490) continue; /* the words at the ends stand there */
      parts.push(draw("line", { class: "axis", x1: x(depth), x2: x(depth), y1: 10, y2: 164 }), words(x(depth), 180, thousands(depth), "middle"));
    }
    at("curve").replaceChildren(...parts);
    at("depths").replaceChildren(...ends.map((one) => make("tr", { className: one.depth === stop ? "stopped" : "" },
      make("th", { scope: "row", className: "number", textContent: thousands(one.depth) }),
      ...[one.estimate, one.low, one.high].map((share) => make("td", { className: "number", textContent: percent(share) })))));
    const advice = !isEnough(found) ? `${thousands(data.enough)} rows judged right or wrong tell where to stop.` : stop > 0 ? `By the estimates, work down to row ${thousands(stop)} of the list (the dashed line): beyond it labels are more often right than wrong.` : "Nothing in the answers says that whole parts of the list are wrong: decide row by row.";
    at("curve").setAttribute("aria-label", `Share of wrong labels among the most doubtful rows. ${advice}`);
    at("curve-words").textContent = `Share of wrong labels among the most doubtful rows, with its ${data.level} % interval at each depth. ${advice}`;
  }
  function words(x, y, text, anchor) {
    const node = draw("text", { x, y, "text-anchor": anchor });
    node.textContent = text;
    return node;
  }
  /* The bar below the headline, from 0 to its end in percent. */
  const bar = document.querySelector(".range"), estimated = bar && bar.cloneNode(true);
  function drawBar({ rate, low, high }) {
    const end = Math.max(Number(bar.dataset.end), Math.ceil(10 * high) * 10), x = (share) => (600 * 100 * share) / end;
    const part = bar.querySelector(".interval");
    part.setAttribute("x", x(low));
    part.setAttribute("width", Math.max(x(high) - x(low), 2));
    bar.querySelector(".estimate").setAttribute("cx", Math.min(Math.max(x(rate), 7), 593));
    bar.querySelector("svg").setAttribute("aria-label", `Checked: ${percent(rate)}, interval ${percent(low)} to ${percent(high)}`);
    bar.querySelector(".ends span:last-child").textContent = `${end}\u00a0%`;
  }
  function headline(found) {
    if (!isEnough(found)) {
      at("headline").replaceChildren(...before.cloneNode(true).childNodes);
      if (bar) bar.replaceChildren(...estimated.cloneNode(true).childNodes);
      return;
    }
    at("headline").replaceChildren("Checked: ", make("strong", { textContent: percent(found.rate) }), " of labels are wrong");
    if (!bar) return;
    drawBar(found);
    at("interval").replaceChildren("Between ", make("b", { textContent: percent(found.low) }), " and ", make("b", { textContent: percent(found.high) }),
      `, with ${data.level} % certainty whatever the mistakes are like, by ${thousands(found.answered - found.unsure)} rows that you judged.`);
  }
  at("check-begin").addEventListener("click", () => review.openSample(places));
  at("check-again").addEventListener("click", () => review.openSample(places));
  return { show };
}
