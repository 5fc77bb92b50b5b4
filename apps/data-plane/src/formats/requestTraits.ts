import { hasMember } from './decodedMembers.ts';
import type { GenerationRequest } from './generationRequest.ts';

/** Gemini's, in both spellings. */
const MODALITIES = ['responseModalities', 'response_modalities'];

/** The request names the kinds of output that it takes: not only text, most likely. */
export function asksForMedia({
  operation,
  body,
  spans,
}: Pick<GenerationRequest, 'operation' | 'body' | 'spans'>): boolean {
  if (spans.has('modalities')) return true;
  if (operation.format !== 'gemini') return false;
  return body.read((bytes) => hasMember(bytes, MODALITIES));
}
