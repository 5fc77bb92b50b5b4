import type { Format } from './format.ts';
import { encodeSignature } from './gemini/wire.ts';
import type { MarkedValues } from './json/keyWatch.ts';
import { ENVELOPE_PREFIX } from './wire/seal.ts';

/** Stands in an answer for what Anthropic's own citations have for its vendor only. */
export const FOREIGN_CITATION = `${ENVELOPE_PREFIX}citation`;

const PREFIX = Buffer.from(ENVELOPE_PREFIX);
/** What the base64 of an envelope begins with, in each alphabet: the prefix has a whole number of triples, but for its end. */
const ENCODED_PREFIX = Buffer.from(encodeSignature(ENVELOPE_PREFIX).slice(0, 5));

/** Where a format has its envelopes, for a scan that passes all keys of a body anyhow. */
export const ENVELOPE_MARKS: Readonly<Record<Format, MarkedValues>> = {
  messages: { keys: ['signature', 'data', 'encrypted_index'], prefix: PREFIX },
  responses: { keys: ['encrypted_content'], prefix: PREFIX },
  chat: { keys: ['thought_signature', 'signature', 'data'], prefix: PREFIX },
  gemini: { keys: ['thoughtsignature', 'thought_signature'], prefix: ENCODED_PREFIX },
};
