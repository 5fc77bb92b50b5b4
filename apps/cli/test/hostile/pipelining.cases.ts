import { connect } from 'node:net';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { chat, type HostileCase } from './hostileCase.ts';
import type { Scene } from './scene.ts';

/** More than any client sends ahead of the answers. */
const REQUESTS = 400;

/** What one connection can make the product hold. */
export const PIPELINING: readonly HostileCase[] = [
  {
    row: 'pipelined requests',
    title: 'beyond a few are not begun: their connection is closed',
    run: manyAreNotBegun,
  },
];

async function manyAreNotBegun({ product, tenant, vendor }: Scene): Promise<void> {
  const caller = await tenant();
  const begun = () => vendor('openai').requests.filter(({ headers }) => headers['x-mark'] === caller.mark);
  const { hostname, port } = new URL(product.inferenceUrl);
  const body = JSON.stringify(chat('openai/plain'));
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${caller.key}\r\nx-mark: ${caller.mark}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
  const socket = connect(Number(port), hostname);
  let isClosed = false;
  socket.on('error', () => {});
  socket.on('close', () => {
    isClosed = true;
  });
  socket.resume();
  socket.write((head + body).repeat(REQUESTS));
  try {
    // If the connection stays open, the failure shows how many requests were begun.
    await eventually(() => expect([isClosed, begun().length]).toEqual([true, expect.any(Number)]));
    expect(begun().length).toBeLessThan(REQUESTS / 4);
  } finally {
    socket.destroy();
  }
}
