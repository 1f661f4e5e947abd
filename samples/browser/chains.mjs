// Linear chains, as in hushdoc.runtime.hashed.chains, of one sequence: `scores` [items][labels] and
// `transitions` [labels][labels], from a label to the next.

/** Returns the best label of every item; of equally good ones the first. */
export function viterbi(scores, transitions) {
  if (scores.length === 0) return [];
  if (transitions.length === 2) return viterbiOfTwo(scores, transitions);
  const cameFrom = [];
  let best = [...scores[0]];
  for (const own of scores.slice(1)) {
    const from = own.map(() => 0), next = [];
    for (let label = 0; label < own.length; label++) {
      let top = -Infinity;
      for (let before = 0; before < own.length; before++) {
        const reached = best[before] + transitions[before][label];
        if (reached > top) [top, from[label]] = [reached, before];
      }
      next.push(top + own[label]);
    }
    cameFrom.push(from);
    best = next;
  }
  const path = [best.indexOf(Math.max(...best))];
  for (const from of cameFrom.reverse()) path.push(from[path.at(-1)]);
  return path.reverse();
}

/** Computes only by how much the second label leads: that decides ties as hushdoc does. */
function viterbiOfTwo(scores, [[stay, leave], [enter, keep]]) {
  const leads = [];
  let lead = 0;
  scores.forEach(([first, second], place) => {
    const gain = second - first;
    lead = place === 0 ? gain
      : Math.max(lead + keep, leave) - Math.max(lead + enter, stay) + gain;
    leads.push(lead);
  });
  const path = [Number(leads.pop() > 0)];
  for (const before of leads.reverse()) {
    path.push(Number(before > (path.at(-1) ? leave - keep : stay - enter)));
  }
  return path.reverse();
}

/** Returns how probable each item's label is, given the labels beside it. */
export function probabilities(scores, transitions, path) {
  return scores.map((own, item) => {
    const logits = own.map((score, label) => score
      + (item > 0 ? transitions[path[item - 1]][label] : 0)
      + (item < path.length - 1 ? transitions[label][path[item + 1]] : 0));
    return shares(logits)[path[item]];
  });
}

/**
 * Returns how probable it is that a field stands exactly at each span [first, stop], by the
 * constrained forward-backward estimate of Culotta and McCallum (2004). `joins(before, after)` says
 * whether an item with the second label goes on with the field of one with the first.
 */
export function spanProbabilities(scores, transitions, path, spans, joins) {
  const labels = transitions.map((_, label) => label);
  const turned = labels.map((b) => labels.map((a) => transitions[a][b]));
  const until = messages(scores, transitions);
  const onward = messages([...scores].reverse(), turned).reverse();
  const after = (label, item) => shares(onward[item].map((x, b) => transitions[label][b] + x));
  return spans.map(([first, stop]) => {
    let found = shares(onward[first])[path[first]];
    if (first > 0) {
      const pairs = shares(labels.flatMap((a) =>
        labels.map((b) => until[first - 1][a] + transitions[a][b] + onward[first][b])));
      const size = labels.length;
      found = labels.reduce((sum, a) =>
        sum + (joins(a, path[first]) ? 0 : pairs[a * size + path[first]]), 0);
    }
    for (let item = first + 1; item < stop; item++) {
      found *= after(path[item - 1], item)[path[item]];
    }
    if (stop < scores.length) {
      const last = path[stop - 1];
      found *= after(last, stop).reduce((sum, x, b) => sum + (joins(last, b) ? 0 : x), 0);
    }
    return Math.min(found, 1);
  });
}

/** Returns the forward messages as logarithms, less the largest of each item. */
function messages(scores, transitions) {
  let before = null;
  return scores.map((own) => {
    const now = own.map((score, label) => (before === null ? score
      : score + logSum(before.map((x, a) => x + transitions[a][label]))));
    const top = Math.max(...now);
    before = now.map((x) => x - top);
    return before;
  });
}

function logSum(logs) {
  const top = Math.max(...logs);
  return top + Math.log(logs.reduce((sum, x) => sum + Math.exp(x - top), 0));
}

export function shares(logits) {
  const top = Math.max(...logits), powers = logits.map((x) => Math.exp(x - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}
