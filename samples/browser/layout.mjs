// Models that read words with their boxes: hushdoc.runtime.kie for the browser. Words become
// tokens, long pages windows; an I only follows a B or I of its own label.
import { judged, spansOfTags } from './answers.mjs';
import { shares } from './chains.mjs';

const BOX_SCALE = 1000, TINY = 1e-300;

/**
 * Returns the model of an artifact that was verified.
 *
 * `tokenize(word)` returns a word's token ids; `run(inputs)` takes `{ name: { data, dims } }` of
 * BigInt64Array and returns the logits as `{ data, dims }`.
 */
export function openLayout(files, manifest, { tokenize, run }) {
  const settings = manifest.preprocessing, names = manifest.inputs.map(({ name }) => name);
  const isKnown = ['word', 'segment', 'none'].includes(settings.box_level)
    && settings.word_order === 'given' && !settings.image;
  if (!isKnown) {
    throw Error('it reads images, or words in another order; use hushdoc');
  }
  const { fields } = JSON.parse(new TextDecoder().decode(files.get('labels.json')));
  const tags = ['O', ...fields.flatMap((name) => [`B-${name}`, `I-${name}`])];
  const scoring = settings.scores ?? null, heat = Math.fround(scoring?.temperature ?? 1);

  async function fieldsOf(page) {
    const encoded = encode(page, settings, tokenize), scores = page.words.map(() => null);
    const seen = page.words.map(() => -1);
    for (const [start, stop] of split(encoded, settings)) {
      const { data, dims } = await run(inputsOf(encoded, start, stop, settings, names));
      const size = dims.at(-1);
      for (let token = start; token < stop; token++) {
        const word = encoded.words[token], whole = stop - start;
        const left = start > 0 ? token - start : whole; // a page's own edge is no loss of context
        const right = stop < encoded.words.length ? stop - token : whole;
        if (encoded.words[token - 1] === word || Math.min(left, right) <= seen[word]) continue;
        seen[word] = Math.min(left, right);
        const logits = data.slice((token - start + 1) * size, (token - start + 2) * size);
        const warm = Array.from(logits, (x) => Math.fround(x / heat));
        scores[word] = shares(warm).map(Math.fround);
      }
    }
    const joined = settings.box_level === 'segment' ? joinedWords(page.words) : null;
    const path = bestTags(scores, tags.length, joined);
    return spansOfTags(path.map((tag) => tags[tag])).map(({ label, span: [first, stop] }) => {
      const own = path.map((tag, word) => scores[word]?.[tag]).slice(first, stop);
      const read = own.filter((x) => x !== undefined);
      return { label, words: range(first, stop), text: textOf(page.words.slice(first, stop)),
        score: read.reduce((sum, x) => sum + x, 0) / read.length };
    });
  }

  return {
    async extract(pages) {
      const found = [];
      for (const [number, page] of pages.entries()) {
        const hasLines = page.words.every(({ segment }) => segment !== null);
        if (settings.box_level === 'segment' && !hasLines) {
          throw Error('this model needs text lines, which this file does not name: use hushdoc');
        }
        found.push(...(await fieldsOf(page)).map((field) => ({ ...field, page: number })));
      }
      return judged(found, scoring);
    },
  };
}

const range = (first, stop) => Array.from({ length: stop - first }, (_, k) => first + k);
const textOf = (words) => words.map(({ text }) => text).join(' ');
const joinedWords = (words) => words.map(({ segment }, word) =>
  word > 0 && segment !== null && segment === words[word - 1].segment);

/** Returns the tokens of a page, and for each its word and box from 0 to 1000. */
function encode({ width, height, words }, { box_level: level, max_tokens: most }, tokenize) {
  const found = { ids: [], words: [], boxes: [] }, whole = new Map();
  for (const { segment, box: [x0, y0, x1, y1] } of words) {
    const [a, b, c, d] = whole.get(segment) ?? [x0, y0, x1, y1];
    whole.set(segment, [Math.min(a, x0), Math.min(b, y0), Math.max(c, x1), Math.max(d, y1)]);
  }
  words.forEach(({ text, box, segment }, word) => {
    const own = level === 'none' ? [0, 0, 0, 0] : level === 'segment' ? whole.get(segment) : box;
    const scaled = own.map((value, side) => Math.min(BOX_SCALE, Math.max(0,
      Math.trunc((BOX_SCALE * value) / (side % 2 ? height : width)))));
    for (const id of tokenize(text).slice(0, most - 2)) {
      found.ids.push(id);
      found.words.push(word);
      found.boxes.push(scaled);
    }
  });
  return found;
}

/** Returns ranges of tokens that cover a page and never cut a word, as hushdoc.runtime.windows. */
function split({ words }, { max_tokens: most, overlap }) {
  const total = words.length, starts = range(0, total).filter((k) => words[k] !== words[k - 1]);
  const ranges = [];
  let start = 0;
  while (start < total) {
    if (total - start <= most - 2) return [...ranges, [start, total]];
    const stop = starts.findLast((place) => place <= start + most - 2);
    const back = starts.find((place) => place >= stop - overlap);
    ranges.push([start, stop]);
    start = back > start ? back : stop;
  }
  return ranges;
}

function inputsOf({ ids, boxes }, start, stop, settings, names) {
  const size = stop - start + 2, whole = (values) => BigInt64Array.from(values, BigInt);
  const made = {
    input_ids: [whole([settings.cls_id, ...ids.slice(start, stop), settings.sep_id]), [1, size]],
    bbox: [whole([[0, 0, 0, 0], ...boxes.slice(start, stop),
      Array(4).fill(settings.sep_box ?? BOX_SCALE)].flat()), [1, size, 4]],
    attention_mask: [whole(Array(size).fill(1)), [1, size]],
  };
  return Object.fromEntries(names.map((name) =>
    [name, { data: made[name][0], dims: made[name][1] }]));
}

/** Returns the most probable tags of words; null stands for the scores of one that was not read. */
function bestTags(scores, size, joined) {
  const labelOf = (tag) => Math.floor((tag - 1) / 2), isInside = (tag) => tag > 0 && tag % 2 === 0;
  const allows = (from, to, held) => (isInside(to) ? from > 0 && labelOf(from) === labelOf(to)
    : !(held && to > 0 && from > 0 && labelOf(from) === labelOf(to)));
  const tags = range(0, size), cameFrom = [];
  let best = tags.map(() => 0);
  scores.forEach((row, word) => {
    const logs = tags.map((tag) =>
      (row ? Math.log(Math.max(row[tag], TINY)) : tag % 2 ? Math.log(0.5) : 0));
    if (word === 0) {
      best = logs.map((log, tag) => (isInside(tag) ? -Infinity : log));
      return;
    }
    const from = [], next = tags.map((to) => {
      let top = -Infinity;
      from[to] = 0;
      for (const tag of tags) {
        if (best[tag] > top && allows(tag, to, joined?.[word])) [top, from[to]] = [best[tag], tag];
      }
      return top + logs[to];
    });
    cameFrom.push(from);
    best = next;
  });
  if (scores.length === 0) return [];
  const path = [best.indexOf(Math.max(...best))];
  for (const from of cameFrom.reverse()) path.push(from[path.at(-1)]);
  return path.reverse();
}
