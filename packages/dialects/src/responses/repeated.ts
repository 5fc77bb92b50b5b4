import type { JsonText } from '../ir/request.ts';
import { type KeptShape, type ParseLimits, parseBody } from '../json/parseBody.ts';
import { raw } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';

/** What a response repeats of its request, and what it says where the request says nothing. */
const REPEATED = {
  instructions: null,
  max_output_tokens: null,
  metadata: {},
  parallel_tool_calls: true,
  reasoning: { effort: null, summary: null },
  temperature: null,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  tools: [],
  top_p: null,
  truncation: 'disabled',
};

const SHAPE: KeptShape = {
  members: Object.fromEntries(['input', ...Object.keys(REPEATED)].map((name) => [name, 'kept'])),
};
/** Between tokens only: a string has none. A line of a stream must not end there. */
const LINE_ENDS = /[\r\n]+/g;

/** In all: a stream writes it three times, and holds it for as long as it runs. */
const MAX_LENGTH = 256 * 1024;

/** The members of a request's body that its response repeats, as they were sent, as far as they are short. */
export function repeatedOf(bytes: Uint8Array, limits: ParseLimits): object {
  const { value, kept } = parseBody(bytes, SHAPE, limits) ?? { value: undefined, kept: [] };
  const sent = isRecord(value) ? value : {};
  let left = MAX_LENGTH;
  return Object.fromEntries(
    Object.entries(REPEATED).map(([name, otherwise]) => {
      const text = kept[Number(sent[name])] ?? 'null';
      if (text === 'null' || text.length > left) return [name, otherwise];
      left -= text.length;
      return [name, raw(text.replaceAll(LINE_ENDS, ' ') as JsonText)];
    }),
  );
}
