// Tables of hashed features: what hushdoc.runtime.hashed reads from an artifact, and its answers.
import { probabilities, spanProbabilities, viterbi } from './chains.mjs';
import { rowsOfItems, tokenHash } from './hashing.mjs';
import { tensorsOf } from './safetensors.mjs';
import { VERSION, sentences } from './segmentation.mjs';
import { tokens } from './tokens.mjs';
import { judged, ranked, spansOfTags } from './answers.mjs';

const TABLE = 'hashTable'; // key of the manifest's preprocessing
const ZERO_POINT = 128; // the byte that stands for the weight 0

/** Returns the model of an artifact that was verified: `files` are its contents by their names. */
export function openTable(files, manifest, model) {
  const settings = manifest.preprocessing, scheme = settings.features;
  const names = JSON.parse(new TextDecoder().decode(files.get('labels.json')));
  const tags = names[model.task === 'kie' ? 'tags' : 'labels'];
  const stored = tensorsOf(files.get(model.entry));
  const isSound = settings.segmentation === VERSION && scheme.version === 1
    && stored[settings[TABLE].tensor].shape[0] === scheme.rows;
  if (!isSound) throw Object.assign(Error('of another version'), { code: 'BAD_MANIFEST' });
  const transitions = rowsOf(stored.transitions);
  const clusters = scheme.clusters > 0 ? clustersOf(files.get('clusters.safetensors')) : null;
  const table = {
    weights: stored[settings[TABLE].tensor], scale: stored.scale?.values ?? null,
    labels: tags.map((_, label) => label).filter((label) => label !== settings[TABLE].reference),
  };
  const read = (text) => scored(text, { scheme, clusters, table, size: tags.length });
  const parts = { tags, scheme, transitions, scoring: settings.scores ?? null };
  if (model.task === 'kie') return { extract: (text) => fieldsOf(text, read(text), parts) };
  const { spread } = settings.class_confidence;
  return { classify: (texts) => classesOf(texts.map(read), parts, spread) };
}

/** Returns the sentences of a text with their tokens' places, and the scores of their items. */
function scored(text, { scheme, clusters, table, size }) {
  let numFeatures = 0;
  const found = sentences(text).map((place) => {
    const own = tokens(text, ...place);
    const hashes = own.map(([start, stop]) => tokenHash(text.slice(start, stop), scheme));
    const groups = clusters && hashes.map((hash) => clusters.get(hash) ?? -1);
    const items = rowsOfItems(hashes, groups, scheme);
    numFeatures += items.reduce((sum, rows) => sum + rows.length, 0);
    return { place, tokens: own, scores: items.map((rows) => scoresOf(rows, table, size)) };
  });
  return { sentences: found, numFeatures };
}

/** Returns the sum of some rows for each label, 0 for one that has no column. */
function scoresOf(rows, { weights: { values, shape: [, columns] }, scale, labels }, size) {
  const sums = new Float64Array(columns), scores = Array(size).fill(0);
  for (const row of rows) {
    for (let column = 0; column < columns; column++) {
      sums[column] += values[row * columns + column] - (scale ? ZERO_POINT : 0);
    }
  }
  labels.forEach((label, column) => { scores[label] = sums[column] * (scale?.[column] ?? 1); });
  return scores;
}

/** Returns the fields of a text, each `{ label, text, start, stop, score }`: UTF-16 units. */
function fieldsOf(text, read, { tags, scheme, transitions, scoring }) {
  const heat = scoring?.temperature ?? 1, isToken = scheme.level === 'token';
  const joins = isToken
    ? (before, after) => tags[after] === `I-${tags[before].slice(2)}`
    : (before, after) => before === after;
  const cooled = (rows) => rows.map((row) => row.map((x) => x / heat));
  const certainties = (scores, path, spans) => {
    if (scoring) return spanProbabilities(cooled(scores), cooled(transitions), path, spans, joins);
    const each = probabilities(scores, transitions, path);
    return spans.map(([first, stop]) =>
      each.slice(first, stop).reduce((sum, x) => sum + x, 0) / (stop - first));
  };
  const decode = (scores, places, spansOf) => {
    const path = viterbi(scores, transitions);
    const spans = spansOf(path.map((tag) => tags[tag]));
    const certain = spans.length ? certainties(scores, path, spans.map(({ span }) => span)) : [];
    return spans.map(({ label, span: [first, last] }, number) => {
      const start = places[first][0], stop = places[last - 1][1];
      return { label, text: text.slice(start, stop), start, stop, score: certain[number] };
    });
  };
  const found = isToken
    ? read.sentences.flatMap((one) => decode(one.scores, one.tokens, spansOfTags))
    : decode(read.sentences.map(({ scores: [own] }) => own),
      read.sentences.map(({ place }) => place), runs);
  return judged(found, scoring);
}

/** Returns the runs of items that have one label, those outside of any field left out. */
function runs(labels) {
  const found = [];
  labels.forEach((label, item) => {
    if (label === labels[item - 1]) found.at(-1).span[1] = item + 1;
    else found.push({ label, span: [item, item + 1] });
  });
  return found.filter(({ label }) => label !== 'O');
}

/** Returns all classes of a document, best first, by hushdoc.runtime.hashed.class_scoring. */
function classesOf(reads, { tags, scoring }, spread) {
  const sums = tags.map(() => 0);
  let size = 0;
  for (const read of reads) {
    for (const { scores } of read.sentences) {
      scores.forEach((own) => own.forEach((x, label) => { sums[label] += x; }));
    }
    size += read.numFeatures;
  }
  const unit = (scoring?.temperature ?? 1) * spread * Math.sqrt(Math.max(1, size));
  const confidence = (label) => {
    const others = sums.filter((_, other) => other !== label).map((x) => x / unit);
    const top = Math.max(...others);
    const margin = sums[label] / unit - top
      - Math.log(others.reduce((sum, x) => sum + Math.exp(x - top), 0));
    const rest = 0.5 / (1 + Math.abs(margin));
    return margin > 0 ? 1 - rest : rest;
  };
  const raw = tags.map((label, index) => ({ label, score: confidence(index) }))
    .sort((a, b) => b.score - a.score);
  const values = ranked(raw.map(({ score }) => score), scoring);
  const scores = raw.map(({ label }, rank) => ({ label, score: values[rank] }));
  return { scores, below_threshold: scoring !== null && scores[0].score < scoring.threshold };
}

const rowsOf = ({ shape: [, columns], values }) =>
  Array.from({ length: values.length / columns }, (_, row) =>
    [...values.subarray(row * columns, (row + 1) * columns)]);
function clustersOf(content) {
  const { hashes: { values }, ids } = tensorsOf(content);
  return new Map(Array.from(values, (hash, number) => [hash, ids.values[number]]));
}
