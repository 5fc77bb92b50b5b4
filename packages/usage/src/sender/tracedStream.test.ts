import { createInProcessUsageStream } from '@weighbridge/bus';
import type { Tracing } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { tracedStream } from './tracedStream.ts';

it('passes on everything that the stream can do', async () => {
  const stream = createInProcessUsageStream({ onError: () => {} });
  const traced = tracedStream(stream, {} as Tracing);
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(stream)).filter(
    (name) => name !== 'constructor',
  );
  expect(methods).toContain('onAck');
  for (const name of methods) expect(traced).toHaveProperty(name, expect.any(Function));
  await traced.close();
});
