import { OPERATIONS, type Operation } from '../../src/formats/operation.ts';
import {
  anyNumber,
  anyStyle,
  anyText,
  anyValue,
  type Member,
  Members,
  shuffled,
  writeJson,
} from './jsonText.ts';
import { damaged, type Random } from './random.ts';

/** A generated body, and what its generator knows of it. */
export interface FuzzRequest {
  readonly operation: Operation;
  readonly path: string;
  readonly bytes: Buffer;
  /** Bytes were changed at random: it may be no JSON any more, or another request. */
  readonly isDamaged: boolean;
  /** A field that the service reads occurs twice, or `model` in another case too. */
  readonly isAmbiguous: boolean;
}

const PATHS = [
  '/chat/completions',
  '/chat/completions',
  '/responses',
  '/messages',
  '/completions',
  '/embeddings',
];
const MODELS: readonly unknown[] = [
  ...Array(12).fill('mock/echo'),
  'mock/gpt/with/slashes',
  'mock/gpt/with/slashes',
  'nope/none',
  'mock/unknown',
  '',
  null,
  42,
  ['mock/echo'],
];

/** A request for a model to generate, in one of the usual operations. */
export function fuzzRequest(random: Random): FuzzRequest {
  const below = random.pick(PATHS);
  const operation = OPERATIONS.find(({ path }) => path === below) as Operation;
  const members = [...membersOf(random, below)];
  const extra = random.chance(0.06) ? ambiguity(random, operation, members) : undefined;
  if (extra) members.push(extra);
  const isAmbiguous = extra !== undefined;
  const order = random.chance(0.5) ? shuffled(random, members) : members;
  const text = writeJson(random, anyStyle(random), new Members(order));
  const bytes = Buffer.from(text);
  const isDamaged = random.chance(0.12);
  return {
    operation,
    path: `${random.chance(0.1) && below !== '/messages' ? '/openai' : ''}/v1${below}`,
    bytes: isDamaged ? damaged(random, bytes) : bytes,
    isDamaged,
    isAmbiguous,
  };
}

/** The same field again, or `model` in another case: vendors differ in which they read. */
function ambiguity(random: Random, { fields }: Operation, members: readonly Member[]): Member | undefined {
  const read = members.filter(([name]) => fields.has(name));
  if (read.length === 0 || random.chance(0.3)) return [random.pick(['Model', 'MODEL', 'modeL']), 'mock/echo'];
  return [random.pick(read)[0], anyValue(random)];
}

function* membersOf(random: Random, path: string): Generator<Member> {
  const some = (share: number) => random.chance(share);
  if (some(0.98)) yield ['model', random.pick(MODELS)];
  if (some(0.6)) yield ['stream', random.pick<unknown>([true, true, true, false, null, 'true', 1])];
  if (some(0.3)) yield ['stream_options', optionsOf(random)];
  for (const field of ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'best_of']) {
    if (some(0.15)) yield [field, some(0.7) ? 1 + random.integer(50) : anyNumber(random)];
  }
  if (some(0.05)) yield ['service_tier', random.pick<unknown>(['auto', 'default', null, 7])];
  if (some(0.05)) yield ['reasoning_effort', random.pick<unknown>(['none', 'low', null])];
  if (some(0.05)) yield ['thinking', random.pick<unknown>([{ type: 'disabled' }, { type: 'enabled' }, null])];
  if (some(0.03)) yield ['prompt_cache_key', anyText(random)];
  if (some(0.05)) yield ['store', random.pick<unknown>([true, false, null])];
  for (let left = some(0.4) ? random.integer(5) : 0; left > 0; left--) {
    // Each name once: of other fields, a repeated one passes, and JSON.parse keeps the last.
    yield [`x_${left}${anyText(random).slice(0, 20)}`, anyValue(random)];
  }
  yield contentOf(random, path);
}

function contentOf(random: Random, path: string): Member {
  if (path === '/responses') {
    return ['input', random.chance(0.5) ? anyText(random) : [{ role: 'user', content: anyText(random) }]];
  }
  if (path === '/embeddings') return ['input', random.chance(0.5) ? anyText(random) : [1, 2, 3]];
  if (path === '/completions') {
    return [
      'prompt',
      random.pick<unknown>([anyText(random), [anyText(random), 'x'], [1, 2], [[1], [2]], []]),
    ];
  }
  const messages = Array.from({ length: 1 + random.integer(3) }, () => ({
    role: random.pick(['user', 'assistant', 'system']),
    content: random.chance(0.7) ? anyText(random) : [{ type: 'text', text: anyText(random) }],
  }));
  return ['messages', messages];
}

function optionsOf(random: Random): unknown {
  const asks = random.pick<unknown>([true, true, false, null, 'true']);
  return random.pick<unknown>([
    {},
    { include_usage: asks },
    { include_obfuscation: false },
    { include_obfuscation: false, include_usage: asks },
    { include_usage: asks, a: { include_usage: 1 } },
    null,
    'all',
    [],
  ]);
}
