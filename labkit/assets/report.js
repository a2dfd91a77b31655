"use strict";
// Draws the figures when they come into view, and plays all maps from one scrubber. Everything it needs is in the page.
(function () {
  const read = (id) => { const node = document.getElementById(id); return node ? JSON.parse(node.textContent) : null; };
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const still = { mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: false } };
  const card = document.getElementById("card");

  // --- pictures of samples -----------------------------------------------------------------------------------------
  const sheets = (read("sheets") || []).map((sheet) => {
    const image = new Image();
    image.src = sheet.png;
    return { ...sheet, image };
  });
  function showCard(event, sheetIndex, row, text) {
    const sheet = sheets[sheetIndex];
    card.replaceChildren();
    if (sheet && sheet.image.complete) {
      const zoom = Math.max(1, Math.round(112 / sheet.width));
      const canvas = document.createElement("canvas");
      canvas.width = sheet.width * zoom; canvas.height = sheet.height * zoom;
      const pen = canvas.getContext("2d");
      pen.imageSmoothingEnabled = false;
      pen.drawImage(sheet.image, (row % sheet.columns) * sheet.width, Math.floor(row / sheet.columns) * sheet.height,
        sheet.width, sheet.height, 0, 0, canvas.width, canvas.height);
      card.append(canvas);
    }
    const line = document.createElement("div");
    line.textContent = text;
    card.append(line);
    card.style.display = "block";
    const x = event.clientX + 18, y = event.clientY + 18;
    card.style.left = Math.min(x, innerWidth - card.offsetWidth - 8) + "px";
    card.style.top = (y + card.offsetHeight > innerHeight ? event.clientY - card.offsetHeight - 12 : y) + "px";
  }
  const hideCard = () => { card.style.display = "none"; };

  // --- figures that stand still ------------------------------------------------------------------------------------
  function draw(node) {
    const figure = read(node.dataset.figure);
    Plotly.newPlot(node, figure.data, figure.layout, config);
    if (node.dataset.sheet === undefined) return;
    node.on("plotly_hover", (hover) => {
      const point = hover.points[0];
      if (point.customdata === undefined) return;
      const words = `class ${point.data.name}, sample ${point.customdata}`;
      showCard(hover.event, +node.dataset.sheet, point.customdata, words);
    });
    node.on("plotly_unhover", hideCard);
  }
  const watcher = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
  }), { rootMargin: "600px" });
  document.querySelectorAll(".plot[data-figure]").forEach((node) => watcher.observe(node));
  const drawNow = (node) => { watcher.unobserve(node); draw(node); };
  const undrawn = ".plot[data-figure]:not(.js-plotly-plot)";
  addEventListener("beforeprint", () => document.querySelectorAll(undrawn).forEach(drawNow));

  // --- the film ----------------------------------------------------------------------------------------------------
  const film = read("film");
  if (!film) return;
  function unpack(text) {
    if (!text) return null;
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const view = new DataView(bytes.buffer), values = new Int16Array(raw.length / 2);
    for (let i = 0; i < values.length; i++) values[i] = view.getInt16(2 * i, true);
    return values;
  }
  const runs = film.runs.map((run, index) => {
    for (const part of ["samples", "numbers", "proxies", "rings"]) run[part] = unpack(run[part]);
    run.node = document.getElementById(`map-${index}`);
    run.now = document.getElementById(`now-${index}`);
    run.halo = document.getElementById(`halo-${index}`);
    run.at = 0;
    run.place = new Map(run.rows.map((row, i) => [row, i]));
    return run;
  });
  const steps = [...new Set(runs.flatMap((run) => run.steps))].sort((a, b) => a - b);

  function points(run, part, frame, chosen) {
    const size = run[part].length / (2 * run.steps.length), start = 2 * size * frame;
    const wanted = chosen || Array.from({ length: size }, (_, i) => i);
    const x = [], y = [];
    for (const i of wanted) {
      const a = run[part][start + 2 * i], b = run[part][start + 2 * i + 1];
      x.push(a === -32768 ? null : a * run.scale);
      y.push(b === -32768 ? null : b * run.scale);
    }
    return { x, y };
  }
  function frameOf(run, frame) {
    const data = run.groups.map((group) => points(run, "samples", frame, group));
    data.push(run.proxies ? points(run, "proxies", frame) : { x: [], y: [] });
    data.push(run.rings ? points(run, "rings", frame) : { x: [], y: [] });
    data.push(points(run, "numbers", frame));
    return data;
  }
  function lastBefore(run, step) {
    let at = 0;
    while (at + 1 < run.steps.length && run.steps[at + 1] <= step) at++;
    return at;
  }
  async function moveRun(run, step) {
    const at = lastBefore(run, step);
    const closing = run.ends.includes(at);
    const ringed = closing && run.rings && points(run, "rings", at).x[0] !== null;
    const ending = " – this problem ends" + (ringed ? "; rings: the next proxies" : "");
    run.now.textContent = run.captions[at] + (closing ? ending : "");
    run.now.classList.toggle("closing", closing);
    if (at === run.at) return;
    run.at = at;
    const data = frameOf(run, at);
    try {
      await Plotly.animate(run.node, { data, traces: data.map((_, i) => i) }, still);
    } catch (_) { /* a newer frame has overtaken this one */ }
    placeHalo(run);
  }

  // --- hover, the same sample in every map ---------------------------------------------------------------------------
  let marked = null;
  function placeHalo(run) {
    const i = marked === null ? undefined : run.place.get(marked.row);
    if (i === undefined || marked.sheet !== run.sheet) { run.halo.style.display = "none"; return; }
    const axes = run.node._fullLayout, n = run.rows.length;
    const x = run.samples[2 * (n * run.at + i)] * run.scale, y = run.samples[2 * (n * run.at + i) + 1] * run.scale;
    run.halo.style.left = axes.xaxis._offset + axes.xaxis.d2p(x) + "px";
    run.halo.style.top = axes.yaxis._offset + axes.yaxis.d2p(y) + "px";
    run.halo.style.display = "block";
  }
  function mark(next) { marked = next; runs.forEach(placeHalo); }
  function listen(run) {
    run.node.on("plotly_hover", (hover) => {
      const point = hover.points[0];
      if (point.curveNumber >= run.groups.length) return;
      const row = run.rows[run.groups[point.curveNumber][point.pointNumber]];
      mark({ row, sheet: run.sheet });
      showCard(hover.event, run.sheet, row, `class ${run.names[point.curveNumber]}, sample ${row}`);
    });
    run.node.on("plotly_unhover", () => { hideCard(); mark(null); });
    run.node.on("plotly_relayout", () => placeHalo(run));
  }

  // --- controls ------------------------------------------------------------------------------------------------------
  const [bar, play, label] = ["scrubber", "play", "step"].map((id) => document.getElementById(id));
  bar.max = steps.length - 1;
  let timer = null, busy = false, wanted = 0;
  async function show(index) {
    wanted = index;
    bar.value = index;
    label.textContent = `step ${steps[index].toLocaleString("en")}`;
    bar.setAttribute("aria-valuetext", label.textContent);
    if (busy) return; // the newest wish is drawn when this frame is done; those between are dropped
    busy = true;
    try {
      for (let drawn = -1; drawn !== wanted;) {
        drawn = wanted;
        await Promise.all(runs.map((run) => moveRun(run, steps[drawn])));
      }
    } finally { busy = false; }
  }
  function stop() { clearInterval(timer); timer = null; play.textContent = "▶ Play"; }
  function start() {
    if (wanted >= steps.length - 1) show(0);
    play.textContent = "❚❚ Pause";
    timer = setInterval(() => { if (busy) return; if (wanted >= steps.length - 1) stop(); else show(wanted + 1); }, 220);
  }
  play.onclick = () => (timer === null ? start() : stop());
  bar.oninput = () => { stop(); show(+bar.value); };
  const ends = new Set(runs.flatMap((run) => run.ends.map((at) => run.steps[at])));
  const chapters = [...ends].sort((a, b) => a - b).map((step) => steps.indexOf(step)), last = steps.length - 1;
  document.getElementById("earlier").onclick = () => { stop(); show([0, ...chapters].filter((i) => i < wanted).pop() || 0); };
  document.getElementById("later").onclick = () => { stop(); show([...chapters, last].find((i) => i > wanted) ?? last); };
  const lane = document.getElementById("chapters");
  runs.forEach((run) => run.ends.forEach((at, nth) => {
    const where = steps.indexOf(run.steps[at]);
    if (where >= steps.length - 1) return;
    const tick = document.createElement("span");
    tick.textContent = run.ends.length > 12 && nth % 4 ? "" : nth + 1;
    tick.title = `${run.name}: problem ${nth + 1} ends at step ${run.steps[at]}`;
    tick.style.left = `${(100 * where) / Math.max(1, steps.length - 1)}%`;
    tick.style.color = run.color;
    lane.append(tick);
  }));
  document.querySelectorAll(".classes").forEach((row) => {
    const mine = row.dataset.runs.split(" ").map((index) => runs[index]);
    row.querySelectorAll("button").forEach((button, index) => {
      button.onclick = () => {
        const visible = button.getAttribute("aria-pressed") === "false";
        button.setAttribute("aria-pressed", visible);
        mine.forEach((run) => Plotly.restyle(run.node, { visible }, [index]));
      };
    });
  });
  Promise.all(runs.map((run, index) => {
    const figure = read(`map-figure-${index}`);
    return Plotly.newPlot(run.node, figure.data, figure.layout, config).then(() => listen(run));
  })).then(() => { document.body.dataset.ready = "yes"; show(0); });
})();
