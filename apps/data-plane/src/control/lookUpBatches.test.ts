import { create } from '@bufbuild/protobuf';
import { status as GrpcStatus } from '@grpc/grpc-js';
import { type ResolveResponse, ResolveResponseSchema } from '@weighbridge/contracts';
import { MAX_KEYS_PER_CALL } from '@weighbridge/state';
import { expect, it } from 'vitest';
import { LookUpBatches } from './lookUpBatches.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A control plane that answers each token with its number as the revision, when it is told to. */
function world() {
  const state = {
    stream: 1,
    /** The sizes of the batches, and the number of single look-ups. */
    batches: [] as number[],
    singles: 0,
    /** The most responses to a batch. */
    fits: Number.POSITIVE_INFINITY,
    fails: undefined as number | undefined,
    isHeld: false,
    mostAtOnce: 0,
  };
  let running = 0;
  const answer = (token: Uint8Array): ResolveResponse =>
    create(ResolveResponseSchema, { revision: BigInt((token[0] ?? 0) * 256 + (token[1] ?? 0)) });
  const batches = new LookUpBatches({
    resolveKeys: async (tokens) => {
      state.batches.push(tokens.length);
      state.mostAtOnce = Math.max(state.mostAtOnce, ++running);
      do await turn();
      while (state.isHeld);
      running--;
      if (state.fails !== undefined) throw Object.assign(new Error('refused'), { code: state.fails });
      return tokens.slice(0, state.fits).map(answer);
    },
    resolve: async (token) => {
      state.singles++;
      if (token[1] === 7 && state.fails === GrpcStatus.INTERNAL) throw new Error('this key can not be read');
      return answer(token);
    },
    stream: () => state.stream,
  });
  const ask = (n: number) =>
    batches.resolve(Uint8Array.of(n >> 8, n & 255)).then(
      ({ revision }) => Number(revision),
      () => 'failed',
    );
  return { state, ask, askAll: (count: number) => Promise.all(numbers(count).map(ask)) };
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

it('looks up those of one turn in one call, each with its own response', async () => {
  const { state, askAll } = world();
  expect(await askAll(150)).toEqual(numbers(150));
  expect([state.batches, state.singles]).toEqual([[150], 0]);
});

it('makes few calls at once, and takes all that came meanwhile into the next ones', async () => {
  const { state, ask } = world();
  state.isHeld = true;
  const found: Promise<unknown>[] = [];
  for (const n of numbers(500)) {
    found.push(ask(n));
    if (n < 4) await turn();
  }
  state.isHeld = false;
  expect(await Promise.all(found)).toEqual(numbers(500));
  expect(state.batches).toEqual([1, 1, 1, 1, MAX_KEYS_PER_CALL, MAX_KEYS_PER_CALL, 96]);
  expect(state.mostAtOnce).toBe(4);
});

it('asks again for those that did not fit into a response', async () => {
  const { state, askAll } = world();
  state.fits = 30;
  expect(await askAll(100)).toEqual(numbers(100));
  expect(state.batches).toEqual([100, 70, 40, 10]);
  state.fits = 0;
  expect(await askAll(1)).toEqual(['failed']);
});

it('looks up one by one at a control plane that knows no other way, until the stream begins anew', async () => {
  const { state, askAll } = world();
  state.fails = GrpcStatus.UNIMPLEMENTED;
  expect(await askAll(20)).toEqual(numbers(20));
  expect(await askAll(20)).toEqual(numbers(20));
  expect([state.batches, state.singles]).toEqual([[20], 40]);
  state.fails = undefined;
  state.stream = 2;
  expect(await askAll(20)).toEqual(numbers(20));
  expect([state.batches, state.singles]).toEqual([[20, 20], 40]);
});

it('lets a key that cannot be read fail alone', async () => {
  const { state, askAll } = world();
  state.fails = GrpcStatus.INTERNAL;
  expect(await askAll(10)).toEqual(numbers(10).map((n) => (n === 7 ? 'failed' : n)));
});

it('fails all at once while no control plane answers', async () => {
  for (const code of [GrpcStatus.UNAVAILABLE, GrpcStatus.DEADLINE_EXCEEDED]) {
    const { state, askAll } = world();
    state.fails = code;
    expect(new Set(await askAll(100))).toEqual(new Set(['failed']));
    expect([state.batches, state.singles]).toEqual([[100], 0]);
  }
});
