// Sentences of a text: the rules of hushdoc.hashing.segmentation, version 1.
import { RULES } from './abbreviations.mjs';
import { BREAKS, SPACES, WORD } from './tokens.mjs';

export const VERSION = 1;
const MAX_SENTENCE = 4096, LOOK_BACK = 24, LONGEST_ENUMERATOR = 16;
const SHORT_LINE = 40, HEADING_LINE = 80;

const BLANK = `[${SPACES}${BREAKS}]`, LETTER = '[\\p{L}\\p{Nl}\\p{No}]';
const END_OF_WORD = `(?![${WORD}])`;
const CLOSERS =
  '"\'\u201d\u2019\u00bb\u203a)\\]}\u300d\u300f\u3011\u3009\u300b\u3015\uff09\uff3d\uff5d';
const OPENERS =
  '"\'\u201c\u2018\u201e\u00ab\u2039(\\[{\u300c\u300e\u3010\u3008\u300a\u3014\uff08'
  + '\uff3b\uff5b\u00bf\u00a1';
const STRONG = '\\u3002\\uff01\\uff1f\\uff61\\u061f\\u06d4\\u0964\\u0965'
  + '\\u0589\\u1362\\u1367\\u1362\\u104a\\u104b\\u17d4\\u17d5';
const WEAK = '.!?\\u2026\\uff0e';

const CANDIDATE = RegExp(`(?<strong>[${STRONG}]+[${CLOSERS}]*)|(?<weak>[${WEAK}]+[${CLOSERS}]*)`
  + `|(?<line>[${BREAKS}]${BLANK}*)`, 'gu');
const BEFORE = RegExp(`(?:${LETTER}+(?:\\.${LETTER}+)*|\\p{Nd}+)$`, 'u');
const AFTER = RegExp(`${BLANK}*[${OPENERS}]*`, 'uy');
const FIRST_WORD = RegExp(`${LETTER}{1,20}`, 'uy');
const NUMBER = RegExp(`\\p{Nd}|[IVXLC]+${END_OF_WORD}|[A-Z]${END_OF_WORD}|\\(`, 'uy');
const ROMAN = '[ivxlcdmIVXLCDM\u0130\u0131]', ANY_LETTER = '[a-zA-Z\u0130\u0131\u017f\u212a]';
const ENUMERATOR = RegExp(`^[^${WORD}]*`
  + `(?:\\p{Nd}+(?:\\.\\p{Nd}+)*|${ROMAN}+|${LETTER})[^${WORD}]*$`, 'u');
const DIGITS = '\\p{Nd}{1,3}';
const BULLETS = '\\u2022\\u25cf\\u25aa\\u25a0\\u25e6\\u2023\\u2043\\u2219\\u00b7*\\u2013\\u2014-';
const ITEM = RegExp(`[${BULLETS}]${BLANK}`
  + `|\\((?:${DIGITS}|${ANY_LETTER}{1,2}|${ROMAN}{1,6})\\)`
  + `|(?:${DIGITS}(?:\\.${DIGITS}){0,5}|${ANY_LETTER}|${ROMAN}{1,6})[.)]${BLANK}`
  + `|${DIGITS}(?:\\.${DIGITS}){1,5}${BLANK}+[A-Z(]`, 'uy');
const TITLES = 'article|section|clause|schedule|exhibit|annex|appendix|artikel|abschnitt'
  + '|art(?:\u00ed|i)culo'
  + '|cl(?:\u00e1|a)usula|sezione|articolo|hoofdstuk|\u00a7+';
const TITLE = RegExp(`(?:${TITLES.replace(/i/g, '[i\u0130\u0131]')})`
  + `${BLANK}*[\\p{Nd}IVXLC\u0130\u0131]`, 'iuy');
const PARAGRAPH = RegExp(`[\\v\\f\\x1c-\\x1e\\u2029]`
  + `|(?=(\\r\\n|[${BREAKS}]))\\1[${SPACES}]*[${BREAKS}]`, 'u');
const LOWER = /^\p{Lowercase}/u, UPPER = /^\p{Uppercase}/u;
const IS_BLANK = RegExp(`^${BLANK}`, 'u');
const DIGIT = '\\p{Nd}\\u{b2}\\u{b3}\\u{b9}\\u{1369}-\\u{1371}\\u{19da}\\u{2070}\\u{2074}-\\u{2079}'
  + '\\u{2080}-\\u{2089}\\u{2460}-\\u{2468}\\u{2474}-\\u{247c}\\u{2488}-\\u{2490}'
  + '\\u{24ea}\\u{24f5}-\\u{24fd}\\u{24ff}\\u{2776}-\\u{277e}\\u{2780}-\\u{2788}'
  + '\\u{278a}-\\u{2792}\\u{10a40}-\\u{10a43}\\u{10e60}-\\u{10e68}\\u{11052}-\\u{1105a}'
  + '\\u{1f100}-\\u{1f10a}'; // str.isdigit
const IS_DIGITS = RegExp(`^[${DIGIT}]+$`, 'u');

/** Returns where each sentence starts and stops; no sentence begins or ends with a blank. */
export function sentences(text) {
  const found = [];
  let start = 0, lineStart = 0, begin = 0;
  const close = (end) => {
    const [from, to] = trimmed(text, begin, end);
    if (to > from) found.push(...cut(text, from, to));
    begin = end;
  };
  for (const mark of text.matchAll(CANDIDATE)) {
    const end = mark.index + mark[0].length, { weak, line } = mark.groups;
    const ends = line !== undefined ? breaks(text, lineStart, mark.index, end)
      : weak === undefined || stops(text, start, mark.index, weak);
    if (ends) close(start = end);
    if (line !== undefined) lineStart = end;
  }
  close(text.length);
  return found;
}

const at = (expression, text, place) => {
  expression.lastIndex = place;
  return expression.exec(text)?.[0];
};
const isLower = (text, place) => LOWER.test(String.fromCodePoint(text.codePointAt(place) ?? 0));
/** Characters, of which UTF-16 writes some with two units. */
const length = (text, start, stop) => {
  let count = stop - start;
  for (let place = start; place < stop; place++) count -= text.codePointAt(place) > 0xffff;
  return count;
};

/** Returns whether a full stop before a blank ends the sentence that began at `start`. */
function stops(text, start, stop, mark) {
  const end = stop + mark.length;
  if (!IS_BLANK.test(text[end] ?? '')) return false;
  const place = end + at(AFTER, text, end).length;
  if (isLower(text, place) || mark.startsWith('....')) return false;
  if (!mark.startsWith('.') || mark.startsWith('..')) return true;
  // A character has two units at most; who counts all of a long sentence at each stop never ends.
  const isShort =
    stop - start < 2 * LONGEST_ENUMERATOR && length(text, start, stop) < LONGEST_ENUMERATOR;
  if (isShort && ENUMERATOR.test(text.slice(start, stop + 1))) return false;
  let from = Math.max(start, stop - 2 * LOOK_BACK);
  while (length(text, from, stop) > LOOK_BACK) from += text.codePointAt(from) > 0xffff ? 2 : 1;
  const word = (BEFORE.exec(text.slice(from, stop))?.[0] ?? '').toLowerCase();
  const follows = (at(FIRST_WORD, text, place) ?? '').toLowerCase();
  if (IS_DIGITS.test(word)) return [...word].length > 2 || !RULES.months.has(follows);
  if (RULES.beforeNumber.has(word)) return at(NUMBER, text, place) === undefined;
  if ([...word].length === 1 || RULES.sometimes.has(word)) return RULES.starters.has(follows);
  return !RULES.never.has(word);
}

/** Returns whether the end of a line ends its sentence. */
function breaks(text, lineStart, breakStart, next) {
  if (PARAGRAPH.test(text.slice(breakStart, next))) return true;
  let stop = breakStart;
  while (stop > lineStart && IS_BLANK.test(text[stop - 1])) stop -= 1;
  const last = [...text.slice(Math.max(0, stop - 2), stop)].at(-1) ?? '';
  if (';:'.includes(last) && last) return true;
  if (at(ITEM, text, next) !== undefined) return true;
  if (',-\u2013\u2014&/('.includes(last) || isLower(text, next)) return false;
  if (!LOWER.test(last) && at(TITLE, text, next) !== undefined) return true;
  const size = length(text, lineStart, stop);
  if (size > HEADING_LINE) return false;
  return size <= SHORT_LINE || isHeading(text.slice(lineStart, stop));
}

function isHeading(line) {
  if (/\p{Uppercase}/u.test(line) && !/[\p{Lowercase}\p{Lt}]/u.test(line)) return true;
  const words = line.match(RegExp(FIRST_WORD.source, 'gu')) ?? [];
  return words.every((word) => [...word].length <= 3 || UPPER.test(word));
}

function trimmed(text, start, stop) {
  while (start < stop && IS_BLANK.test(text[start])) start += 1;
  while (stop > start && IS_BLANK.test(text[stop - 1])) stop -= 1;
  return [start, stop];
}

/** Returns a sentence in parts of at most MAX_SENTENCE characters. */
function cut(text, start, stop) {
  const parts = [], reachOf = (from, count) => {
    let to = from;
    for (let left = count; left > 0; left--) to += text.codePointAt(to) > 0xffff ? 2 : 1;
    return to;
  };
  while (stop - start > MAX_SENTENCE && length(text, start, stop) > MAX_SENTENCE) {
    const reach = reachOf(start, MAX_SENTENCE);
    const space = text.lastIndexOf(' ', reach - 1);
    const end = space >= reachOf(start, MAX_SENTENCE / 2) ? space : reach;
    parts.push([start, trimmed(text, start, end)[1]]);
    start = trimmed(text, end, stop)[0];
  }
  return [...parts, [start, stop]];
}
