// Tokens of a text: the rules of hushdoc.hashing.segmentation, version 1.
// What a regular expression of Python means by \s, \w and \d is spelled out.

export const SPACES = '\\t\\x1f \\xa0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000'; // within a line
export const BREAKS = '\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';
export const WORD = '\\p{L}\\p{N}_';

const WORD_MARKS = ''
  + '\\u0300-\\u036f\\u0483-\\u0489\\u0591-\\u05bd\\u05bf\\u05c1\\u05c2\\u0610-\\u061a'
  + '\\u064b-\\u065f\\u0670\\u06d6-\\u06dc\\u06df-\\u06e4\\u06e7-\\u06ed\\u0900-\\u0963'
  + '\\u0966-\\u0dff\\u1ab0-\\u1aff\\u1dc0-\\u1dff\\u20d0-\\u20ff\\ufe20-\\ufe2f\\u200c';
const ALONE = '\\u2e80-\\u2fdf\\u3005-\\u3007\\u3041-\\u30fa\\u30fc-\\u31ff\\u3400-\\u4dbf'
  + '\\u4e00-\\u9fff\\uf900-\\ufaff\\u{1b000}-\\u{1b16f}\\u{20000}-\\u{3ffff}\\u0e00-\\u0e30'
  + '\\u0e32-\\u0e33\\u0e40-\\u0e46\\u0e50-\\u0e59\\u0e80-\\u0eb0\\u0ebd-\\u0ec6'
  + '\\u1000-\\u102a\\u1780-\\u17b3';
const ALONE_MARKS = '\\u0e31\\u0e34-\\u0e3a\\u0e47-\\u0e4e\\u0eb1\\u0eb4-\\u0ebc\\u0ec8-\\u0ecd'
  + '\\u102b-\\u103e\\u17b4-\\u17d3';
const CHARACTERS = `(?:(?![${ALONE}])[${WORD}]|[${WORD_MARKS}])+`;
const SYMBOL = `[^${WORD}${SPACES}${BREAKS}]`;
const TOKEN = RegExp(`[${ALONE}][${ALONE_MARKS}${WORD_MARKS}]*`
  + `|${CHARACTERS}(?:(?:['\u2019\u2010\u2011-]|(?<=\\p{Nd})[.,](?=\\p{Nd}))${CHARACTERS})*`
  + '|\\.+|-+|\\*+|=+|\u2026+|\u2013+|\u2014+|[\\u{1f1e6}-\\u{1f1ff}]{2}'
  + `|${SYMBOL}[\\ufe0e\\ufe0f\\u20e3\\u{1f3fb}-\\u{1f3ff}]*`
  + `(?:\\u200d${SYMBOL}[\\ufe0e\\ufe0f\\u{1f3fb}-\\u{1f3ff}]*)*`, 'gu');

/** Returns where each token of a part of a text starts and stops. */
export function tokens(text, start = 0, stop = text.length) {
  return [...text.slice(start, stop).matchAll(TOKEN)].map(({ index, 0: token }) =>
    [start + index, start + index + token.length]);
}
