// The page: what was chosen goes to a worker that verifies before it reads; what it finds is shown.
import { general, guarantees, issued } from './words.mjs';

const HERE = new URL('.', import.meta.url);
const find = (id) => document.getElementById(id);
const say = (words) => { find('status').textContent = words; };
const rules = { policy: null, trust: null };
let engine = null, pdfWorker = null, reading = null, shown = null;

/** Returns what this browser lacks, in words, or nothing. */
function missing() {
  if (typeof WebAssembly !== 'object') {
    return 'This browser has no WebAssembly, or it is switched off: no model can be run here.';
  }
  return globalThis.crypto?.subtle ? null : 'This browser has no WebCrypto at this address, so no '
    + 'signature can be checked and no model is used. Open the page over https, or from localhost.';
}

/** Returns a worker for a module. Made from a blob, it is under this page's security policy. */
function workerOf(path) {
  const code = `await import(${JSON.stringify(new URL(path, HERE).href)}); postMessage('ready');`;
  const address = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
  const worker = new Worker(address, { type: 'module' });
  const ready = new Promise((resolve, reject) => {
    worker.addEventListener('message', resolve, { once: true });
    worker.onerror = ({ message }) => reject(Error(message ?? 'a module could not be loaded'));
  });
  return { worker, ready };
}

/** Starts a fresh engine; the one before ends with all that it held. */
function newEngine() {
  engine?.worker.terminate();
  const { worker, ready } = workerOf('engine.mjs'), waiting = new Map();
  worker.onmessage = ({ data: { number, ...answer } }) => waiting.get(number)?.(answer);
  let count = 0;
  const request = async (verb, asked) => {
    await ready;
    const { found, refused } = await new Promise((resolve) => {
      waiting.set(count += 1, resolve);
      worker.postMessage({ number: count, verb, asked });
    });
    if (refused) throw Object.assign(Error(refused.message), { code: refused.code });
    return found;
  };
  engine = { worker, request, isOpen: false };
  return engine;
}

/** Opens an artifact; whatever was refused is never asked about a document. */
async function open(name, source) {
  const own = newEngine();
  find('model-name').textContent = name;
  clear();
  judge('none', 'Checking …');
  say('Checking signature, certificate and files …');
  try {
    const asked = { ...source, ...rules, now: Date.now() };
    const { predicate, unusable } = await own.request('open', asked);
    if (own !== engine) return;
    own.isOpen = !unusable;
    find('model-drop').classList.add('done');
    judge('accepted', 'Accepted', promise(predicate));
    say(unusable ? `This page can't run it: ${unusable}.` : 'Choose a document.');
    if (shown && own.isOpen) await ask();
  } catch (problem) {
    if (own !== engine) return;
    own.worker.terminate();
    const why = [['name', problem.code ?? problem.name], ['quiet', problem.message]];
    judge('refused', 'Refused', [...why, ['quiet', 'Nothing of this model is used.']]);
    say('This model was refused.');
  }
}

function judge(verdict, words, lines = []) {
  find('verdict').className = verdict;
  find('verdict').textContent = words;
  find('promise').replaceChildren(...lines.map((line) =>
    (line instanceof Node ? line : element('p', { className: line[0] }, line[1]))));
}

/** Returns the certificate in plain words, as lines and elements. */
function promise({ model, caveats, ...predicate }) {
  const list = (lines) => element('ul', {}, ...lines.map((line) => element('li', {}, line)));
  const folded = (title, lines) => (lines.length
    ? [element('details', {}, element('summary', {}, title), list(lines))] : []);
  return [
    ['name', `${model.name}, version ${model.version} (${model.task})`],
    ['quiet', issued(predicate)],
    ...guarantees(predicate).flatMap(({ words, further }) =>
      [['guarantee', words], ...folded('What this rests on', further)]),
    ...folded('Caveats', caveats),
  ];
}

function element(name, settings, ...children) {
  const made = Object.assign(document.createElement(name), settings);
  made.append(...children);
  return made;
}

/** Reads a document: pages with words, or plain text. */
async function read(file) {
  if (/\.pdf$/i.test(file.name)) {
    const { readPdf } = await import('./pdf.mjs');
    pdfWorker ??= workerOf('node_modules/pdfjs-dist/build/pdf.worker.min.mjs');
    await pdfWorker.ready;
    return { pages: await readPdf(new Uint8Array(await file.arrayBuffer()), pdfWorker.worker) };
  }
  const content = await file.text();
  if (!/\.json$/i.test(file.name)) return { text: content };
  const { text, pages } = JSON.parse(content); // as hushdoc's Document.to_dict writes it
  return pages?.length ? { pages } : { text };
}

async function take(file) {
  reading = file;
  shown = null;
  find('document-name').textContent = file.name;
  find('document-drop').classList.add('done');
  find('pages').replaceChildren();
  clear();
  say('Reading …');
  try {
    const found = await read(file);
    if (file !== reading) return; // another one was chosen meanwhile
    shown = found;
    draw();
    if (engine?.isOpen) await ask();
    else say('Choose a model that this page accepts and can run.');
  } catch (problem) {
    if (file !== reading) return;
    shown = null;
    say(`${file.name} can't be read: ${problem.message}`);
  }
}

async function ask() {
  const own = engine, document = shown, start = performance.now();
  say('Reading …');
  const plain = document.text !== undefined ? { text: document.text } : {
    pages: document.pages.map(({ width, height, words }) => ({ width, height, words })) };
  try {
    const found = await own.request('ask', plain);
    if (own !== engine || document !== shown) return;
    show(found);
    const seconds = ((performance.now() - start) / 1000).toFixed(2);
    say(`Read in ${seconds} s, in this browser.${unread(document)}`);
  } catch (problem) {
    if (own === engine && document === shown) say(`No answer: ${problem.message}`);
  }
}

/** Returns which pages have no words, in words, or nothing. */
function unread({ pages = [] }) {
  const numbers = pages.flatMap(({ words }, page) => (words.length ? [] : [page + 1]));
  return numbers.length ? ` Without words, so not read: page ${numbers.join(', ')}. Text in images `
    + 'is not read here.' : '';
}

function clear() {
  find('answer').hidden = true;
  find('fields').replaceChildren();
  document.querySelectorAll('rect, mark').forEach((old) => old.replaceWith(...old.childNodes));
}

const SVG = 'http://www.w3.org/2000/svg';
function svgElement(name, settings) {
  const made = document.createElementNS(SVG, name);
  Object.entries(settings).forEach(([key, value]) => made.setAttribute(key, value));
  return made;
}

/** Draws the document without any field. */
function draw() {
  if (shown.text !== undefined) {
    find('pages').replaceChildren(element('div', { className: 'page' },
      element('pre', { className: 'text' }, shown.text)));
    return;
  }
  find('pages').replaceChildren(...shown.pages.map(({ width, height, words, canvas }) => {
    const layer = svgElement('svg', { viewBox: `0 0 ${width} ${height}` });
    if (canvas) return element('div', { className: 'page' }, canvas, layer);
    layer.classList.add('plain');
    layer.append(...words.map(({ text, box: [x0, y0, x1, y1] }) => {
      const size = Math.min(y1 - y0, (2 * (x1 - x0)) / Math.max(1, text.length));
      const word = svgElement('text', { x: x0, y: y1 - 0.2 * (y1 - y0), 'font-size': size,
        textLength: Math.max(1, x1 - x0) });
      word.textContent = text;
      return word;
    }));
    return element('div', { className: 'page' }, layer);
  }));
}

/** Shows classes, or fields in their places and beside them. */
function show({ scores, fields = scores, unsure = [], below_threshold: below }) {
  const all = [...fields.map((field) => ({ ...field, isSure: !below })), ...unsure];
  find('answer').hidden = false;
  find('fields').replaceChildren(...all.map((field) => rowOf(field)));
  if (all.length === 0) find('fields').append(element('tr', {}, element('td', {}, 'Nothing')));
  if (shown.text !== undefined && !scores) markText(all);
}

function rowOf({ label, text = '', score, isSure = false, page, words, start, stop }) {
  const percent = `${isSure ? '' : 'check: '}${general(Math.floor(score * 1000) / 10)} %`;
  const row = element('tr', { className: isSure ? '' : 'unsure' }, element('td', {},
    label.replaceAll('_', ' ')), element('td', {}, text), element('td', {}, percent));
  Object.assign(row.dataset, { label, score, place: JSON.stringify([page, words, start, stop]) });
  if (words) {
    const boxes = words.map((word) => shown.pages[page].words[word].box);
    const [x0, y0] = [0, 1].map((side) => Math.min(...boxes.map((box) => box[side])));
    const [x1, y1] = [2, 3].map((side) => Math.max(...boxes.map((box) => box[side])));
    const frame = svgElement('rect', { x: x0, y: y0, width: x1 - x0, height: y1 - y0 });
    frame.classList.toggle('unsure', !isSure);
    find('pages').children[page].querySelector('svg').append(frame);
    row.onmouseenter = () => frame.classList.add('lit');
    row.onmouseleave = () => frame.classList.remove('lit');
  }
  return row;
}

function markText(fields) {
  const pieces = [];
  let place = 0;
  for (const { start, stop, label, isSure } of fields.toSorted((a, b) => a.start - b.start)) {
    const name = isSure ? '' : 'unsure', inside = shown.text.slice(start, stop);
    const mark = element('mark', { title: label, className: name }, inside);
    pieces.push(shown.text.slice(place, start), mark);
    place = stop;
  }
  document.querySelector('pre.text').replaceChildren(...pieces, shown.text.slice(place));
}

/** Returns the files of a dropped folder with their paths in it. */
async function dropped(entry, path = '') {
  if (entry.isFile) {
    return [{ name: path, file: await new Promise((done, fail) => entry.file(done, fail)) }];
  }
  const reader = entry.createReader(), inside = [];
  for (let some = null; some === null || some.length;) {
    some = await new Promise((done, fail) => reader.readEntries(done, fail));
    inside.push(...some);
  }
  const names = inside.map((one) => dropped(one, path ? `${path}/${one.name}` : one.name));
  return (await Promise.all(names)).flat();
}

function listen() {
  find('model').onchange = ({ target: { files } }) => {
    if (!files.length) return;
    const all = [...files].map((file) =>
      ({ name: file.webkitRelativePath.split('/').slice(1).join('/'), file }));
    open(files[0].webkitRelativePath.split('/')[0], { files: all });
  };
  find('document').onchange = ({ target: { files: [file] } }) => file && take(file);
  find('policy').onchange = async ({ target: { files } }) => {
    for (const name of ['policy', 'trust']) {
      const file = [...files].find((one) => one.name === `${name}.json`);
      rules[name] = file ? new Uint8Array(await file.arrayBuffer()) : null;
    }
    say('Policy replaced: choose the model again.');
    newEngine();
    clear();
    judge('none', 'No model yet');
  };
  for (const [id, use] of [
    ['model-drop', async ({ items: [item] }) => {
      const entry = item.webkitGetAsEntry();
      if (entry?.isDirectory) open(entry.name, { files: await dropped(entry) });
      else say('Drop the whole folder of an artifact.');
    }],
    ['document-drop', ({ files: [file] }) => file && take(file)],
  ]) {
    const target = find(id);
    target.ondragover = (event) => { event.preventDefault(); target.classList.add('over'); };
    target.ondragleave = () => target.classList.remove('over');
    target.ondrop = (event) => {
      event.preventDefault();
      target.classList.remove('over');
      use(event.dataTransfer);
    };
  }
}

const lack = missing();
if (lack) {
  find('unfit').textContent = lack;
  find('unfit').hidden = false;
  document.querySelectorAll('input').forEach((input) => { input.disabled = true; });
  say('Nothing can be read in this browser.');
} else {
  for (const name of ['policy', 'trust']) {
    const answer = await fetch(new URL(`${name}.json`, HERE));
    rules[name] = answer.ok ? new Uint8Array(await answer.arrayBuffer()) : null;
  }
  listen();
  const address = new URLSearchParams(window.location.search).get('model'); // of this site
  if (address) open(address, { address: new URL(address, HERE).href });
  document.body.dataset.ready = 'yes';
}
