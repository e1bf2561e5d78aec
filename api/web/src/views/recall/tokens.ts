// What a text costs in tokens, as the node counts it: `tokens_of` in api/answers/compact_facts.py.

const PIECES = /[A-Za-z]+|[0-9]+|[^A-Za-z0-9 ]| {2,}/gu;
const UTF8 = new TextEncoder();
const bytes = (text: string): number => UTF8.encode(text).length;

const costOf = (piece: string): number => {
  if (/^[A-Za-z]/.test(piece)) return Math.ceil(piece.length / 5);
  if (/^[0-9]/.test(piece)) return Math.ceil(piece.length / 3);
  return /^[\0-\x7F]/.test(piece) ? 1 : Math.ceil(bytes(piece) / 2);
};

export const tokensOf = (text: string): number =>
  Math.max((text.match(PIECES) ?? []).reduce((sum, piece) => sum + costOf(piece), 0), Math.ceil(bytes(text) / 4));
