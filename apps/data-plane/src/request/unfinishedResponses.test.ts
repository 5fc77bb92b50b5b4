import { SettleResponseResponse_Result as Result } from '@weighbridge/contracts';
import { NO_TOKENS } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { noFacts, type ResponseFacts } from '../formats/responseFormat.ts';
import { type UnfinishedDeps, type UnfinishedResponse, UnfinishedResponses } from './unfinishedResponses.ts';

const logger = createLogger('test');
logger.level = 'silent';
const ONE: UnfinishedResponse = { responseId: 'r-1', connectorId: 'con_1', principalId: 'ada' };
const DONE: ResponseFacts = {
  ...noFacts(),
  status: 'completed',
  isFinal: true,
  usage: { ...NO_TOKENS, inputTokens: 5, outputTokens: 70 },
  said: { serviceTier: 'priority' },
  toolUses: { web_search: 2 },
};
const FINAL = {
  ...ONE,
  status: 'completed',
  usage: { input: 5, output: 70 },
  details: { serviceTier: 'priority', toolUses: { web_search: 2 } },
};
const WORKING: ResponseFacts = { ...noFacts(), status: 'in_progress', pending: true };
const HOUR_MS = 3_600_000;

let unfinished: UnfinishedResponses;
let settled: unknown[];
let reads: number[];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  settled = [];
  reads = [];
});
afterEach(() => {
  unfinished.close();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

function open(deps: Partial<UnfinishedDeps> = {}): UnfinishedResponses {
  const { read = async () => WORKING } = deps;
  unfinished = new UnfinishedResponses({
    settle: async (final) => {
      settled.push(final);
      return { result: Result.SETTLED };
    },
    listUnsettled: async () => ({ responses: [] }),
    modelIdOf: () => (name) => `openai/${name}`,
    nowMs: () => performance.now(),
    random: () => 0.5,
    logger,
    ...deps,
    read: (...args) => {
      reads.push(Math.round(performance.now() / 1_000));
      return read(...args);
    },
  });
  return unfinished;
}

it('asks less and less often until the response is final, and settles it once', async () => {
  const began = Math.round(performance.now() / 1_000);
  let isDone = false;
  open({ read: async () => (isDone ? DONE : WORKING) }).watch(ONE);
  unfinished.watch(ONE);
  await vi.advanceTimersByTimeAsync(70_000);
  expect(reads.map((at) => at - began)).toEqual([2, 4, 8, 16, 32, 64].map((s) => expect.closeTo(s, -1)));
  expect(settled).toEqual([]);
  isDone = true;
  await vi.advanceTimersByTimeAsync(70_000);
  expect(settled).toMatchObject([FINAL]);
  expect(unfinished.size).toBe(0);
});

it('gives up after 24 hours, and asks at most every five minutes', async () => {
  open().watch(ONE);
  await vi.advanceTimersByTimeAsync(25 * HOUR_MS);
  expect(unfinished.size).toBe(0);
  expect(reads.length).toBeGreaterThan(250);
  expect(reads.length).toBeLessThan(310);
  expect(settled).toEqual([]);
});

it('is told by whoever reads it first, and does not ask the vendor then', async () => {
  open().tell(ONE, WORKING);
  expect(unfinished.size).toBe(0);
  unfinished.watch(ONE);
  unfinished.tell(ONE, DONE);
  await vi.advanceTimersByTimeAsync(1_000);
  expect([settled, reads]).toMatchObject([[FINAL], []]);
  expect(unfinished.size).toBe(0);
});

it('tells the control plane again until the ledger has the attempt', async () => {
  const results = [Result.PENDING, Result.PENDING, Result.SETTLED];
  open({
    read: async () => DONE,
    settle: async (final) => {
      settled.push(final);
      if (settled.length === 1) throw new Error('unavailable');
      return { result: results.shift() ?? Result.UNKNOWN };
    },
  }).watch(ONE);
  await vi.advanceTimersByTimeAsync(120_000);
  expect(settled).toHaveLength(4);
  expect(reads).toHaveLength(1);
  expect(unfinished.size).toBe(0);
});

it('leaves the charge of a response that was deleted, or used nothing that can be', async () => {
  const answers = {
    'r-1': 'not_found',
    'r-2': { ...DONE, usage: NO_TOKENS },
    'r-3': { ...DONE, usage: undefined },
  } as const;
  open({ read: async ({ responseId }) => answers[responseId as 'r-1'] as never });
  for (const responseId of Object.keys(answers)) unfinished.watch({ ...ONE, responseId });
  await vi.advanceTimersByTimeAsync(300_000);
  expect(settled).toHaveLength(3);
  for (const final of settled) expect(final).not.toHaveProperty('usage');
  expect(unfinished.size).toBe(0);
});

it('costs nothing if it was cancelled before it used anything', async () => {
  open({ read: async () => ({ ...DONE, status: 'cancelled', usage: NO_TOKENS }) }).watch(ONE);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(settled).toMatchObject([{ status: 'cancelled', usage: { input: 0, output: 0 } }]);
});

it('goes on with what an earlier process left, once the control plane answers', async () => {
  let calls = 0;
  open({
    read: async () => DONE,
    listUnsettled: async () => {
      if (++calls < 3) throw new Error('unavailable');
      return { responses: [{ ...ONE, keyId: 'key_1', ageMs: 5n } as never] };
    },
  }).start();
  await vi.advanceTimersByTimeAsync(30_000);
  expect([calls, settled]).toMatchObject([3, [FINAL]]);
});

it('asks for at most four at a time, and stops when it is closed', async () => {
  let running = 0;
  let most = 0;
  const signals: AbortSignal[] = [];
  open({
    read: (_response, signal) => {
      signals.push(signal);
      most = Math.max(most, ++running);
      return new Promise((resolve) => setTimeout(() => resolve(--running >= 0 ? WORKING : WORKING), 3_000));
    },
  });
  for (let i = 0; i < 20; i++) unfinished.watch({ ...ONE, responseId: `r-${i}` });
  await vi.advanceTimersByTimeAsync(20_000);
  expect(most).toBe(4);
  unfinished.close();
  expect(signals.every(({ aborted }) => aborted)).toBe(true);
  await vi.advanceTimersByTimeAsync(10_000);
  const { length } = reads;
  await vi.advanceTimersByTimeAsync(HOUR_MS);
  expect(reads).toHaveLength(length);
});

it('counts the dearest that its request may have asked for, where another process served it', async () => {
  const used = { ...DONE.usage, ...NO_TOKENS, cacheWriteTokens: 30 };
  const facts = {
    ...DONE,
    usage: used,
    toolUses: { code_interpreter: 2 },
    others: [{ model: 'gpt-image-1', tokens: { ...NO_TOKENS, outputImageTokens: 9 } }],
  };
  const none = new Set<string>();
  const terms = {
    tools: { serverTools: new Set(['code_interpreter_4g']), freeTools: none },
    writesForLong: false,
  };
  open();
  unfinished.watch(ONE, terms);
  unfinished.tell(ONE, facts);
  const others = [{ model: 'openai/gpt-image-1', usage: { outputImage: 9 } }];
  await vi.advanceTimersByTimeAsync(2_000);
  expect(settled).toMatchObject([
    { usage: { cacheWrite: 30, cacheWrite1h: 0 }, details: { toolUses: { code_interpreter_4g: 2 } }, others },
  ]);
  // The proxy that served it goes first.
  unfinished.tell({ ...ONE, responseId: 'r-2' }, facts);
  await vi.advanceTimersByTimeAsync(300_000);
  expect(settled).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(70_000);
  expect(settled[1]).toMatchObject({
    usage: { cacheWrite: 0, cacheWrite1h: 30 },
    details: { toolUses: { code_interpreter_64g: 2 } },
    others,
  });
});

it('settles a response before it is deleted, unless the vendor still works on it', async () => {
  const states: (ResponseFacts | 'not_found')[] = [WORKING, DONE, 'not_found'];
  open({ read: async () => states.shift() ?? 'not_found' });
  expect(await unfinished.settleNow(ONE)).toBe('unfinished');
  expect(settled).toEqual([]);
  expect(await unfinished.settleNow(ONE)).toBe('settled');
  expect(settled).toMatchObject([FINAL]);
  expect(await unfinished.settleNow(ONE)).toBe('settled');
  expect(settled).toHaveLength(1);
});

it('leaves a response to the proxy that made it, and does not ask the vendor again', async () => {
  open({
    read: async () => DONE,
    settle: async (final) => {
      settled.push(final);
      return { result: Result.NOT_MAKER };
    },
  });
  expect(await unfinished.settleNow(ONE)).toBe('not_maker');
  unfinished.tell(ONE, DONE);
  await vi.advanceTimersByTimeAsync(600_000);
  expect([settled.length, reads.length, unfinished.size]).toEqual([2, 1, 0]);
});

it('does not let a response be deleted whose cost can not be read or recorded', async () => {
  open({ read: async () => Promise.reject(new Error('the vendor is away')) });
  await expect(unfinished.settleNow(ONE)).rejects.toThrow('the vendor is away');
  unfinished.close();
  open({ read: async () => DONE, settle: async () => ({ result: Result.PENDING }) });
  const settling = expect(unfinished.settleNow(ONE)).rejects.toThrow(
    'the ledger does not have the attempt yet',
  );
  await vi.advanceTimersByTimeAsync(20_000);
  await settling;
});
