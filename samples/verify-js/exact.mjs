// What verify.mjs --exact plugs in: the privacy loss of a transcript on a grid, never below the
// true one. The specification says why that is sound. Covered are Gaussian steps: sampled, grouped,
// of clusters, composed, in sequence, on disjoint parts. Anything else proves nothing.

const CERTIFYING = ['pld', 'prv', 'rdp', 'zcdp', 'analytic-gaussian'];
const STEEPEST = 640; // natural logarithm of the largest weight of a loss
const RANGE = 10; // standard deviations of an outcome; beyond lies less than 1e-22
const MOST_STEPS = 64; // in one transcript; each costs a transform
const MOST_WORK = 4e8; // over everything that is asked, counted below: a few seconds
let work = 0;
const NODES = [0.21132486540518713, 0.7886751345948129]; // Gauss-Legendre, on a cell of width 1

/** Returns whether every point of a guarantee follows from the transcript, and none contradicts. */
export function isReproduced(guarantee, transcript) {
  const points = [[guarantee.epsilon, guarantee.delta], ...guarantee.profile];
  if (!transcript || !CERTIFYING.includes(guarantee.accountant.name)) return false;
  if (!['add-remove', 'zero-out'].includes(guarantee.adjacency)) return false;
  const falls = points.every(([epsilon, delta]) => points.every(([other, larger]) =>
    delta > larger || (delta === larger ? epsilon === other : epsilon >= other)));
  // A record is in one part of a parallel event, so each part has to keep the guarantee alone.
  const parts = transcript.type === 'parallel' ? transcript.events : [transcript];
  const different = [...new Map(parts.map((part) => [JSON.stringify(part), part])).values()];
  return falls && different.every((part) => keeps(steps(part), points));
}

/** Returns whether some grid proves all points: coarse or fine, over few losses or over many. */
function keeps(ran, points) {
  if (ran === null) return false;
  const alike = new Map(); // equal steps cost one transform together
  for (const { count, ...step } of ran) {
    const key = JSON.stringify(step);
    alike.set(key, { ...step, count: count + (alike.get(key)?.count ?? 0) });
  }
  const each = [...alike.values()];
  if (each.length > MOST_STEPS) return false;
  const epsilons = points.map(([epsilon]) => epsilon), largest = Math.max(...epsilons);
  const narrow = 4 + 2 * largest, wide = 32 + 2 * largest;
  const grids = [[14, narrow], [16, narrow], [17, wide], [20, narrow], [20, wide]];
  const tilts = [0, 0]; // for removing and for adding a unit, as the grid before found them
  for (const [power, half] of grids) {
    const found = tilts.map((tilt, added) =>
      deltas(each, epsilons, half, 2 ** power, !added, Math.min(tilt, STEEPEST / half)));
    found.forEach(({ tilt }, added) => { tilts[added] = tilt; });
    const excess = Math.max(
      ...found.flatMap(({ bounds }) => bounds.map((delta, i) => delta / points[i][1])));
    if (excess <= 1) return true;
    if (half === wide && excess > 1.2) return false; // beyond what a finer grid could improve
  }
  return false;
}

/** Returns each step of an event with how often it ran, or null for what is not covered. */
function steps(event, count = 1, size = 1) {
  const inside = (times, records) => steps(event.event, times, records);
  if (event.type === 'composed') return inside(count * event.count, size);
  if (event.type === 'group' && size === 1) return inside(count, event.size);
  if (event.type === 'sequence') {
    const all = event.events.map((part) => steps(part, count, size));
    return all.includes(null) ? null : all.flat();
  }
  if (event.type === 'cluster-sampled' && size === 1) {
    const [step, ...others] = inside(1, 1) ?? [];
    const isOneStep = step?.count === 1 && step.participation === 1 && others.length === 0;
    return isOneStep ? [{ ...step, count, participation: event.samplingRate }] : null;
  }
  const isSampled = event.type === 'poisson-sampled' && event.event.type === 'gaussian';
  if (!isSampled && event.type !== 'gaussian') return null;
  const noise = (event.event ?? event).noiseMultiplier;
  const rate = isSampled ? event.samplingRate : 1;
  return size / noise < 25 && size <= 64
    ? [{ count, participation: 1,
      means: sampleWeights(size, rate).map((w, j) => [w, j / noise]) }] : null;
}

/** Returns the probabilities that 0, 1, ... of a unit's records are in a batch. */
function sampleWeights(size, rate) {
  let found = [1];
  for (let record = 0; record < size; record++) {
    found = [...found, 0].map((w, j) => w * (1 - rate) + (found[j - 1] ?? 0) * rate);
  }
  return found;
}

/**
 * Returns one step's privacy loss: the probability of each multiple of `width`, index 0 for 0 and
 * the upper half for negative ones, and the probability that the loss lies beyond.
 *
 * Without the unit the outcome z is standard normal, with it a mixture of normals around `means`.
 * The outcomes are cut into cells. Each is given to two points of the grid around its losses, so
 * that its probabilities with and without the unit stay: that only adds to the divergence.
 */
function lossGrid({ means, participation }, width, size, removed) {
  const grid = new Float64Array(size), last = means.at(-1)[1];
  const ratio = (z) => means.reduce(
    (sum, [w, mean]) => sum + w * Math.exp(mean * (z - mean / 2)), 0);
  const range = 2 * RANGE + last;
  const cells = Math.min(2 ** 21, 2 ** 13 + Math.ceil((range * last) / width));
  work += 10 * cells * means.length;
  let beyond = 1e-20, leftLoss = Math.log(ratio(-RANGE));
  for (let cell = 0; cell < cells; cell++) {
    const rightLoss = Math.log(ratio(((cell + 1) / cells) * range - RANGE));
    let withUnit = 0, without = 0;
    for (const node of NODES) {
      const z = ((cell + node) / cells) * range - RANGE;
      const probability = (Math.exp((-z * z) / 2) * range) / cells / Math.sqrt(8 * Math.PI);
      without += probability;
      withUnit += probability * ratio(z);
    }
    const [mass, other] = removed ? [withUnit, without] : [without, withUnit];
    const [least, most] = removed ? [leftLoss, rightLoss] : [-rightLoss, -leftLoss];
    const low = Math.max(Math.floor(least / width), -size / 2);
    const high = Math.max(Math.ceil(most / width), low + 1);
    if (high >= size / 2) {
      beyond += mass;
    } else {
      const raised = (mass - other * Math.exp(low * width)) / -Math.expm1((low - high) * width);
      const upper = Math.min(Math.max(raised, 0), mass);
      grid[(low + size) % size] += participation * (mass - upper);
      grid[(high + size) % size] += participation * upper;
    }
    leftLoss = rightLoss;
  }
  grid[0] += 1 - participation; // a cluster that did not take part reveals nothing
  return { grid, beyond };
}

/**
 * Returns upper bounds of delta at each epsilon after all steps, in one direction, and a tilt for
 * finer grids. Losses are weighted by exp(tilt * loss) while they are added up, so that rounding
 * is small beside the probability of the large ones, which delta is made of.
 */
function deltas(ran, epsilons, half, size, removed, tilt) {
  work += size * Math.log2(size);
  const width = (2 * half) / size;
  const loss = (index) => (index < size / 2 ? index : index - size) * width;
  const orders = [0, 5, 10, 20, 40, 80, 160, 320, STEEPEST].map((exponent) => exponent / half);
  const growth = orders.map(() => 0); // the logarithm of E[exp(order * loss)]
  const sizes = new Float64Array(size), angles = new Float64Array(size);
  let beyond = 0, count = 0, scale = 0; // scale: the logarithm of all weights
  for (const step of ran.filter((item) => item.count > 0)) {
    work += 3 * size * Math.log2(size); // the transform, and what goes with it
    if (work > MOST_WORK) return { bounds: epsilons.map(() => Infinity), tilt };
    const { grid, beyond: outside } = lossGrid(step, width, size, removed);
    const mean = (order) =>
      grid.reduce((sum, mass, i) => (mass === 0 ? sum : sum + mass * Math.exp(order * loss(i))), 0);
    orders.forEach((order, k) => { growth[k] += step.count * Math.log(mean(order)); });
    const weight = mean(tilt);
    scale += step.count * Math.log(weight);
    const [re, im] = fourier(
      grid.map((mass, i) => (mass === 0 ? 0 : (mass * Math.exp(tilt * loss(i))) / weight)),
      new Float64Array(size));
    for (let i = 0; i < size; i++) {
      sizes[i] += step.count * Math.log(Math.hypot(re[i], im[i]));
      angles[i] += step.count * Math.atan2(im[i], re[i]);
    }
    beyond += step.count * outside;
    count += step.count;
  }
  const [composed] = fourier(
    sizes.map((log, i) => Math.exp(log) * Math.cos(angles[i])),
    sizes.map((log, i) => -Math.exp(log) * Math.sin(angles[i])),
  );
  const masses = composed.map((mass) => Math.max(mass / size, 0));
  // What could have wrapped around (Chernoff), and what rounding could have hidden: its norm
  // (Parseval), spread over the losses that count (Cauchy-Schwarz).
  const wrapped = Math.min(...orders.map((order, k) => Math.exp(growth[k] - order * half)));
  const energy = masses.reduce((sum, mass) => sum + mass * mass, 0);
  const norm = 1e-15 * (count + 1) * Math.log2(size) * Math.sqrt(energy);
  const unweighted = (at) => Math.exp(scale - tilt * at);
  const bounds = epsilons.map((epsilon) => masses.reduce((sum, mass, i) => (loss(i) > epsilon
    ? sum - mass * unweighted(loss(i)) * Math.expm1(epsilon - loss(i)) : sum),
  wrapped + beyond + norm * unweighted(epsilon) * Math.sqrt((half - epsilon) / width))
    * (1 + 1e-9 * (count + 1)));
  const largest = Math.max(...epsilons), chances = orders.map((order, k) =>
    growth[k] - order * largest);
  return { bounds, tilt: orders[chances.indexOf(Math.min(...chances))] };
}

/** Returns the Fourier transform of a power of two of numbers (Stockham) and overwrites them. */
function fourier(re, im) {
  const size = re.length, half = size / 2;
  let [a, b, c, d] = [re, im, new Float64Array(size), new Float64Array(size)];
  for (let length = half, stride = 1; length >= 1; length /= 2, stride *= 2) {
    for (let block = 0; block < length; block++) {
      const cos = Math.cos((Math.PI * block) / length), sin = -Math.sin((Math.PI * block) / length);
      for (let from = block * stride; from < (block + 1) * stride; from++) {
        const to = from + block * stride;
        const x = a[from] - a[from + half], y = b[from] - b[from + half];
        c[to] = a[from] + a[from + half];
        d[to] = b[from] + b[from + half];
        c[to + stride] = x * cos - y * sin;
        d[to + stride] = x * sin + y * cos;
      }
    }
    [a, b, c, d] = [c, d, a, b];
  }
  return [a, b];
}
