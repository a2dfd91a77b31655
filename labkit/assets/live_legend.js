// What can be pressed in the live picture: a class to hide it, twice to see it alone; out of the zoom; save as a file.

function drawLegend(view) {
  const { run, legend } = view, { names, colors } = run.cast;
  const entry = (key, text, glyph) => {
    const button = make("button", "", legend, { type: "button", title: "Hide or show; twice: alone" });
    button.dataset.key = key;
    button.innerHTML = `<svg width="14" height="14" viewBox="-7 -7 14 14" aria-hidden="true">${glyph}</svg>`;
    const said = make("span", "", button, { textContent: text });
    button.addEventListener("click", () => { run.hidden.has(key) ? run.hidden.delete(key) : run.hidden.add(key); shown(run); });
    if (typeof key === "number") button.addEventListener("dblclick", () => alone(run, key));
    return said;
  };
  legend.replaceChildren();
  const arms = (color) => `<path d="M0 0V5.5M0 0L-4.8-2.8M0 0L4.8-2.8" stroke="${color}" stroke-width="1.8" fill="none"/>`;
  const square = `<rect x="-4.5" y="-4.5" width="9" height="9" fill="${colors[0]}" stroke="#222222" stroke-width="1.5"/>`;
  const ring = `<circle r="4.6" fill="white" stroke="${colors[0]}" stroke-width="2.3"/>`;
  names.forEach((name, c) => entry(c, name, arms(colors[c])));
  entry("proxies", "proxies", square);
  view.ringsName = entry("chosen", "start of this problem", ring);
  make("span", "gap", legend);
  const act = (text, title, does) => {
    const button = make("button", "act", legend, { type: "button", textContent: text, title });
    button.addEventListener("click", does);
    return button;
  };
  view.wholeButton = act("whole picture", "Out of the zoom; so does a double click", () => view.whole());
  act("save picture", "Map and curves as a PNG file", () => savePicture(view));
  view.zoomed();
  shown(run);
}

// Twice on a class: it alone; once more: all of them.
function alone(run, key) {
  const others = run.cast.names.map((_, c) => c).filter((c) => c !== key), already = others.every((c) => run.hidden.has(c));
  for (const c of others) already ? run.hidden.delete(c) : run.hidden.add(c);
  run.hidden.delete(key);
  shown(run);
}

function shown(run) {
  for (const view of run.views) {
    for (const button of view.legend.querySelectorAll("[data-key]")) {
      const key = isNaN(button.dataset.key) ? button.dataset.key : +button.dataset.key;
      button.setAttribute("aria-pressed", String(!run.hidden.has(key)));
    }
    view.wants({ map: true });
  }
}

function savePicture(view) {
  const [map, curves] = [view.map.canvas, view.curves.canvas];
  const ratio = map.width / map.clientWidth || 1, head = Math.round(34 * ratio);
  const beside = curves.offsetTop === map.offsetTop && curves.parentNode.offsetTop === map.parentNode.offsetTop;
  const sheet = document.createElement("canvas");
  sheet.width = beside ? map.width + curves.width : map.width;
  sheet.height = head + (beside ? map.height : map.height + curves.height);
  const pen = sheet.getContext("2d");
  pen.fillStyle = "white";
  pen.fillRect(0, 0, sheet.width, sheet.height);
  pen.fillStyle = "#222222";
  pen.font = `600 ${15 * ratio}px ${view.model.get("theme").font}`;
  pen.fillText(view.title.textContent, 10 * ratio, 23 * ratio);
  const beyond = pen.measureText(view.title.textContent).width + 22 * ratio, scene = view.drawn.scene;
  pen.font = `${12 * ratio}px ${view.model.get("theme").font}`;
  const rings = scene?.chosenEach ? `; rings: ${scene.chosenBy}` : "";
  if (scene?.proxiesEach) pen.fillText(`squares: proxies${rings}`, beyond, 23 * ratio);
  pen.drawImage(map, 0, head);
  pen.drawImage(curves, beside ? map.width : 0, beside ? head : head + map.height);
  const link = document.createElement("a");
  Object.assign(link, { href: sheet.toDataURL("image/png"), download: "playground.png" });
  link.click();
}
