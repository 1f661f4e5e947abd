// Drives the page of samples/browser in headless Chromium and prints what it showed, as JSON.
// Standard input: { modules, chromium, address, arguments, steps }; each step is [verb, ...what].
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { modules, chromium: program, address, more, steps } = JSON.parse(readFileSync(0, 'utf8'));
const { chromium } = createRequire(`${modules}/`)('playwright-core');
const browser = await chromium.launch({ executablePath: program,
  args: ['--no-sandbox', '--disable-gpu', ...more] });
const context = await browser.newContext({ viewport: { width: 1360, height: 900 } });
const requests = [], problems = [];
context.on('request', (request) => requests.push(request.url()));
const page = await context.newPage();
await page.clock.setFixedTime('2026-12-01T00:00:00Z'); // each example is valid then
page.on('console', (message) => problems.push(message.text()));
page.on('requestfailed', (request) => problems.push(`${request.url()} failed`));
page.on('pageerror', (problem) => problems.push(String(problem)));

const text = async (selector) => (await page.locator(selector).innerText()).trim();
const isSettled = () => !['#verdict', '#status'].some((name) =>
  document.querySelector(name).textContent.includes('\u2026'));
const settled = () => page.waitForFunction(isSettled, null, { timeout: 0 }).catch(async () => {
  throw Error(`${await text('#verdict')} ${await text('#status')} ${problems.join(' ')}`);
});

const judged = async () => ({ verdict: await text('#verdict'),
  lines: await page.locator('#promise > p').allTextContents(),
  further: await page.locator('#promise li').allTextContents() });
const answered = async () => ({ status: await text('#status'),
  pages: await page.locator('#pages > div').count(),
  boxes: await page.locator('rect').count(), marks: await page.locator('mark').count(),
  fields: await page.locator('#fields tr').evaluateAll((rows) => rows.map((row) => ({
    ...row.dataset, text: row.children[1]?.textContent, isSure: !row.className }))) });

const verbs = {
  without: (name) => page.addInitScript((lacking) => { delete globalThis[lacking]; }, name),
  open: async (path) => {
    await page.goto(path.startsWith('/') ? `${address}${path}` : path);
    await page.waitForSelector('body[data-ready], #unfit:not([hidden])', { timeout: 0 });
    return { unfit: await page.locator('#unfit').isVisible() ? await text('#unfit') : null };
  },
  rules: async (...files) => { // the page reads them before it uses them
    await page.locator('#status').evaluate((shown) => { shown.textContent = ''; });
    await page.setInputFiles('#policy', files);
    await page.waitForFunction(() =>
      document.querySelector('#status').textContent.startsWith('Policy replaced'));
  },
  model: async (folder) => {
    const before = requests.length;
    await page.setInputFiles('#model', folder);
    await settled();
    return { ...await judged(), status: await text('#status'), requested: requests.slice(before) };
  },
  drop: async (target, file) => {
    const { x, y, width, height } = await page.locator(target).boundingBox();
    const session = await context.newCDPSession(page);
    for (const name of [`${target} > span`, '#status']) {
      await page.locator(name).evaluate((shown) => { shown.textContent = ''; });
    }
    for (const type of ['dragEnter', 'dragOver', 'drop']) {
      await session.send('Input.dispatchDragEvent', { type, x: x + width / 2, y: y + height / 2,
        data: { items: [], files: [file], dragOperationsMask: 1 } });
    }
    await page.waitForFunction((name) => document.querySelector(name).textContent
      || document.querySelector('#status').textContent.startsWith('Drop'), `${target} > span`);
    await settled();
    return { ...await judged(), ...await answered() };
  },
  served: async (folder) => {
    await verbs.open(`/browser/?model=${folder}`);
    await settled();
    return judged();
  },
  document: async (file) => {
    await page.setInputFiles('#document', file);
    await settled();
    return answered();
  },
  overtaken: async (first, second) => { // the second is read while the first still is
    await page.evaluate(() => {
      const { text } = Blob.prototype;
      globalThis.held = new Promise((go) => { globalThis.go = go; });
      Blob.prototype.text = async function late() {
        Blob.prototype.text = text;
        await globalThis.held;
        return text.call(this);
      };
    });
    await page.setInputFiles('#document', first);
    await verbs.document(second);
    await page.evaluate(() => {
      globalThis.go();
      return new Promise((done) => { setTimeout(done, 100); });
    });
    await settled();
    return { name: await text('#document-name'), ...await answered() };
  },
  workers: async (code) => Promise.all(page.workers().map((worker) => worker.evaluate(code))),
  run: async (code) => page.evaluate(code),
  picture: async (file) => { writeFileSync(file, await page.screenshot()); },
};
const found = [];
for (const [verb, ...what] of steps) found.push(await verbs[verb](...what) ?? null);
await browser.close();
console.log(JSON.stringify({ found, requests, problems }));
