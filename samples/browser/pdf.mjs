// A PDF file: its pages drawn, and the words of its text layer with their boxes, by pdf.js.
import { GlobalWorkerOptions, getDocument } from './node_modules/pdfjs-dist/build/pdf.min.mjs';

const PDFJS = new URL('./node_modules/pdfjs-dist/', import.meta.url);
const SCALE = 2, SPACE = 0.1, FAR = 2, SHIFT = 0.3; // gaps and shifts in font sizes, as hushdoc has

/** Returns each page as `{ width, height, words, canvas }`; `worker` has loaded pdf.js's worker. */
export async function readPdf(content, worker, mostPages = 50) {
  GlobalWorkerOptions.workerPort = worker;
  const file = await getDocument({
    data: content, wasmUrl: `${PDFJS}wasm/`, standardFontDataUrl: `${PDFJS}standard_fonts/`,
    cMapUrl: `${PDFJS}cmaps/`, isEvalSupported: false,
  }).promise;
  if (file.numPages > mostPages) {
    throw Error(`it has ${file.numPages} pages; at most ${mostPages} are read here`);
  }
  const pages = [];
  for (let number = 1; number <= file.numPages; number++) {
    const page = await file.getPage(number), viewport = page.getViewport({ scale: SCALE });
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [Math.ceil(viewport.width), Math.ceil(viewport.height)];
    const pen = canvas.getContext('2d');
    await page.render({ canvas, canvasContext: pen, viewport }).promise;
    const words = wordsOf(await page.getTextContent(), viewport, pen);
    pages.push({ width: viewport.width, height: viewport.height, words, canvas });
  }
  return pages;
}

/** Returns the words of a page: items that touch on one baseline are joined, blanks part them. */
function wordsOf({ items, styles }, viewport, pen) {
  const words = [];
  let last = null; // the piece before, if a word may go on after it
  for (const { str, transform: [a, b, , , x, y], width, height, fontName } of items) {
    if (str === undefined) continue;
    const turn = Math.hypot(a, b) || 1, across = a / turn, up = b / turn, size = height || turn;
    const { ascent = 0.8, descent = -0.2 } = styles[fontName] ?? {};
    const advance = advances(str, fontName, width, pen);
    for (const { 0: text, index } of str.matchAll(/\S+/gu)) {
      const begin = advance(index), end = advance(index + text.length);
      const at = (along, rise) => viewport.convertToViewportPoint(
        x + across * along - up * rise, y + up * along + across * rise);
      const corners = [at(begin, ascent * size), at(end, ascent * size),
        at(begin, descent * size), at(end, descent * size)];
      const piece = { text, box: around(corners), size, end: [x + across * end, y + up * end] };
      const isNext = last !== null && index === 0 && touches(last, [x, y], across, up, size);
      if (isNext) {
        const whole = words.at(-1);
        words[words.length - 1] = { ...whole, text: whole.text + text,
          box: union(whole.box, piece.box) };
      } else {
        words.push({ text, box: piece.box, segment: null });
      }
      last = piece;
    }
    if (!/\S$/u.test(str)) last = null;
  }
  return words;
}

/** Returns how far each character of an item begins, by the widths of its own font. */
function advances(text, fontName, width, pen) {
  pen.font = `100px ${fontName}, sans-serif`;
  const whole = pen.measureText(text).width || 1;
  return (count) => (pen.measureText(text.slice(0, count)).width / whole) * width;
}

function touches({ end: [x, y], size: before }, [startX, startY], across, up, size) {
  const most = Math.max(before, size), gap = (startX - x) * across + (startY - y) * up;
  const shift = Math.abs((startY - y) * across - (startX - x) * up);
  return gap < SPACE * most && gap > -FAR * most && shift < SHIFT * most;
}

function around(corners) {
  const xs = corners.map(([x]) => x), ys = corners.map(([, y]) => y);
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

const union = ([a, b, c, d], [e, f, g, h]) =>
  [Math.min(a, e), Math.min(b, f), Math.max(c, g), Math.max(d, h)];
