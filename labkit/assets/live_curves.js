// The run's figures over its steps on a canvas: one strip for what happened, then one curve below the other.

const ROOM = { left: 58, right: 16, strip: 40, head: 22, bottom: 46 };
const NEAR = 7; // pixels from a triangle within which it answers

class CurvesDrawing {
  constructor(theme) {
    this.theme = theme;
    this.zoom = null; // [first, last] step in sight; null: all
  }

  place(course, width, height) {
    const last = Math.max(1, ...course.ends, ...course.changes.map(([step]) => step), course.steps.at(-1) ?? 0);
    const [first, end] = this.zoom ?? [-0.03 * last, 1.03 * last];
    const inner = Math.max(20, width - ROOM.left - ROOM.right);
    const each = (height - ROOM.strip - ROOM.bottom) / this.theme.curves.length;
    this.frame = { first, end, width: inner, scale: inner / (end - first), each, bottom: height - ROOM.bottom };
  }

  across(step) { return ROOM.left + (step - this.frame.first) * this.frame.scale; }
  step(across) { return this.frame.first + (across - ROOM.left) / this.frame.scale; }

  // `now` is the step in sight, `proxies` how many a class has there.
  draw(canvas, course, now, proxies) {
    const { pen, width, height } = cleared(canvas);
    this.place(course, width, height);
    this.grid = roundTicks(this.frame.first, this.frame.end, width < 380 ? 4 : 6).filter((step) => step >= 0);
    this.happened(pen, course);
    this.evaluated = course.steps.findLast((step) => step <= now) ?? 0;
    this.shown = this.theme.curves.map((curve, index) => {
      const found = this.curve(pen, curve, course.values[index], course.steps, now, index);
      if (proxies === 1 && curve.lone && course.steps.length && !found.value) found.value = this.remark(pen, curve.lone, index);
      return found;
    });
    pen.font = `12px ${this.theme.font}`;
    pen.fillStyle = this.theme.ink;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const step of this.grid) pen.fillText(step.toLocaleString("en"), this.across(step), this.frame.bottom + 8);
    pen.font = `13px ${this.theme.font}`;
    pen.textBaseline = "bottom";
    const late = course.steps.length && this.evaluated !== now; // the map is of now, the figures of the last evaluation
    const step = late ? `step (figures: of step ${this.evaluated.toLocaleString("en")})` : "step";
    pen.fillText(step, ROOM.left + this.frame.width / 2, height - 3);
  }

  // Why there is no curve, where it would be.
  remark(pen, text, index) {
    const { frame, theme } = this;
    pen.font = `12px ${theme.font}`;
    pen.fillStyle = theme.ink;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(text, ROOM.left + frame.width / 2, ROOM.strip + (index + 0.5) * frame.each + ROOM.head / 2);
    return text;
  }

  // Problems by their number, what was changed by a triangle, both with a line through all curves.
  happened(pen, course) {
    const { theme, frame } = this;
    const line = (step, color, dash) => {
      if (step < frame.first || step > frame.end) return;
      pen.strokeStyle = color;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(this.across(step), 2);
      pen.lineTo(this.across(step), frame.bottom);
      pen.stroke();
    };
    pen.lineWidth = 1;
    for (const step of course.ends) line(step, theme.boundary, [1.5, 2.5]);
    for (const step of new Set(course.changes.map(([step]) => step))) line(step, theme.change, [5, 4]);
    pen.setLineDash([]);
    pen.font = `12px ${theme.font}`;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillStyle = theme.ink;
    let free = -Infinity;
    [0, ...course.ends].forEach((step, index) => {
      const x = this.across(step) + 4, text = index === 0 ? "problem 1" : String(index + 1);
      if (step < frame.first || x < free || x > ROOM.left + frame.width - 6) return;
      const next = this.across(course.ends[index] ?? Infinity) - x;
      const shown = pen.measureText(text).width < next - 3 ? text : String(index + 1);
      if (pen.measureText(shown).width > next - 3) return; // no room for it before the next one's
      pen.fillText(shown, x, 11);
      free = x + pen.measureText(shown).width + 3;
    });
    pen.fillStyle = theme.change;
    for (const [step] of course.changes) {
      const x = this.across(step);
      if (step < frame.first || step > frame.end) continue;
      pen.beginPath();
      pen.moveTo(x - 6, 22);
      pen.lineTo(x + 6, 22);
      pen.lineTo(x, 32);
      pen.fill();
    }
  }

  // One curve with its axis; gives the value at the moment in sight, and where the curve's panel lies.
  curve(pen, curve, values, steps, now, index) {
    const { theme, frame } = this, top = ROOM.strip + index * frame.each + ROOM.head, height = frame.each - ROOM.head - 6;
    const known = [];
    for (let i = 0; i < steps.length; i++) if (!Number.isNaN(values[i])) known.push(i);
    const inSight = known.filter((i) => steps[i] >= frame.first && steps[i] <= frame.end);
    const scaled = curve.log ? (value) => Math.log10(value) : (value) => value;
    let [low, high] = curve.range ?? [Infinity, -Infinity];
    if (!curve.range) {
      for (const i of inSight) { low = Math.min(low, scaled(values[i])); high = Math.max(high, scaled(values[i])); }
      const margin = 0.08 * (high - low) || (curve.log ? 0.3 : 0.1 * Math.abs(low)) || 0.5;
      [low, high] = inSight.length ? [low - margin, high + margin] : [0, 1];
    }
    const down = (value) => top + height - ((scaled(value) - low) / (high - low)) * height;
    const even = () => roundTicks(low, high, 4).map((value) => [value, tickText(value)]);
    this.axis(pen, curve.log ? logTicks(low, high, inSight.length > 0) : even(), down, top, height);
    pen.save();
    pen.beginPath();
    pen.rect(ROOM.left - 5, top - 4, frame.width + 10, height + 8);
    pen.clip();
    pen.strokeStyle = theme.line;
    pen.lineWidth = 2;
    pen.lineJoin = "round";
    pen.beginPath();
    known.forEach((i, nth) => (nth ? pen.lineTo : pen.moveTo).call(pen, this.across(steps[i]), down(values[i])));
    pen.stroke();
    const here = known.findLast((i) => steps[i] <= now);
    if (here !== undefined) {
      pen.fillStyle = theme.ink;
      pen.beginPath();
      pen.arc(this.across(steps[here]), down(values[here]), 4, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.restore();
    pen.textBaseline = "bottom";
    const value = here === undefined ? "" : shortNumber(values[here]);
    this.said(pen, curve.log ? `${curve.label}, log` : curve.label, "left", ROOM.left, top - 5, "");
    this.said(pen, value, "right", ROOM.left + frame.width, top - 5, "bold ");
    return { label: curve.label, value };
  }

  // A word on a ground of its own, so that no line of a change strikes it through.
  said(pen, text, side, x, y, weight) {
    pen.font = `${weight}12px ${this.theme.font}`;
    pen.textAlign = side;
    const width = pen.measureText(text).width, left = side === "left" ? x : x - width;
    pen.fillStyle = "white";
    if (text) pen.fillRect(left - 2, y - 14, width + 4, 15);
    pen.fillStyle = this.theme.ink;
    pen.fillText(text, x, y);
  }

  axis(pen, ticks, down, top, height) {
    const { theme, frame } = this;
    pen.lineWidth = 1;
    pen.font = `11px ${theme.font}`;
    pen.fillStyle = theme.ink;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const line = (x0, y0, x1, y1, color) => {
      pen.strokeStyle = color;
      pen.beginPath();
      pen.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
      pen.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
      pen.stroke();
    };
    for (const step of this.grid) line(this.across(step), top, this.across(step), top + height, theme.grid);
    for (const [value, text] of ticks) {
      const y = down(value);
      line(ROOM.left, y, ROOM.left + frame.width, y, theme.grid);
      line(ROOM.left - 5, y, ROOM.left, y, theme.faint);
      pen.fillText(text, ROOM.left - 8, y);
    }
  }

  // What lies under a point of the canvas: a change by hand, else the evaluation nearest to it.
  under(across, down, course) {
    if (down < ROOM.strip) {
      const near = course.changes.filter(([step]) => Math.abs(this.across(step) - across) < NEAR);
      const lines = near.map(([step, what]) => `step ${step.toLocaleString("en")}: ${what}`);
      return near.length ? { x: this.across(near[0][0]), y: 27, lines } : null;
    }
    const beside = across < ROOM.left - 4 || across > ROOM.left + this.frame.width + 4;
    if (!course.steps.length || beside || down > this.frame.bottom) return null;
    const wanted = this.step(across), { steps } = course;
    let best = 0;
    steps.forEach((step, i) => { if (Math.abs(step - wanted) < Math.abs(steps[best] - wanted)) best = i; });
    const told = this.theme.curves.map((curve, index) => [curve.label, course.values[index][best]]);
    const lines = told.filter(([, value]) => !Number.isNaN(value)).map(([label, value]) => `${label}: ${shortNumber(value)}`);
    lines.unshift(`step ${steps[best].toLocaleString("en")}`);
    return { x: this.across(steps[best]), y: down, lines, hair: [ROOM.strip, this.frame.bottom] };
  }
}

// Ticks of a logarithmic axis between two exponents, as [value, text]: round numbers where it spans little, 1, 2, 5 where it
// spans more, else whole decades.
function logTicks(low, high, any) {
  if (!any) return [];
  if (high - low < 0.7) return roundTicks(10 ** low, 10 ** high, 3).map((value) => [value, tickText(value)]);
  const ticks = [], wide = high - low > 1.6, every = Math.max(1, Math.ceil((high - low) / 4)), tiny = low < -3;
  for (let exponent = Math.floor(low); exponent <= high; exponent++) {
    for (const factor of wide ? [1] : [1, 2, 5]) {
      const value = factor * 10 ** exponent, at = Math.log10(value);
      if (at < low || at > high || (wide && exponent % every)) continue;
      ticks.push([value, tiny ? (factor === 1 ? "" : `${factor} · `) + power(exponent) : tickText(value)]);
    }
  }
  return ticks;
}
