import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ChunkList } from './chunkList.ts';

describe('ChunkList', () => {
  it('holds the bytes of all chunks, in order', () => {
    const chunk = fc.integer({ min: 0, max: 9_000 }).map((length) => Buffer.alloc(length, length));
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 20 }), (chunks) => {
        const list = new ChunkList();
        for (const one of chunks) list.add(one);
        const all = Buffer.concat(chunks);
        expect(list.length).toBe(all.length);
        // Comparing the buffers element by element would take a hundred times as long.
        expect(Buffer.concat([...list.chunks]).equals(all)).toBe(true);
        list.clear();
        expect([list.length, list.chunks]).toEqual([0, []]);
      }),
    );
  });

  it('takes about as much memory as the bytes, however small the chunks', () => {
    const list = new ChunkList();
    const source = Buffer.alloc(64 * 1024);
    for (let at = 0; at < 100_000; at++) list.add(source.subarray(at % 1_000, (at % 1_000) + 1));
    expect(list.chunks.length).toBeLessThan(20);
    const retained = new Set(list.chunks.map(({ buffer }) => buffer));
    const bytes = [...retained].reduce((sum, { byteLength }) => sum + byteLength, 0);
    expect(bytes).toBeLessThan(4 * list.length);
  });
});
