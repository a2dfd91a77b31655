// The embedding map on a canvas: axes, samples, covering balls, proxies, what the problem began with, class names.

const EDGE = { left: 58, right: 12, top: 10, bottom: 46 };
const REACH = 9; // pixels from the pointer within which a mark answers

class MapDrawing {
  constructor(theme) {
    this.theme = theme;
    this.extent = 0;
    this.zoom = null; // [x, y, half side] of the square in sight; null: all of it
  }

  // Where the square lies on the canvas and in the plane, for this width and height.
  place(scene, width, height) {
    if (Math.abs(scene.extent - this.extent) > 0.1 * this.extent) this.extent = scene.extent; // else the picture would breathe
    const side = Math.max(40, Math.min(width - EDGE.left - EDGE.right, height - EDGE.top - EDGE.bottom));
    const left = EDGE.left + (width - EDGE.left - EDGE.right - side) / 2;
    const [x, y, half] = this.zoom ?? [0, 0, this.extent || 1];
    this.box = { left, top: EDGE.top, side, scale: side / (2 * half), x: x - half, y: y + half, half };
  }

  across(x) { return this.box.left + (x - this.box.x) * this.box.scale; }
  down(y) { return this.box.top + (this.box.y - y) * this.box.scale; }
  plane(across, down) {
    return [this.box.x + (across - this.box.left) / this.box.scale, this.box.y - (down - this.box.top) / this.box.scale];
  }

  draw(canvas, cast, scene, options) {
    const { pen, ratio, width, height } = cleared(canvas);
    this.place(scene, width, height);
    this.axes(pen, cast);
    pen.save();
    pen.beginPath();
    pen.rect(this.box.left, this.box.top, this.box.side, this.box.side);
    pen.clip();
    this.samples(pen, cast, scene, options.hidden, ratio);
    if (options.balls) this.balls(pen, cast, scene, options.hidden);
    if (!options.hidden.has("proxies")) this.squares(pen, cast, scene, options.hidden);
    if (!options.hidden.has("chosen")) this.rings(pen, cast, scene, options.hidden);
    pen.restore();
    this.names(pen, cast, scene, options.hidden);
  }

  axes(pen, cast) {
    const { left, top, side, half, x, y } = this.box, theme = this.theme;
    pen.lineWidth = 1;
    pen.font = `12px ${theme.font}`;
    pen.fillStyle = theme.ink;
    const line = (x0, y0, x1, y1, color) => {
      pen.strokeStyle = color;
      pen.beginPath();
      pen.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
      pen.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
      pen.stroke();
    };
    for (const value of roundTicks(x, x + 2 * half, 5)) {
      const at = this.across(value);
      line(at, top, at, top + side, theme.grid);
      line(at, top + side, at, top + side + 5, theme.faint);
      pen.textAlign = "center";
      pen.textBaseline = "top";
      pen.fillText(tickText(value), at, top + side + 8);
    }
    for (const value of roundTicks(y - 2 * half, y, 5)) {
      const at = this.down(value);
      line(left, at, left + side, at, theme.grid);
      line(left - 5, at, left, at, theme.faint);
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillText(tickText(value), left - 8, at);
    }
    if (!cast.projected) {
      pen.strokeStyle = theme.faint;
      pen.setLineDash([3, 3]);
      pen.save();
      pen.beginPath();
      pen.rect(left, top, side, side);
      pen.clip();
      pen.beginPath();
      pen.arc(this.across(0), this.down(0), this.box.scale, 0, 2 * Math.PI);
      pen.stroke();
      pen.restore();
      pen.setLineDash([]);
    }
    const label = cast.projected ? (n) => `principal component ${n}` : (n) => `embedding, coordinate ${n} (unit ball)`;
    pen.font = `13px ${theme.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "bottom";
    pen.fillText(label(1), left + side / 2, top + side + EDGE.bottom - 3);
    pen.save();
    pen.translate(left - 40, top + side / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(label(2), 0, 0);
    pen.restore();
  }

  samples(pen, cast, scene, hidden, ratio) {
    if (this.stamps?.ratio !== ratio || this.stamps.cast !== cast) {
      this.stamps = { ratio, cast, list: cast.colors.map((color) => stamp(color, ratio)) };
    }
    const { list } = this.stamps, off = list[0].width / 2, { box } = this, xy = scene.samples;
    const low = -12, high = box.left + box.side + 12, bottom = box.top + box.side + 12;
    const shown = cast.names.map((_, c) => !hidden.has(c));
    pen.setTransform(1, 0, 0, 1, 0, 0);
    for (let i = 0; i < cast.labels.length; i++) {
      const across = box.left + (xy[2 * i] - box.x) * box.scale, down = box.top + (box.y - xy[2 * i + 1]) * box.scale;
      if (!shown[cast.labels[i]] || !(across > low && across < high && down > low && down < bottom)) continue;
      pen.drawImage(list[cast.labels[i]], Math.round(across * ratio - off), Math.round(down * ratio - off));
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  // Calls `does(class, x, y, place in the row)` for (C, K, 2) points of the classes in sight.
  each(points, count, cast, hidden, does) {
    for (let c = 0; c < cast.names.length; c++) {
      if (hidden.has(c)) continue;
      for (let k = 0; k < count; k++) {
        const at = 2 * (c * count + k);
        does(c, this.across(points[at]), this.down(points[at + 1]), k);
      }
    }
  }

  balls(pen, cast, scene, hidden) {
    if (!scene.radii.length) return;
    const all = new Path2D(); // filled at once: where many lie over each other, the samples stay visible
    pen.lineWidth = 1;
    pen.globalAlpha = 0.6;
    this.each(scene.proxies, scene.proxiesEach, cast, hidden, (c, x, y) => {
      const radius = Math.min(scene.radii[c] * this.box.scale, 1e4), ball = new Path2D();
      ball.arc(x, y, radius, 0, 2 * Math.PI);
      all.addPath(ball);
      pen.strokeStyle = cast.colors[c];
      pen.stroke(ball);
    });
    pen.globalAlpha = 0.05;
    pen.fillStyle = this.theme.ink;
    pen.fill(all);
    pen.globalAlpha = 1;
  }

  squares(pen, cast, scene, hidden) {
    pen.strokeStyle = this.theme.ink;
    pen.lineWidth = 1.5;
    this.each(scene.proxies, scene.proxiesEach, cast, hidden, (c, x, y) => {
      pen.fillStyle = cast.colors[c];
      pen.fillRect(x - 5, y - 5, 10, 10);
      pen.strokeRect(x - 5, y - 5, 10, 10);
    });
  }

  rings(pen, cast, scene, hidden) {
    pen.fillStyle = "white";
    pen.lineWidth = 2.5;
    pen.globalAlpha = scene.chosenStrength;
    this.each(scene.chosen, scene.chosenEach, cast, hidden, (c, x, y) => {
      pen.strokeStyle = cast.colors[c];
      pen.beginPath();
      pen.arc(x, y, 5, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
    });
    pen.globalAlpha = 1;
  }

  names(pen, cast, scene, hidden) {
    pen.font = `bold 18px ${this.theme.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 4;
    pen.strokeStyle = "white";
    const { left, top, side } = this.box;
    cast.names.forEach((name, c) => {
      const x = this.across(scene.numbers[2 * c]), y = this.down(scene.numbers[2 * c + 1]);
      if (hidden.has(c) || x < left || x > left + side || y < top || y > top + side) return;
      pen.strokeText(name, x, y);
      pen.fillStyle = cast.colors[c];
      pen.fillText(name, x, y);
    });
  }

  // What lies under a point of the canvas: where, and what to say of it; null where nothing does.
  under(across, down, cast, scene, hidden) {
    let best = null, nearest = REACH * REACH;
    const try_ = (x, y, tell, favour) => {
      const distance = ((x - across) ** 2 + (y - down) ** 2) * favour;
      if (distance < nearest) { nearest = distance; best = { x, y, ...tell() }; }
    };
    const place = (points, at) => `(${points[at].toFixed(3)}, ${points[at + 1].toFixed(3)})`.replaceAll("-", "−");
    for (let i = 0; i < cast.labels.length; i++) {
      if (hidden.has(cast.labels[i])) continue;
      try_(this.across(scene.samples[2 * i]), this.down(scene.samples[2 * i + 1]),
        () => ({ lines: [`class ${cast.names[cast.labels[i]]}, sample ${i}`, place(scene.samples, 2 * i)], row: i }), 1);
    }
    const kinds = [
      ["proxies", scene.proxies, scene.proxiesEach, "proxy"],
      ["chosen", scene.chosen, scene.chosenEach, scene.chosenBy],
    ];
    for (const [kind, points, count, what] of kinds) {
      if (hidden.has(kind)) continue;
      this.each(points, count, cast, hidden, (c, x, y, k) => {
        const tell = () => ({ lines: [`class ${cast.names[c]}, ${what}`, place(points, 2 * (c * count + k))] });
        try_(x, y, tell, 0.4); // larger marks
      });
    }
    return best;
  }
}
