import { bench, describe } from 'vitest';
import { FORMATS } from '../src/format.ts';
import { StreamTranslator } from '../src/translateAnswer.ts';
import { parseRequest, translateRequest } from '../src/translateRequest.ts';
import { SseSplitter } from '../src/wire/sseSplitter.ts';
import { answerOptions, vendorStream } from './answers.ts';
import { SAMPLES } from './samples.ts';
import { SCOPE, targetOf } from './translating.ts';

// vitest bench --run --config packages/testing/vitest.config.ts packages/dialects/test/speed.bench.ts

const PAIRS = FORMATS.flatMap((from) => FORMATS.filter((to) => to !== from).map((to) => ({ from, to })));
const FRAMES = 1_000;
const words = Array.from({ length: FRAMES }, (_, index) => `word${index} `);
const ANSWER = { reasoning: [], opaque: '', text: words, calls: [] };

// The mean in ms is that of a frame in µs. At most 5.
describe('1,000 frames', () => {
  for (const { from, to } of PAIRS) {
    const events = new SseSplitter().push(Buffer.from(vendorStream(from, ANSWER)));
    bench(`${from} to ${to}`, () => {
      const translator = new StreamTranslator(answerOptions(from, to));
      for (const event of events) translator.push(event);
      translator.end();
    });
  }
});

// At most 1 ms.
describe('a request of 83 KB', () => {
  for (const { from, to } of PAIRS) {
    const body = largeBody(from);
    bench(`${from} to ${to}`, () => {
      const request = parseRequest(from, body);
      if (request) translateRequest(request, { target: targetOf(to), scope: SCOPE, policy: 'lenient' });
    });
  }
});

/** Like an agent's: some tools, and a long conversation of middling texts. */
function largeBody(format: (typeof FORMATS)[number]): Buffer {
  const sample: Record<string, unknown> = { ...SAMPLES[format] };
  const list = format === 'responses' ? 'input' : format === 'gemini' ? 'contents' : 'messages';
  const text = 'A line of a file that an agent has read, with "quotes" and \\ escapes.\n'.repeat(20);
  const turn = (role: string) =>
    format === 'gemini'
      ? { role: role === 'user' ? role : 'model', parts: [{ text }] }
      : { role, content: text };
  const turns = Array.from({ length: 55 }, (_, index) => turn(index % 2 === 0 ? 'assistant' : 'user'));
  sample[list] = [...(sample[list] as unknown[]), ...turns];
  return Buffer.from(JSON.stringify(sample));
}
