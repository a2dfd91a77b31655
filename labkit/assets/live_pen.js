// What both drawings on canvases need: numbers as text, round ticks, a pen, a sample's mark.

// Round numbers between two others, about `count` of them.
function roundTicks(low, high, count) {
  const rough = (high - low) / count;
  if (!(rough > 0) || !isFinite(rough)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step || 0); // never −0
  return ticks;
}

function power(exponent) {
  const digits = [...String(Math.abs(exponent))].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
  return "10" + (exponent < 0 ? "⁻" : "") + digits.join("");
}

function tickText(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-4 ? value.toExponential(0) : String(+value.toPrecision(4));
  return text.replace("-", "−");
}

function shortNumber(value) {
  const size = Math.abs(value), [digits, exponent] = value.toExponential(2).split("e");
  const outside = size >= 1e5 || size < 1e-3;
  const text = value === 0 ? "0" : outside ? `${digits} · ${power(+exponent)}` : value.toPrecision(3);
  return text.replace("-", "−");
}

// Drawn by the processor and handed over as one picture: two thousand stamps are two thousand commands to a graphics card,
// which, where there is none but one that is computed, take longer than all the rest.
const penOf = (canvas) => canvas.getContext("2d", { willReadFrequently: true });

// The canvas made white, and a pen that counts in the page's pixels.
function cleared(canvas) {
  const ratio = canvas.width / canvas.clientWidth || 1, pen = penOf(canvas);
  const width = canvas.width / ratio, height = canvas.height / ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = "white";
  pen.fillRect(0, 0, width, height);
  return { pen, ratio, width, height };
}

// A picture of one mark, to be stamped wherever a sample lies: far quicker than drawing its lines each time.
function stamp(color, ratio) {
  const side = Math.ceil(11 * ratio), canvas = document.createElement("canvas");
  const pen = penOf(canvas), middle = side / 2, arm = 4.4 * ratio;
  canvas.width = canvas.height = side;
  pen.strokeStyle = color;
  pen.lineWidth = 1.3 * ratio;
  pen.globalAlpha = 0.8;
  pen.beginPath();
  for (const angle of [90, 210, 330]) {
    pen.moveTo(middle, middle);
    pen.lineTo(middle + arm * Math.cos((angle * Math.PI) / 180), middle + arm * Math.sin((angle * Math.PI) / 180));
  }
  pen.stroke();
  return canvas;
}
