// A worker that verifies one artifact and then runs its model; another one gets another worker.
// No session is made, and nothing of the runtime is loaded, before the policy has accepted.
import { examine } from '../verify-js/certificate.mjs';
import * as exact from '../verify-js/exact.mjs';
import { chosen, served } from './place.mjs';

const RUNTIME = './node_modules/onnxruntime-web/dist/';
const TOKENIZERS = './node_modules/@huggingface/tokenizers/dist/tokenizers.min.mjs';
const TASKS = { safetensors: ['kie', 'classification'], onnx: ['kie'] }; // that it can run
const refuse = (code, found) => { throw Object.assign(Error(found), { code }); };
let model = null;

const ANSWERS = {
  async open({ files, address, trust, policy, now }) {
    if (!policy) refuse('NO_POLICY', 'no policy.json: nothing says what may be accepted');
    if (!trust) refuse('NO_POLICY', 'no trust.json: nothing says whose signature counts');
    const place = files ? chosen(files) : served(address);
    const { predicate } = await examine(place, { trust, policy, now, exact });
    model = await opened(place.files, predicate.model)
      .catch(({ message }) => ({ unusable: message }));
    return { predicate, unusable: model.unusable };
  },
  ask: async ({ pages, text }) => model.answer({ pages, text }),
};

/** Returns the model of verified files; it answers with fields, or with classes. */
async function opened(files, { task, format, entry }) {
  if (!TASKS[format].includes(task)) throw Error(`its task is ${task}, as ${format}; use hushdoc`);
  const manifest = JSON.parse(new TextDecoder().decode(files.get('hushdoc.json')));
  if (format === 'safetensors') {
    const { openTable } = await import('./tables.mjs');
    const table = openTable(files, manifest, { task, entry });
    return { answer: (asked) => ofTexts(table, asked) };
  }
  const { openLayout } = await import('./layout.mjs');
  const tokenizer = await tokenizerOf(files.get('tokenizer.json'));
  const layout = openLayout(files, manifest, {
    tokenize: (word) => tokenizer.encode(word, { add_special_tokens: false }).ids,
    run: await sessionOf(files.get(entry)),
  });
  return {
    answer: ({ pages }) => (pages ? layout.extract(pages)
      : refuse('TASK_MISMATCH', 'this model reads pages with words, not plain text')),
  };
}

async function tokenizerOf(content) {
  const { Tokenizer } = await import(TOKENIZERS);
  return new Tokenizer(JSON.parse(new TextDecoder().decode(content)), {});
}

async function sessionOf(content) {
  const { InferenceSession, Tensor, env } = await import(`${RUNTIME}ort.wasm.bundle.min.mjs`);
  env.wasm.numThreads = 1; // more need headers that a plain file server does not send
  const wasm = new URL(`${RUNTIME}ort-wasm-simd-threaded.wasm`, import.meta.url).href;
  env.wasm.wasmPaths = { wasm };
  const session = await InferenceSession.create(content, { executionProviders: ['wasm'] });
  return async (inputs) => {
    const tensors = Object.entries(inputs).map(([name, { data, dims }]) =>
      [name, new Tensor('int64', data, dims)]);
    const outputs = await session.run(Object.fromEntries(tensors));
    return outputs[session.outputNames[0]];
  };
}

/** Answers about a plain text, or about each page's words, joined by spaces. */
function ofTexts(table, { pages, text }) {
  const texts = pages ? pages.map(({ words }) => words.map((word) => word.text).join(' ')) : [text];
  if (table.classify) return table.classify(texts);
  const each = texts.map((one, page) => {
    const found = table.extract(one);
    const placed = (field) => (pages ? onPage(field, pages[page].words, page) : field);
    return { fields: found.fields.map(placed), unsure: found.unsure.map(placed) };
  });
  return {
    fields: each.flatMap(({ fields }) => fields), unsure: each.flatMap(({ unsure }) => unsure),
  };
}

/** Returns a field of a page's text with the words it is made of. */
function onPage({ label, start, stop, score }, words, page) {
  const own = [];
  let place = 0;
  words.forEach(({ text }, word) => {
    if (place < stop && place + text.length > start) own.push(word);
    place += text.length + 1;
  });
  return { label, page, score, words: own, text: own.map((word) => words[word].text).join(' ') };
}

self.onmessage = async ({ data: { number, verb, asked } }) => {
  const answer = await ANSWERS[verb](asked).then((found) => ({ found }))
    .catch(({ code, name, message }) => ({ refused: { code: String(code || name), message } }));
  self.postMessage({ number, ...answer });
};
