// What all models share: spans of tags, and calibrated scores (hushdoc.runtime.scoring).

/** Returns the label and [first, stop] of each span that BIO tags mark; an I alone opens one. */
export function spansOfTags(tags) {
  const found = [];
  let label = null;
  tags.forEach((tag, item) => {
    const name = tag === 'O' ? null : tag.slice(2);
    if (name === null) label = null;
    else if (tag.startsWith('I-') && name === label) found.at(-1).span[1] = item + 1;
    else found.push({ label: label = name, span: [item, item + 1] });
  });
  return found;
}

/** Returns the calibrated score of a raw one: straight lines between knots, level beyond. */
export function calibrated(score, scoring) {
  if (!scoring?.raw.length) return score;
  const { raw, calibrated: values } = scoring, next = raw.findIndex((knot) => knot > score);
  if (next === 0) return values[0];
  if (next < 0) return values.at(-1);
  const slope = (values[next] - values[next - 1]) / (raw[next] - raw[next - 1]);
  return values[next - 1] + slope * (score - raw[next - 1]);
}

/** Returns the scores of raw ones, best first; the curve is the best's, what it leaves the others'. */
export function ranked(raw, scoring) {
  if (!scoring?.raw.length) return raw;
  const best = calibrated(raw[0], scoring), left = raw.slice(1).reduce((sum, x) => sum + x, 0);
  return raw.map((x, rank) => (rank ? Math.min(best, (1 - best) * x / Math.max(left, 1e-12)) : best));
}

/** Returns fields with calibrated scores: those that reach the threshold, and the others. */
export function judged(fields, scoring) {
  const scored = fields.map((field) => ({ ...field, score: calibrated(field.score, scoring) }));
  const isSure = ({ score }) => scoring === null || score >= scoring.threshold;
  return { fields: scored.filter(isSure), unsure: scored.filter((field) => !isSure(field)) };
}
