import type { Format, TargetFormat } from './format.ts';
import { GEMINI_SHAPE } from './gemini/readRequest.ts';
import type { KeptShape } from './json/parseBody.ts';
import { isRecord } from './loss/fields.ts';

/** Gemini's counter takes contents, or a whole request in one member. */
const WHOLE_REQUEST = ['generateContentRequest', 'generate_content_request'] as const;

export const GEMINI_COUNT_SHAPE: KeptShape = {
  members: {
    ...(typeof GEMINI_SHAPE === 'object' ? GEMINI_SHAPE.members : {}),
    ...Object.fromEntries(WHOLE_REQUEST.map((name) => [name, GEMINI_SHAPE])),
  },
};

/** The request whose tokens a caller wants to know. */
export function requestToCount(format: Format, value: unknown): unknown {
  if (format !== 'gemini' || !isRecord(value)) return value;
  const name = WHOLE_REQUEST.find((one) => isRecord(value[one]));
  return name === undefined ? value : value[name];
}

/** What the counters take of a request: others than these members are refused. */
const COUNTED: Readonly<Partial<Record<TargetFormat, ReadonlySet<string>>>> = {
  messages: new Set(['model', 'messages', 'system', 'tools', 'tool_choice', 'thinking', 'output_config']),
  responses: new Set([
    'model',
    'input',
    'instructions',
    'tools',
    'tool_choice',
    'parallel_tool_calls',
    'reasoning',
    'text',
    'truncation',
  ]),
};

/** The body by which a vendor is asked to count a request. */
export function countedBody(format: TargetFormat, model: string, body: object): object {
  if (format === 'gemini') return { generateContentRequest: { model: `models/${model}`, ...body } };
  const counted = COUNTED[format];
  if (!counted) return body;
  return Object.fromEntries(Object.entries(body).filter(([name]) => counted.has(name)));
}

/** The tokens in a counter's answer; undefined if it has none. */
export function readCount(format: Format, body: string): number | undefined {
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch {
    return undefined;
  }
  const tokens = isRecord(answer) ? answer[format === 'gemini' ? 'totalTokens' : 'input_tokens'] : undefined;
  return Number.isSafeInteger(tokens) && (tokens as number) >= 0 ? (tokens as number) : undefined;
}

/** The answer of a format's counter. Chat completions have none. */
export function writeCount(format: Format, tokens: number): string {
  if (format === 'gemini') return JSON.stringify({ totalTokens: tokens });
  return JSON.stringify({
    ...(format === 'responses' && { object: 'response.input_tokens' }),
    input_tokens: tokens,
  });
}
