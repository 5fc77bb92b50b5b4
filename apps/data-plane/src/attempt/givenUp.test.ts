import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { AnswerBody } from '../upstream/answerBody.ts';
import type { Answered } from './attempt.ts';
import { GivenUp } from './givenUp.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function givenUp() {
  const told: string[] = [];
  const body = new AnswerBody({ pause() {}, resume() {}, abort: () => told.push('abort') });
  const answered = { answer: { status: 500, headers: {}, body } } as unknown as Answered;
  return { given: new GivenUp(answered), body, told };
}

it('lets go of an answer that does not come soon, though nobody takes it', async () => {
  const { given, body, told } = givenUp();
  body.push(Buffer.from('half'));
  await vi.advanceTimersByTimeAsync(999);
  expect(told).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(told).toEqual(['abort']);
  expect(await given.take()).toBeUndefined();
});

it('keeps one that came whole for as long as it takes, and leaves no timer behind', async () => {
  const { given, body, told } = givenUp();
  body.push(Buffer.from('all'));
  body.end();
  await vi.advanceTimersByTimeAsync(0);
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(60_000);
  const taken = await given.take();
  const chunks: string[] = [];
  await taken?.answer.body.each((chunk) => void chunks.push(String(chunk)));
  expect(chunks).toEqual(['all']);
  expect(told).toEqual([]);
});
