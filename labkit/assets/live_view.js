// One view of a run: its two drawings, the text over them, and what answers the pointer.

const make = (tag, kind, parent, more = {}) =>
  parent.appendChild(Object.assign(document.createElement(tag), { className: kind }, more));

class View {
  constructor(run, model, el) {
    Object.assign(this, { run, model });
    const theme = model.get("theme");
    this.root = make("div", "labkit-live", el);
    this.root.style.fontFamily = theme.font;
    this.title = make("div", "title", this.root);
    this.note = make("div", "note", this.root);
    this.legend = make("div", "legend", this.root);
    const named = { role: "group", "aria-label": "What is drawn", "data-lm-suppress-shortcuts": "true" };
    for (const [name, value] of Object.entries(named)) this.legend.setAttribute(name, value);
    const both = make("div", "canvases", this.root);
    this.map = new Pane(this, both, new MapDrawing(theme));
    this.curves = new Pane(this, both, new CurvesDrawing(theme));
    this.tip = make("div", "tip", this.root);
    this.tip.style.fontFamily = theme.mono;
    this.drawn = { map: 0, curves: 0 }; // how often each was drawn
    this.root.labkit = this; // for whoever wants to know what the page shows
    this.dirty = { map: true, curves: true };
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.root);
    if (run.cast) this.begin();
  }

  begin() {
    this.map.drawing.zoom = this.curves.drawing.zoom = null;
    this.map.drawing.extent = 0;
    drawLegend(this);
    this.hush();
    this.wants({ map: true, curves: true });
  }

  resize() {
    const width = Math.floor(this.root.clientWidth), wide = width >= 760;
    if (!width || width === this.width) return;
    this.width = width;
    const left = wide ? Math.round(width * 0.54) : width;
    const height = Math.min(560, wide ? Math.round(left * 0.96) : width);
    this.map.size(left, height);
    this.curves.size(wide ? width - left : width, wide ? height : 480);
    this.hush();
    this.wants({ map: true, curves: true });
  }

  wants({ map = false, curves = false }) {
    this.dirty.map ||= map;
    this.dirty.curves ||= curves;
    this.due ??= requestAnimationFrame(() => { this.due = undefined; this.draw(); });
  }

  draw() {
    const { run, dirty } = this, scene = run.scene();
    if (this.width && run.cast && scene) {
      const now = scene === run.live ? Infinity : scene.step;
      if (dirty.map) this.drawMap(scene);
      if (run.course && (dirty.curves || now !== this.now)) this.drawCurves(scene, now);
      this.dirty = { map: false, curves: false };
      this.pointed?.();
    }
    run.answer();
  }

  drawMap(scene) {
    const { run } = this, options = { hidden: run.hidden, balls: this.model.get("balls") };
    this.map.drawing.draw(this.map.canvas, run.cast, scene, options);
    this.drawn.map += 1;
    this.drawn.scene = scene;
    const title = `Step ${scene.step.toLocaleString("en")}: ${scene.title}`;
    if (this.title.textContent !== title) this.title.textContent = title;
    if (this.note.textContent !== scene.note) this.note.textContent = scene.note;
    if (this.ringsName && this.ringsName.textContent !== scene.chosenBy) this.ringsName.textContent = scene.chosenBy;
    const parts = [`${run.cast.labels.length} samples of ${run.cast.names.length} classes`];
    if (scene.proxiesEach) parts.push(`${scene.proxiesEach} ${scene.proxiesEach === 1 ? "proxy" : "proxies"} a class`);
    if (scene.chosenEach) parts.push(`${scene.chosenEach} places a class, ${scene.chosenBy}`);
    this.map.canvas.setAttribute("aria-label", `Embedding map. ${title}. ${parts.join("; ")}. ${scene.note}`.trim());
  }

  drawCurves(scene, now) {
    const { course } = this.run, { drawing, canvas } = this.curves;
    drawing.draw(canvas, course, now, scene.proxiesEach);
    this.now = now;
    this.drawn.curves += 1;
    this.drawn.course = course;
    const values = drawing.shown.filter(({ value }) => value).map(({ label, value }) => `${label} ${value}`);
    const marks = `${course.ends.length} proxy problems ended, ${course.changes.length} changes by hand`;
    const told = `At step ${drawing.evaluated}: ${values.join(", ") || "nothing yet"}`;
    canvas.setAttribute("aria-label", `Curves up to step ${course.steps.at(-1) ?? 0}. ${told}. ${marks}.`);
  }

  // Out of every zoom.
  whole() {
    this.map.drawing.zoom = this.curves.drawing.zoom = null;
    this.zoomed();
  }

  zoomed() {
    const zoomed = this.map.drawing.zoom || this.curves.drawing.zoom;
    if (this.wholeButton) this.wholeButton.style.visibility = zoomed ? "visible" : "hidden";
    this.hush();
    this.wants({ map: true, curves: true });
  }

  // Lines of text beside a place of a canvas, with the sample's picture.
  tell(canvas, { x, y, lines, row }) {
    const { tip, run } = this, { sheet } = run.cast;
    tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
    if (row !== undefined && sheet && run.sheet) {
      const zoom = Math.max(1, Math.round(84 / sheet.width)), picture = make("canvas", "", tip);
      Object.assign(picture, { width: sheet.width * zoom, height: sheet.height * zoom });
      const pen = picture.getContext("2d");
      const from = [(row % sheet.columns) * sheet.width, Math.floor(row / sheet.columns) * sheet.height];
      pen.imageSmoothingEnabled = false;
      pen.drawImage(run.sheet, ...from, sheet.width, sheet.height, 0, 0, picture.width, picture.height);
    }
    tip.style.display = "block";
    const left = canvas.parentNode.offsetLeft + x, top = canvas.parentNode.offsetTop + y;
    const right = left + 16 + tip.offsetWidth > this.width;
    tip.style.left = `${Math.max(2, right ? left - 16 - tip.offsetWidth : left + 16)}px`;
    tip.style.top = `${Math.max(2, Math.min(top + 12, this.root.clientHeight - tip.offsetHeight - 4))}px`;
  }

  hush() {
    this.pointed = undefined;
    for (const node of [this.tip, this.map.halo, this.map.hair, this.curves.halo, this.curves.hair]) node.style.display = "none";
  }

  close() {
    this.watcher.disconnect();
    cancelAnimationFrame(this.due);
    this.run.views.delete(this);
    this.root.remove();
  }
}

// A canvas that shows what lies under the pointer, zooms into what is dragged over it, and out again when pressed twice.
class Pane {
  constructor(view, parent, drawing) {
    Object.assign(this, { view, drawing });
    const box = make("div", "", parent);
    this.canvas = make("canvas", "", box);
    this.canvas.setAttribute("role", "img");
    for (const kind of ["halo", "hair", "rubber"]) this[kind] = make("div", kind, box);
    const place = (event) => {
      const { left, top } = this.canvas.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    this.canvas.addEventListener("pointermove", (event) => {
      this.drag ? this.stretch(place(event)) : this.point(...place(event));
    });
    this.canvas.addEventListener("pointerleave", () => view.hush());
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button) return this.point(...place(event));
      this.canvas.setPointerCapture(event.pointerId);
      this.drag = { from: place(event), to: place(event) };
    });
    this.canvas.addEventListener("pointerup", () => this.release());
    this.canvas.addEventListener("pointercancel", () => { this.drag = undefined; this.rubber.style.display = "none"; });
    this.canvas.addEventListener("dblclick", () => view.whole());
  }

  size(width, height) {
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
  }

  get isMap() { return this === this.view.map; }

  point(x, y) {
    const { view } = this, { run } = view, scene = run.scene();
    view.hush();
    if (!scene || !run.cast || !run.course || !view.width) return;
    const { drawing } = this;
    const found = this.isMap
      ? drawing.box && drawing.under(x, y, run.cast, scene, run.hidden)
      : drawing.frame && drawing.under(x, y, run.course);
    view.pointed = () => this.point(x, y); // anew with every frame: what lies there moves
    if (!found) return;
    const mark = found.hair ? this.hair : this.halo;
    Object.assign(mark.style, { display: "block", left: `${found.x}px`, top: `${found.hair ? found.hair[0] : found.y}px` });
    if (found.hair) mark.style.height = `${found.hair[1] - found.hair[0]}px`;
    view.tell(this.canvas, found);
  }

  stretch(to) {
    this.view.hush();
    this.drag.to = to;
    const [[x0, y0], [x1, y1]] = [this.drag.from, to], frame = this.drawing.frame;
    const [top, bottom] = this.isMap ? [Math.min(y0, y1), Math.max(y0, y1)] : [ROOM.strip, frame?.bottom ?? 0];
    Object.assign(this.rubber.style, {
      display: "block", left: `${Math.min(x0, x1)}px`, top: `${top}px`,
      width: `${Math.abs(x1 - x0)}px`, height: `${bottom - top}px`,
    });
  }

  release() {
    const { drag, drawing } = this;
    this.drag = undefined;
    this.rubber.style.display = "none";
    if (!drag) return;
    const [[x0, y0], [x1, y1]] = [drag.from, drag.to];
    if (Math.abs(x1 - x0) < 8 || (this.isMap && Math.abs(y1 - y0) < 8)) return;
    if (this.isMap) {
      const [left, top] = drawing.plane(x0, y0), [right, bottom] = drawing.plane(x1, y1);
      drawing.zoom = [(left + right) / 2, (top + bottom) / 2, Math.max(Math.abs(right - left), Math.abs(bottom - top)) / 2];
    } else drawing.zoom = [drawing.step(Math.min(x0, x1)), drawing.step(Math.max(x0, x1))];
    this.view.zoomed();
  }
}

