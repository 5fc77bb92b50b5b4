import type { Format } from './format.ts';
import { encodeSignature } from './gemini/wire.ts';
import type { MarkedValues } from './json/keyWatch.ts';
import { ENVELOPE_PREFIX } from './wire/seal.ts';

/**
 * What a request needs on its way to a target: nothing, so that its bytes pass; its envelopes opened, since an earlier turn was
 * translated; or translation.
 */
export type Plan = 'pass' | 'pass-and-unseal' | 'translate';

const PREFIX = Buffer.from(ENVELOPE_PREFIX);
/** What the base64 of an envelope begins with, in each alphabet: the prefix has a whole number of triples, but for its end. */
const ENCODED_PREFIX = Buffer.from(encodeSignature(ENVELOPE_PREFIX).slice(0, 5));

/** Where a format has its envelopes, for a scan that passes all keys of a body anyhow. */
export const ENVELOPE_MARKS: Readonly<Record<Format, MarkedValues>> = {
  messages: { keys: ['signature', 'data'], prefix: PREFIX },
  responses: { keys: ['encrypted_content'], prefix: PREFIX },
  chat: { keys: ['thought_signature'], prefix: PREFIX },
  gemini: { keys: ['thoughtsignature', 'thought_signature'], prefix: ENCODED_PREFIX },
};

/** Chooses by the formats of caller and target, and by whether the body may have an envelope of ours. */
export function planFor(from: Format, to: Format, body: Buffer): Plan {
  if (from !== to) return 'translate';
  return mayHaveEnvelopes(from, body) ? 'pass-and-unseal' : 'pass';
}

/** One search over the bytes. It may find a text that is no envelope, and then nothing is changed. */
export function mayHaveEnvelopes(format: Format, body: Buffer): boolean {
  return body.includes(PREFIX) || (format === 'gemini' && body.includes(ENCODED_PREFIX));
}
