import { free, freeFields, kinds, model, priced, stored, textsOrTokens } from './field.ts';
import { SERVICE_TIER } from './notes.ts';

/** The body of a request for embeddings. Its input is text or numbers of tokens: each costs no more than its bytes. */
export const EMBEDDINGS_FIELDS = {
  model,
  input: textsOrTokens(),
  // A prompt that is text counts as any other text.
  prompt: kinds({ scalar: free, object: stored('a prompt that the vendor stores') }),
  ...freeFields('dimensions', 'encoding_format', 'user', 'metadata', 'output_dimension', 'output_dtype'),
  ...freeFields('input_type', 'truncate', 'embedding_types', 'task', 'truncation'),
  service_tier: priced(SERVICE_TIER),
} as const;
