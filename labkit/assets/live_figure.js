// What the page knows of a run, told by the kernel once and by and by, and the views that draw it.

const bytes = (view) => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength); // aligned for what reads it
const floats = (view) => new Float32Array(bytes(view));

let halves; // every number in half precision
function half(view) {
  if (!halves) {
    halves = new Float32Array(65536);
    for (let i = 0; i < 65536; i++) {
      const sign = i & 0x8000 ? -1 : 1, exponent = (i >> 10) & 31, rest = i & 1023;
      halves[i] = sign * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : 2 ** -14 * (rest / 1024));
    }
  }
  return Float32Array.from(new Uint16Array(bytes(view)), (code) => halves[code]);
}

function sceneOf(head, classes, samples, rest) {
  const all = floats(rest);
  let at = 0;
  const next = (count) => all.subarray(at, (at += count));
  return {
    ...head, samples: head.half ? half(samples) : floats(samples), proxiesEach: head.proxies, chosenEach: head.chosen,
    proxies: next(2 * classes * head.proxies), chosen: next(2 * classes * head.chosen),
    numbers: next(2 * classes), radii: next(head.radii),
  };
}

// One for each widget, shared by its views: a picture that is shown twice is the same picture.
class Run {
  constructor(model) {
    this.model = model;
    this.views = new Set();
    this.hidden = new Set(); // classes by their number, and "proxies", "chosen"
    this.stored = [];
    this.count = 0; // of snapshots that the kernel has
    this.life = -1; // what was stored in an earlier life is no longer true
    this.asked = 0; // when scenes were asked for that have not come
    this.unanswered = 0;
    this.hear = (message, buffers) => this[message.kind]?.(message, buffers);
    model.on("msg:custom", this.hear);
    model.on("change:balls", () => this.changed({ map: true }));
    model.widget_manager.get_model(model.get("timeline").replace("IPY_MODEL_", "")).then((slider) => {
      this.slider = slider;
      this.moved = () => { for (const view of this.views) view.wants({ map: view.drawn.scene !== this.scene() }); this.ask(); };
      slider.on("change:value change:max", this.moved);
    });
    model.send({ asks: "all" });
  }

  end() {
    this.model.off("msg:custom", this.hear);
    this.slider?.off("change:value change:max", this.moved);
    clearTimeout(this.later);
  }

  // The scene in sight: what is there now, or the stored one that the slider stands at; null while that is on its way.
  scene() {
    const at = this.slider?.get("value"), past = this.slider && at < this.slider.get("max");
    return past ? (this.stored[at] ?? null) : this.live;
  }

  changed(what) {
    for (const view of this.views) view.wants(what);
    this.ask();
  }

  // Ask for stored scenes that are not here, first around the one in sight; one question at a time.
  ask() {
    clearTimeout(this.later);
    if (performance.now() - this.asked < 3000) { this.later = setTimeout(() => this.ask(), 3000); return; }
    const at = Math.min(this.slider?.get("value") ?? 0, this.count - 1), missing = [];
    for (let i = 0; i < this.count && missing.length < 16; i++) {
      const place = (Math.max(0, at - 4) + i) % this.count;
      if (!this.stored[place]) missing.push(place);
    }
    if (!missing.length || !this.cast) return;
    this.asked = performance.now();
    this.model.send({ asks: "stored", life: this.life, snapshots: missing });
  }

  // ---------------------------------------------------------------- what the kernel says

  begin(message, buffers) {
    this.cast = { ...message, labels: new Uint16Array(bytes(buffers[0])) };
    if (message.sheet) createImageBitmap(new Blob([buffers[1]], { type: "image/png" })).then((sheet) => { this.sheet = sheet; });
    this.live = this.course = undefined;
    this.forget({ life: message.life, snapshots: [] });
    for (const view of this.views) view.begin();
  }

  forget(message) {
    if (message.life !== this.life || !message.snapshots.length) { this.stored = []; this.count = this.asked = 0; }
    for (const at of message.snapshots) delete this.stored[at];
    this.life = message.life;
  }

  show(message, buffers) {
    if (!this.cast) return;
    this.count = message.count;
    this.unanswered = message.number;
    let next = 0;
    if (message.scene) { this.live = sceneOf(message.scene, this.cast.names.length, buffers[0], buffers[1]); next = 2; }
    if (message.course) {
      const [steps, ...values] = buffers.slice(next).map(floats);
      this.course = { ...message.course, steps, values };
    }
    this.changed({ map: Boolean(message.scene), curves: Boolean(message.course) });
    if (!this.views.size) this.answer();
  }

  scenes(message, buffers) {
    if (message.life !== this.life || !this.cast) return;
    message.scenes.forEach((head, i) => {
      this.stored[head.at] = sceneOf(head, this.cast.names.length, buffers[2 * i], buffers[2 * i + 1]);
    });
    const at = this.slider?.get("value"), seen = message.scenes.some((head) => head.at === at);
    this.asked = performance.now() - 3000 + 250; // the next ones soon, so that many do not fill the line
    clearTimeout(this.later);
    this.later = setTimeout(() => this.ask(), 300);
    if (seen) for (const view of this.views) view.wants({ map: true });
  }

  // The kernel sends the next frame once this one has been drawn.
  answer() {
    if (this.unanswered) this.model.send({ drawn: this.unanswered });
    this.unanswered = 0;
  }
}

// What anywidget calls, once a widget and once a view.
function liveFigure() {
  let run;
  return {
    initialize({ model }) { run = new Run(model); return () => run.end(); },
    render({ model, el }) {
      const view = new View(run, model, el);
      run.views.add(view);
      run.answer();
      return () => view.close();
    },
  };
}
