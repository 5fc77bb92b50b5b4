import { expect, test } from 'vitest';
import { NORMAL, parseBehaviour } from './behaviour.ts';

test('without headers the vendor behaves normally', () => {
  expect(NORMAL).toMatchObject({ delayMs: 0, interruption: 'none', usage: 'counted', encoding: undefined });
  expect(parseBehaviour({ 'x-other': '1', authorization: 'Bearer x' })).toEqual(NORMAL);
});

test('every header is parsed', () => {
  const headers = {
    'x-mock-status': '503',
    'x-mock-delay-ms': '5',
    'x-mock-chunk-delay-ms': '6',
    'x-mock-chunks': '7',
    'x-mock-input-tokens': '8',
    'x-mock-output-tokens': '9',
    'x-mock-cached-tokens': '10',
    'x-mock-cache-write-tokens': '13',
    'x-mock-cache-write-1h-tokens': '14',
    'x-mock-reasoning-tokens': '11',
    'x-mock-no-usage': 'true',
    'x-mock-reset': 'mid',
    'x-mock-split': '12',
    'x-mock-gzip': 'true',
    'x-mock-content-type': 'text/html',
    'x-mock-generate-ms': '15',
    'x-mock-background-ms': '16',
    'x-mock-hidden-reasoning': 'true',
    'x-mock-hidden-cache-ttl': 'true',
    'x-mock-tool': 'weigh {"truck":1} | park {}',
    'x-mock-tool-rounds': '3',
    'x-mock-parallel-calls': '4',
    'x-mock-usage-at': 'start',
    'x-mock-id-at': 'end',
    'x-mock-pending-usage': 'zero',
    'x-mock-input-audio-tokens': '17',
    'x-mock-input-image-tokens': '18',
    'x-mock-cached-audio-tokens': '19',
    'x-mock-output-audio-tokens': '20',
    'x-mock-output-image-tokens': '21',
    'x-mock-served-tier': 'default',
    'x-mock-served-speed': 'standard',
    'x-mock-served-geo': 'us',
    'x-mock-fallback': '1',
    'x-mock-tool-uses': 'web_search=2, file_search=1',
    'x-mock-compaction-tokens': '22',
    'x-mock-advisor-tokens': '23',
    'x-mock-image-tool-tokens': '24',
    'x-mock-honours': 'max_tokens',
    'x-mock-after-disconnect': 'bill',
    'x-mock-pad-bytes': '25',
    'x-mock-padding': 'objects',
  };
  expect(parseBehaviour(headers)).toEqual({
    status: 503,
    delayMs: 5,
    chunkDelayMs: 6,
    chunks: 7,
    inputTokens: 8,
    outputTokens: 9,
    cachedTokens: 10,
    cacheWriteTokens: 13,
    cacheWrite1hTokens: 14,
    reasoningTokens: 11,
    usage: 'none',
    interruption: 'reset mid',
    splitBytes: 12,
    encoding: 'gzip',
    contentType: 'text/html',
    generateMs: 15,
    backgroundMs: 16,
    hidesReasoning: true,
    toolCalls: [
      { name: 'weigh', arguments: '{"truck":1}' },
      { name: 'park', arguments: '{}' },
    ],
    toolRounds: 3,
    parallelCalls: 4,
    hidesCacheTtl: true,
    usageAt: 'start',
    idAt: 'end',
    pendingUsage: 'zero',
    media: { inputAudio: 17, inputImage: 18, cachedAudio: 19, outputAudio: 20, outputImage: 21 },
    serving: {
      serviceTier: 'default',
      speed: 'standard',
      geography: 'us',
      fallback: 1,
      toolUses: { web_search: 2, file_search: 1 },
      compactionTokens: 22,
      advisorTokens: 23,
      imageToolTokens: 24,
    },
    honours: 'max_tokens',
    billsAfterDisconnect: true,
    paddingBytes: 25,
    padding: 'objects',
  });
  expect(parseBehaviour({ 'x-mock-encoding': 'br' }).encoding).toBe('br');
  expect(parseBehaviour({ 'x-mock-zero-usage': 'true' }).usage).toBe('zero');
  expect(parseBehaviour({ 'x-mock-stall': 'mid' }).interruption).toBe('stall mid');
  expect(parseBehaviour({ 'x-mock-sse-error': 'true' }).interruption).toBe('SSE error mid');
});

test.each([
  [{ 'x-mock-status': '200' }, 'integer from 400 to 599'],
  [{ 'x-mock-delay-ms': '60001' }, 'integer from 0 to 60000'],
  [{ 'x-mock-delay-ms': '1e3' }, 'integer from 0 to 60000'],
  [{ 'x-mock-chunks': '0' }, 'integer from 1 to 128000'],
  [{ 'x-mock-split': '0' }, 'integer from 1 to'],
  [{ 'x-mock-reset': 'after' }, 'before or headers or mid'],
  [{ 'x-mock-stall': 'true' }, 'must be mid'],
  [{ 'x-mock-gzip': 'yes' }, 'true or false'],
  [{ 'x-mock-encoding': 'zstd' }, 'gzip or deflate or br'],
  [{ 'x-mock-content-type': '' }, 'such as text/html'],
  [{ 'x-mock-no-usage': 'true', 'x-mock-zero-usage': 'true' }, 'not both'],
  [{ 'x-mock-reset': 'mid', 'x-mock-stall': 'mid' }, 'is interrupted once'],
  [{ 'x-mock-chunks': '3', 'x-mock-output-tokens': '2' }, 'at most x-mock-output-tokens'],
  [{ 'x-mock-tool': 'weigh' }, 'such as weigh {"truck":1}'],
  [{ 'x-mock-tool-uses': 'web_search' }, 'such as web_search=2'],
  [{ 'x-mock-tool-uses': 'web_search=1001' }, 'counts up to 1000'],
  [{ 'x-mock-pad-bytes': '1073741825' }, 'integer from 0 to 1073741824'],
  [{ 'x-mock-honours': 'n' }, 'max_tokens or max_completion_tokens'],
  [{ 'x-mock-delay': '5' }, 'x-mock-delay is not a header'],
])('a bad value says how to write it: %j', (headers, message) => {
  expect(() => parseBehaviour(headers)).toThrow(message);
});
