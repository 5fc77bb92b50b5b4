import type { GenerationRequest } from './generationRequest.ts';

/** The model may think before it answers, and is billed for what a client does not see. */
export function mayReason(
  { asksToReason }: Pick<GenerationRequest, 'asksToReason'>,
  { capabilities }: { readonly capabilities: readonly string[] },
): boolean {
  return asksToReason || capabilities.includes('reasoning');
}

/** Types of parts, and names of fields, that stand for what is not text, in any dialect. */
const MEDIA_MARKS = [
  '"image',
  '"input_image"',
  '"input_audio"',
  '"input_file"',
  '"audio',
  '"video',
  '"file',
  '"document',
  // Gemini's.
  '"inlineData',
  '"inline_data',
  '"responseModalities',
  '"response_modalities',
];

/**
 * The request may hold images, audio or files, or ask for some: their tokens say little about their bytes. It searches the
 * whole body, and may find a mark in a text: to be asked only if the vendor reported no usage.
 */
export function mayHaveMedia({ body }: Pick<GenerationRequest, 'body'>): boolean {
  return body.read((bytes) => MEDIA_MARKS.some((mark) => bytes.includes(mark)));
}

/** Gemini's, in both spellings. */
const MODALITIES = ['"responseModalities"', '"response_modalities"'];

/** The request names the kinds of output that it takes: not only text, most likely. */
export function asksForMedia({
  operation,
  body,
  spans,
}: Pick<GenerationRequest, 'operation' | 'body' | 'spans'>): boolean {
  if (spans.has('modalities')) return true;
  if (operation.format !== 'gemini') return false;
  return body.read((bytes) => MODALITIES.some((mark) => bytes.includes(mark)));
}

const ONE_HOUR = '"1h"';
const TTL = /"ttl"\s*:\s*$/;
/** A name, a colon and space: as much as is looked at before a value. */
const MAX_TTL_BYTES = 64;

/**
 * The request asks the vendor to cache a part of it for an hour, which costs more than the usual five minutes. It searches
 * the whole body: to be asked only if the vendor does not report the tokens by their time.
 */
export function asksToCacheForAnHour({ body }: Pick<GenerationRequest, 'body'>): boolean {
  return body.read((bytes) => {
    for (let at = bytes.indexOf(ONE_HOUR); at >= 0; at = bytes.indexOf(ONE_HOUR, at + 1)) {
      if (TTL.test(bytes.toString('latin1', Math.max(0, at - MAX_TTL_BYTES), at))) return true;
    }
    return false;
  });
}
