import { expect, it } from 'vitest';
import { BlockQueue } from './blockQueue.ts';

it('says what it holds, until that goes out', () => {
  const queue = new BlockQueue();
  queue.push({ type: 'open', at: 0, block: 'text' });
  queue.push({ type: 'delta', at: 0, text: 'x'.repeat(1_000) });
  expect(queue.heldBytes).toBe(0);
  queue.push({ type: 'open', at: 1, block: 'text' });
  queue.push({ type: 'delta', at: 1, text: 'é'.repeat(1_000) });
  queue.push({ type: 'delta', at: 9, text: 'of no block' });
  expect(queue.heldBytes).toBeGreaterThan(2_000);
  expect(queue.heldBytes).toBeLessThan(2_500);
  expect(queue.push({ type: 'close', at: 0 })).toHaveLength(3);
  expect(queue.heldBytes).toBe(0);
  expect(queue.end()).toEqual([{ type: 'close', at: 1 }]);
});
