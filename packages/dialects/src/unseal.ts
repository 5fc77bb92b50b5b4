import type { Format } from './format.ts';
import { decodeSignature } from './gemini/wire.ts';
import { type CutShape, cutsIn } from './json/cuts.ts';
import { CLOSE_OBJECT, COMMA, JsonCursor, OPEN_OBJECT, QUOTE, type Span } from './json/jsonCursor.ts';
import { ENVELOPE_PREFIX } from './wire/seal.ts';

const OPENED = `"${ENVELOPE_PREFIX}`;
/** The first characters of a signature tell: the rest can be many KiB. */
const SIGNATURE_START = 12;

/** Whether an item has an envelope in one of these members. */
function hasEnvelope(...members: readonly string[]): (item: Buffer) => boolean {
  return (item) => {
    const cursor = new JsonCursor(item);
    if (cursor.peek() !== OPEN_OBJECT || !item.includes(OPENED)) return false;
    do {
      cursor.at++;
      cursor.space();
      if (cursor.peek() === CLOSE_OBJECT) return false;
      const isMeant = cursor.isKeyOf(members);
      if (isMeant && item.toString('latin1', cursor.at, cursor.at + OPENED.length) === OPENED) return true;
      cursor.skipValue();
      cursor.space();
    } while (cursor.peek() === COMMA);
    return false;
  };
}

function isSealedSignature(value: Buffer): boolean {
  if (value[0] !== QUOTE) return false;
  const start = value.toString('latin1', 1, 1 + SIGNATURE_START);
  return decodeSignature(start, ENVELOPE_PREFIX).startsWith(ENVELOPE_PREFIX);
}

const CITATIONS: CutShape = { items: { isCut: hasEnvelope('encrypted_index') }, isCutWhenEmptied: true };
const BLOCK: CutShape = { isCut: hasEnvelope('signature', 'data'), members: { citations: CITATIONS } };
const REASONING: CutShape = { isCut: hasEnvelope('encrypted_content') };
const EXTRA_CONTENT: CutShape = { isCut: (value) => value.includes(OPENED) };
const CALLS: CutShape = { items: { members: { extra_content: EXTRA_CONTENT } } };
const DETAILS: CutShape = { items: { isCut: hasEnvelope('signature', 'data') }, isCutWhenEmptied: true };
const SIGNATURE: CutShape = { isCut: isSealedSignature };
const GEMINI_PARTS: CutShape = {
  items: { members: { thoughtSignature: SIGNATURE, thought_signature: SIGNATURE } },
};

const SHAPES: Readonly<Record<Format, CutShape>> = {
  messages: {
    members: {
      messages: { items: { members: { content: { items: BLOCK } }, isCutWhenEmptied: true } },
    },
  },
  responses: { members: { input: { items: REASONING } } },
  chat: {
    members: {
      messages: {
        items: { members: { tool_calls: CALLS, reasoning_details: DETAILS } },
      },
    },
  },
  gemini: { members: { contents: { items: { members: { parts: GEMINI_PARTS } } } } },
};

/**
 * What to cut out of a body that passes as it is, since its caller was answered by another vendor before: the reasoning that
 * only the other vendor understands, in envelopes of ours, and its citations where Anthropic's have a value of their own. The bytes have to be JSON, as a scan has found before.
 */
export function envelopeCuts(format: Format, body: Buffer): readonly Span[] {
  return cutsIn(body, SHAPES[format]);
}
