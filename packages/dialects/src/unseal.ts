import type { Format } from './format.ts';
import { decodeSignature } from './gemini/wire.ts';
import { type CutShape, cutsIn } from './json/cuts.ts';
import type { Span } from './json/jsonCursor.ts';
import { parseJson, textOf } from './json/writeJson.ts';
import { isRecord } from './loss/fields.ts';
import { ENVELOPE_PREFIX } from './wire/seal.ts';

/** Whether an item has an envelope in one of these members. */
function hasEnvelope(...members: readonly string[]): (text: string) => boolean {
  return (text) => {
    if (!text.includes(ENVELOPE_PREFIX)) return false;
    const item = parseJson(text);
    return isRecord(item) && members.some((name) => textOf(item[name]).startsWith(ENVELOPE_PREFIX));
  };
}

const CITATIONS: CutShape = { items: { isCut: hasEnvelope('encrypted_index') }, isCutWhenEmptied: true };
const BLOCK: CutShape = { isCut: hasEnvelope('signature', 'data'), members: { citations: CITATIONS } };
const REASONING: CutShape = { isCut: hasEnvelope('encrypted_content') };
const EXTRA_CONTENT: CutShape = { isCut: (text) => text.includes(`"${ENVELOPE_PREFIX}`) };
const SIGNATURE: CutShape = {
  isCut: (text) => decodeSignature(textOf(parseJson(text)), ENVELOPE_PREFIX).startsWith(ENVELOPE_PREFIX),
};
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
        items: { members: { tool_calls: { items: { members: { extra_content: EXTRA_CONTENT } } } } },
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
