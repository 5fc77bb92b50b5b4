import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { HeldMemory, MemoryBudget } from '../shared/memoryBudget.ts';
import { ResponseBody } from '../upstream/responseBody.ts';
import type { Attempt } from './attempt.ts';
import { SupersededResponse } from './supersededResponse.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function supersede(memory = new HeldMemory(new MemoryBudget(1_000))) {
  const calls: string[] = [];
  const body = new ResponseBody({ pause() {}, resume() {}, abort: () => calls.push('abort') });
  const attempt = { response: { status: 500, headers: {}, body } } as unknown as Attempt;
  return { superseded: new SupersededResponse(attempt, memory), body, calls };
}

it('drops a response whose body does not arrive in time, though no one takes it', async () => {
  const { superseded, body, calls } = supersede();
  body.push(Buffer.from('half'));
  await vi.advanceTimersByTimeAsync(999);
  expect(calls).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(calls).toEqual(['abort']);
  expect(await superseded.take()).toBeUndefined();
});

it('holds a complete response for as long as it takes, and leaves no timer behind', async () => {
  const { superseded, body, calls } = supersede();
  body.push(Buffer.from('all'));
  body.end();
  await vi.advanceTimersByTimeAsync(0);
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(60_000);
  const taken = await superseded.take();
  const chunks: string[] = [];
  await taken?.body.forEachChunk((chunk) => void chunks.push(String(chunk)));
  expect(chunks).toEqual(['all']);
  expect(calls).toEqual([]);
});

it('drops a response for which memory is short', async () => {
  const budget = new MemoryBudget(1_000);
  const { superseded, body, calls } = supersede(new HeldMemory(budget));
  body.push(Buffer.alloc(800));
  body.push(Buffer.alloc(800));
  body.end();
  expect(await superseded.take()).toBeUndefined();
  expect(calls).toEqual(['abort']);
  expect(budget.usedBytes).toBeLessThanOrEqual(800);
});
