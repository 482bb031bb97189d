/* The map of the rows. Classes beyond the eight hues repeat them with another shape, so that fifty can be told apart.
   Orange and yellow are left to the rings of suspects. */
const HUES = [205, 152, 280, 335, 95, 180, 240, 0];
const SHAPES = [
  [], /* a circle */
  [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
  [[0, -1.2], [1.15, 0.9], [-1.15, 0.9]],
  [[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]],
  [[0, 1.2], [1.15, -0.9], [-1.15, -0.9]],
  [[-1.3, -0.45], [-0.45, -0.45], [-0.45, -1.3], [0.45, -1.3], [0.45, -0.45], [1.3, -0.45], [1.3, 0.45], [0.45, 0.45], [0.45, 1.3], [-0.45, 1.3], [-0.45, 0.45], [-1.3, 0.45]],
  [[-0.45, -1.4], [0.45, -1.4], [0.45, 1.4], [-0.45, 1.4]],
];
/* Classes that all have a name in the map, those that have one where there is room, and those in the legend. */
const NAMED = 12, CROWDED = 60, LISTED = 120;

const shapeOf = (code) => SHAPES[Math.floor(code / HUES.length) % SHAPES.length];
function colourOf(code) {
  const hue = code < HUES.length * SHAPES.length ? HUES[code % HUES.length] : (code * 137.508) % 360;
  return isDark() ? `hsl(${hue} 55% 66%)` : `hsl(${hue} 52% 46%)`;
}

function makeMap({ held, names, nameOf, tell, pick }) {
  const at = (id) => document.getElementById(id), root = document.documentElement;
  const canvas = at("map"), tip = at("tip"), box = canvas.parentElement;
  let only = -1, hovered = -1;
  const placeOf = (i, width, height) => [
    14 + (held.mapX[i] / 4095) * (width - 28), 14 + (1 - held.mapY[i] / 4095) * (height - 28)];
  function trace(pen, code, x, y, size) {
    const corners = shapeOf(code);
    pen.beginPath();
    if (!corners.length) { pen.arc(x, y, size, 0, 7); return; }
    for (const [dx, dy] of corners) pen.lineTo(x + size * dx, y + size * dy);
    pen.closePath();
  }
  function drawMap() {
    const width = box.clientWidth, height = box.clientHeight, scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d"), style = getComputedStyle(root);
    pen.scale(scale, scale);
    const rings = [null, "--look-mark", "--doubt"].map((name) => name && style.getPropertyValue(name).trim());
    const many = held.mapRow.length > 1500, fills = new Map();
    for (const tier of [0, 1, 2]) {
      for (let i = 0; i < held.mapRow.length; i++) {
        if (held.mapTier[i] !== tier) continue;
        const code = held.mapGiven[i], [x, y] = placeOf(i, width, height), mine = only < 0 || code === only;
        if (!fills.has(code)) fills.set(code, colourOf(code));
        pen.globalAlpha = mine ? (tier ? 0.95 : 0.55) : 0.06;
        pen.fillStyle = fills.get(code);
        trace(pen, code, x, y, tier ? (many ? 2.4 : 4) : many ? 2 : 2.8);
        pen.fill();
        if (tier) { pen.lineWidth = many ? 0.7 : 1.6; pen.strokeStyle = rings[tier]; pen.stroke(); }
      }
    }
    nameClasses(pen, style, width, height);
    if (hovered >= 0) {
      const [x, y] = placeOf(hovered, width, height);
      pen.globalAlpha = 1; pen.lineWidth = 2; pen.strokeStyle = style.getPropertyValue("--ink").trim();
      pen.beginPath(); pen.arc(x, y, 8, 0, 7); pen.stroke();
    }
    pen.globalAlpha = 1;
  }
  const places = new Map(); /* of the rows of a class that are not suspects */
  for (let i = 0; i < held.mapRow.length; i++) {
    if (held.mapTier[i]) continue;
    if (!places.has(held.mapGiven[i])) places.set(held.mapGiven[i], []);
    places.get(held.mapGiven[i]).push(i);
  }
  const middles = new Map();
  for (const [code, mine] of places) {
    const middle = (values) => mine.map((i) => values[i]).sort((a, b) => a - b)[mine.length >> 1] / 4095;
    middles.set(code, [middle(held.mapX), middle(held.mapY)]);
  }
  function nameClasses(pen, style, width, height) {
    const isCrowded = middles.size > NAMED, longest = isCrowded ? 12 : 18; /* then only names that find room */
    pen.font = `600 ${isCrowded ? 11 : 13}px system-ui, sans-serif`;
    pen.textAlign = "center"; pen.textBaseline = "middle"; pen.lineJoin = "round"; pen.lineWidth = 4;
    pen.strokeStyle = style.getPropertyValue("--fill").trim(); pen.fillStyle = style.getPropertyValue("--ink").trim();
    const taken = [];
    for (const [code, [x, y]] of middles) {
      if (middles.size > CROWDED && code !== only) continue;
      const name = names[code].length > longest ? names[code].slice(0, longest - 1) + "…" : names[code];
      const half = pen.measureText(name).width / 2 + 6;
      let left = Math.min(Math.max(14 + x * (width - 28), half), width - half), top = 14 + (1 - y) * (height - 28) - (isCrowded ? 12 : 0);
      const isTaken = () => taken.some(([a, b, c]) => Math.abs(a - left) < c + half && Math.abs(b - top) < 17);
      for (let tries = 0; !isCrowded && tries < 12 && isTaken(); tries++) top += 17;
      if (isCrowded && code !== only && isTaken()) continue;
      taken.push([left, top, half]);
      pen.globalAlpha = only < 0 || only === code ? 1 : 0.25;
      pen.strokeText(name, left, top); pen.fillText(name, left, top);
    }
  }
  function drawLegend() {
    const size = new Map();
    for (const code of held.mapGiven) size.set(code, (size.get(code) || 0) + 1);
    const shown = [...size.keys()].sort((a, b) => size.get(b) - size.get(a)).slice(0, LISTED).sort((a, b) => a - b);
    at("legend").replaceChildren(...shown.map((code) => {
      const corners = shapeOf(code).map(([x, y]) => `${6 + 4.2 * x},${6 + 4.2 * y}`).join(" ");
      const mark = corners ? draw("polygon", { points: corners, fill: colourOf(code) }) : draw("circle", { cx: 6, cy: 6, r: 5, fill: colourOf(code) });
      const button = make("button", { type: "button" }, draw("svg", { width: 12, height: 12, "aria-hidden": "true" }, mark), make("bdi", { className: "cut", textContent: names[code] }));
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
  canvas.addEventListener("pointermove", (event) => {
    const found = nearest(event);
    if (found === hovered) return;
    hovered = found;
    tip.hidden = found < 0;
    if (found >= 0) {
      const row = held.mapRow[found];
      tip.replaceChildren(make("bdi", { textContent: nameOf(row) }), ": given ", make("bdi", { className: "cut", textContent: names[held.mapGiven[found]] }), ...tell(row));
      const [x, y] = placeOf(found, box.clientWidth, box.clientHeight);
      tip.style.left = `${Math.min(x + 12, box.clientWidth - 160)}px`;
      tip.style.top = `${Math.max(0, y - 40)}px`;
    }
    drawMap();
  });
  canvas.addEventListener("pointerleave", () => { hovered = -1; tip.hidden = true; drawMap(); });
  canvas.addEventListener("click", (event) => {
    const found = nearest(event);
    if (found >= 0) pick(held.mapRow[found]);
  });
  root.addEventListener("theme", () => { drawLegend(); drawMap(); });
  drawLegend();
  new ResizeObserver(drawMap).observe(box);
}
