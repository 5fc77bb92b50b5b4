import { count, describedByVendor, flag, free, freeFields, list, model, object, unbounded } from './field.ts';
import { MEDIA, OUTPUT_TOKENS } from './notes.ts';

const SHOWN = { image: unbounded(MEDIA), document: unbounded(MEDIA) } as const;
const RESULT = object({
  ...freeFields('toolUseId', 'status'),
  content: list(object({ ...freeFields('text', 'json'), ...SHOWN })),
});

/** The body of Bedrock's Converse, which is written here alone. */
export const CONVERSE_FIELDS = {
  model,
  maxTokens: count(OUTPUT_TOKENS),
  messages: list(
    object({
      role: free,
      content: list(
        object({ ...freeFields('text', 'toolUse', 'reasoningContent'), ...SHOWN, toolResult: RESULT }),
      ),
    }),
  ),
  toolConfig: describedByVendor(free),
  outputConfig: describedByVendor(free),
  stream: flag,
  ...freeFields('system', 'inferenceConfig'),
} as const;
