import { EventStreamCodec } from '@smithy/eventstream-codec';
import { describe, expect, it } from 'vitest';
import { CONVERSE_SHAPE } from './answerShapes.ts';
import { EventFrames } from './eventFrames.ts';

const toUtf8 = (input: Uint8Array | string) =>
  typeof input === 'string' ? input : Buffer.from(input).toString();
const codec = new EventStreamCodec(toUtf8, (input) => Buffer.from(input));

function frameOf(type: string, payload: object): Buffer {
  const text = (value: string) => ({ type: 'string' as const, value });
  const headers = { ':message-type': text('event'), ':event-type': text(type) };
  return Buffer.from(codec.encode({ headers, body: Buffer.from(JSON.stringify(payload)) }));
}

const EVENTS: readonly (readonly [string, object])[] = [
  ['messageStart', { role: 'assistant' }],
  ['contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Grüße, "Waage" ☃' } }],
  ['messageStop', { stopReason: 'end_turn' }],
];
const STREAM = Buffer.concat(EVENTS.map(([type, payload]) => frameOf(type, payload)));
const TEXT = EVENTS.map(([type, payload]) => `data: {"${type}":${JSON.stringify(payload)}}\n\n`).join('');

/** What is read from a stream that comes in these pieces. */
function read(pieces: readonly Buffer[]): string {
  const frames = new EventFrames(codec, CONVERSE_SHAPE);
  const texts: string[] = [];
  for (const piece of pieces) frames.push(piece, (events) => void texts.push(events.toString()));
  frames.end();
  return texts.join('');
}

function piecesOf(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
    bytes.subarray(n * size, (n + 1) * size),
  );
}

describe('frames of an event stream', () => {
  it('are read alike wherever the stream is cut', () => {
    for (let cut = 0; cut <= STREAM.length; cut++) {
      expect([cut, read([STREAM.subarray(0, cut), STREAM.subarray(cut)])]).toEqual([cut, TEXT]);
    }
  });

  it('are read alike in pieces of any size', () => {
    for (let size = 1; size <= STREAM.length; size++) {
      expect([size, read(piecesOf(STREAM, size))]).toEqual([size, TEXT]);
    }
  });

  it('are an error if the stream ends within one, after the events before it', () => {
    const whole = new Set(
      EVENTS.map((_, n) => Buffer.concat(EVENTS.slice(0, n).map((one) => frameOf(...one))).length),
    );
    for (let end = 0; end < STREAM.length; end++) {
      const cut = () => read([STREAM.subarray(0, end)]);
      if (whole.has(end)) expect(TEXT.startsWith(cut())).toBe(true);
      else expect(cut).toThrow('broke off');
    }
  });

  it('are an error if a byte was changed on the way, wherever it is', () => {
    for (let at = 0; at < STREAM.length; at++) {
      const changed = Buffer.from(STREAM);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => read([changed]), `byte ${at}`).toThrow();
    }
  });
});
