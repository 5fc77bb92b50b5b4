import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HeldMemory, MemoryBudget, type MemoryUse } from './memoryBudget.ts';

const MIB = 1024 * 1024;

describe('the memory budget', () => {
  it('is never exceeded by what is tried, and gets everything back, however requests end', () => {
    const step = fc.record({
      request: fc.nat({ max: 3 }),
      what: fc.constantFrom('body', 'response', 'cache', 'release', 'close'),
      bytes: fc.nat({ max: 500 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const budget = new MemoryBudget(1_000);
        const requests = Array.from({ length: 4 }, () => new HeldMemory(budget));
        for (const { request, what, bytes } of steps) {
          const held = requests[request];
          if (what === 'body') {
            try {
              held?.takeBody(bytes, bytes, 'ada');
            } catch {}
          } else if (what === 'release') held?.release(bytes);
          else if (what === 'close') held?.close();
          else held?.tryTake(bytes, what);
          expect(budget.usedBytes).toBeGreaterThanOrEqual(0);
          expect(budget.usedBytes).toBeLessThanOrEqual(budget.limitBytes);
        }
        for (const held of requests) held.close();
        expect(budget.usedBytes).toBe(0);
      }),
    );
  });

  it('takes nothing for a request that has ended', () => {
    const budget = new MemoryBudget(1_000);
    const held = new HeldMemory(budget);
    held.close();
    expect(held.tryTake(1)).toBe(false);
    held.take(1);
    expect(() => held.takeBody(1, 1, 'ada')).toThrow();
    expect(budget.usedBytes).toBe(0);
  });

  it('refuses a body for which nothing is free with a 503, and counts it', () => {
    const budget = new MemoryBudget(1_000);
    const refused: MemoryUse[] = [];
    budget.onRefusal((use) => refused.push(use));
    new HeldMemory(budget).takeBody(900, 900, 'ada');
    expect(() => new HeldMemory(budget).takeBody(101, 101, 'ada')).toThrow(
      expect.objectContaining({ kind: 'unavailable', code: 'memory_budget_exhausted' }),
    );
    expect(refused).toEqual(['request']);
  });

  it('has room for small bodies when large ones fill the rest', () => {
    const budget = new MemoryBudget(8 * MIB);
    const take = (bytes: number) => new HeldMemory(budget).takeBody(bytes, bytes, 'ada');
    expect(budget.maxBodyBytes).toBe(6 * MIB);
    for (const bytes of [3 * MIB, 3 * MIB]) take(bytes);
    expect(() => take(MIB + 1)).toThrow();
    for (const principal of ['bob', 'cy']) new HeldMemory(budget).takeBody(MIB, MIB, principal);
    expect(() => take(1)).toThrow();
  });

  it('leaves its last quarter to principals that hold little', () => {
    const budget = new MemoryBudget(8 * MIB);
    const bodies: HeldMemory[] = [];
    const take = (principal: string) => {
      const held = new HeldMemory(budget);
      held.takeBody(MIB, MIB, principal);
      bodies.push(held);
    };
    for (let at = 0; at < 6; at++) take('ada');
    expect(() => take('ada')).toThrow();
    take('bob');
    take('bob');
    expect(() => take('cy')).toThrow();
    for (const held of bodies) held.close();
    for (const held of bodies) held.close();
    expect(budget.usedBytes).toBe(0);
    // What ada held before is forgotten.
    budget.take(6 * MIB);
    take('ada');
    take('ada');
    expect(budget.usedBytes).toBe(8 * MIB);
  });

  it('evicts what can be given up before it refuses', () => {
    const budget = new MemoryBudget(1_000);
    let evictable = 600;
    budget.take(evictable);
    budget.onShortage((bytes) => {
      const evicted = Math.min(bytes, evictable);
      evictable -= evicted;
      budget.release(evicted);
    });
    expect(budget.tryTake(500)).toBe(true);
    expect(evictable).toBe(500);
    // It can never fit, so nothing is evicted for it.
    expect(budget.tryTake(1_001)).toBe(false);
    expect(evictable).toBe(500);
    expect(budget.tryTake(501)).toBe(false);
    expect(budget.tryTake(500)).toBe(true);
    expect([budget.usedBytes, evictable]).toEqual([1_000, 0]);
  });
});
